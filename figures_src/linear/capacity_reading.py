"""What each answer is made of: a mechanism recalls as long as its reading weights are the identity.
Used on linear/capacity."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from attnledger import style
from attnledger.ops.delta import delta_rule
from attnledger.ops.softmax import attention_weights

ALT = (
    "A square of {m} by {m} cells for {m} pairs of width {d}, mechanism: {rule}. Row: the key that is asked, oldest on "
    "top. Column: the stored value, oldest on the left. Strong colour: much of that value is in the answer. Perfect "
    "recall would be a diagonal line and nothing else."
)

DECAY = 0.97
COLORS = {"additive": "linear", "delta": "delta", "gated delta": "gated", "best state": "muted", "softmax": "softmax"}
LEVELS = 8


def weights(m: int, d: int, rule: str) -> torch.Tensor:
    """``(m, m)``: how much of value j the answer to key i holds. Written values are the unit vectors."""
    generator = torch.Generator().manual_seed(1)
    k = normalize(torch.randn(32, 32, generator=generator, dtype=torch.float64)[:m, :d], dim=-1)
    one_each, ones = torch.eye(m, dtype=torch.float64), torch.ones(m, dtype=torch.float64)
    if rule == "softmax":
        return attention_weights(k, k, causal=False, scale=math.sqrt(d))
    if rule == "additive":
        return k @ k.mT
    if rule == "best state":
        return k @ torch.linalg.pinv(k)
    g = math.log(DECAY) * ones if rule == "gated delta" else None
    return k @ delta_rule(k, k, one_each, beta=ones, g=g, return_state=True)[1]


def draw(*, m: int = 8, d: int = 8, rule: str = "additive") -> Figure:
    fig, ax = style.subplots(width=3.6, height=3.5)
    shown = np.clip(np.round(weights(m, d, rule).abs().numpy() * LEVELS) / LEVELS, 0, 1)
    color = style.colormap(style.COLORS[COLORS[rule]])
    ax.imshow(shown, cmap=color, vmin=0, vmax=1, interpolation="none")
    for side in ax.spines.values():
        side.set_visible(True)
    ax.set_xticks([0, m - 1], ["oldest", "newest"])
    ax.set_yticks([0], ["oldest"])
    ax.set_xlabel("stored value")
    ax.set_ylabel("asked key")
    ax.set_title(f"{rule}: {m} pairs, width {d}", fontsize=10)
    return fig


def reading(*, m: int = 8, d: int = 8, rule: str = "additive") -> str:
    R = weights(m, d, rule)
    own = R.diagonal()
    error = (R - torch.eye(m, dtype=R.dtype)).square().sum(-1)
    return (
        f"Share of its own value in an answer: newest {own[-1].item():.2f}, oldest {own[0].item():.2f}. "
        f"Expected squared error: {abs(error.mean().item()):.2f} (0 is exact, 1 is answering nothing)."
    )
