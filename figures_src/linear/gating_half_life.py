"""What a gate's input means: how much of a token is left so many tokens later. Used on linear/gating."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.delta import bounded_gate, softplus_gate

ALT = (
    "Share of old content that is left against the tokens since it was written, on a logarithmic axis of twelve "
    "doublings, for a gate input of {z} at every token. One curve for the softplus gate, one for the bounded gate; "
    "dots mark both after {tokens} tokens, and a dotted line the half."
)

TOKENS = tuple(2**n for n in range(13))


def decays(z: float) -> dict[str, float]:
    """Log decay per token of both gates (A = 0, no bias)."""
    at = torch.tensor([float(z)], dtype=torch.float64)
    return {"softplus": softplus_gate(at, 0.0, 0.0).item(), "bounded": bounded_gate(at, 0.0).item()}


def draw(*, z: float = -6, tokens: int = 64) -> Figure:
    fig, ax = style.subplots(width=4.8, height=3.1)
    ax.axhline(0.5, color=style.INK, linewidth=0.8, linestyle=":")
    colors = {"softplus": style.COLORS["delta"], "bounded": style.COLORS["gated"]}
    x = 2 ** (np.arange(0, 49) / 4)
    for place, (name, g) in enumerate(decays(z).items()):
        y = np.exp(g * x)
        ax.plot(style.rounded(x), style.rounded(np.where(y < 1e-3, 0.0, y)), color=colors[name])
        left = math.exp(g * tokens)
        ax.plot([tokens], [style.rounded(left if left > 1e-3 else 0.0)], "o", color=colors[name], markersize=8)
        ax.text(4000, 1.0 - 0.1 * place, name, color=colors[name], fontsize=10.5, ha="right", va="top", weight="bold")
    ax.set_xscale("log")
    ax.set_xticks([1, 4, 16, 64, 256, 1024, 4096], ["1", "4", "16", "64", "256", "1,024", "4,096"])
    ax.minorticks_off()
    ax.set_xlim(0.9, 4600)
    ax.set_ylim(-0.03, 1.05)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    ax.set_xlabel("tokens since it was written")
    ax.set_ylabel("share left")
    return fig


def reading(*, z: float = -6, tokens: int = 64) -> str:
    parts = []
    for name, g in decays(z).items():
        half, left = math.log(2) / -g, math.exp(g * tokens)
        share = f"{left:.1%}" if left > 1e-3 else "less than 0.1%"
        parts.append(f"{name}: half-life {half:,.0f} tokens" if half >= 10 else f"{name}: half-life {half:.2g} tokens")
        parts[-1] += f", {share} left after {tokens:,}"
    return "; ".join(parts) + "."
