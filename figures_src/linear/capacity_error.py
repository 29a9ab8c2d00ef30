"""Only the best possible state is exact up to d pairs; one pass comes near it, a sum does not, softmax needs no state.
Used on linear/capacity."""

import math

import torch
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from attnledger import style
from attnledger.ops.delta import delta_rule
from attnledger.ops.softmax import attention

ALT = (
    "Mean squared error of recall against the number of stored pairs, from 4 to 128, for keys of width {d}. The "
    "additive state rises as a straight line and crosses 1, the error of no answer, near {d} pairs. The delta rule and "
    "the gated delta rule rise more slowly. The best state any rule could leave behind is at zero up to {d} pairs, "
    "marked by an upright line, and rises after it. Softmax attention over the whole list stays near zero."
)

PAIRS = (4, 8, 16, 24, 32, 48, 64, 96, 128)
DECAY = 0.97


def errors(d: int) -> dict[str, list[float]]:
    """Mean squared error of recall per mechanism and number of pairs; values have mean square 1."""
    found = {name: [] for name in ("linear", "delta", "gated", "best", "softmax")}
    generator = torch.Generator().manual_seed(0)
    for m in PAIRS:
        k, v = torch.randn(2, 24, m, d, generator=generator, dtype=torch.float64)
        k, ones = normalize(k, dim=-1), torch.ones(24, m, dtype=torch.float64)
        written = {"beta": ones, "return_state": True}
        answers = {
            "linear": k @ (k.mT @ v),
            "delta": k @ delta_rule(k, k, v, **written)[1],
            "gated": k @ delta_rule(k, k, v, g=math.log(DECAY) * ones, **written)[1],
            "best": k @ (torch.linalg.pinv(k) @ v),
            "softmax": attention(k, k, v, causal=False, scale=math.sqrt(d)),
        }
        for name, answer in answers.items():
            found[name].append((answer - v).square().mean().item())
    return found


def draw(*, d: int = 32) -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.5)
    ax.axvline(d, color=style.INK, linewidth=0.8, linestyle=":")
    ax.axhline(1, color=style.INK, linewidth=0.8, linestyle=":")
    colors = {name: style.COLORS[name] for name in ("linear", "delta", "gated", "softmax")}
    colors["best"] = style.COLORS["muted"]
    labels = {
        "linear": (76, 2.2, "additive", "left"),
        "delta": (126, 1.66, "delta", "right"),
        "gated": (126, 1.27, "gated", "right"),
        "best": (126, 0.56, "best state", "right"),
        "softmax": (126, 0.28, "softmax", "right"),
    }
    for name, values in errors(d).items():
        # an error below a hundredth is drawn as zero: its digits are rounding
        y = style.rounded([value if value > 1e-9 else 0.0 for value in values])
        ax.plot(PAIRS, y, color=colors[name], marker="o", markersize=3.5)
        x, height, text, side = labels[name]
        ax.text(x, height, text, color=colors[name], fontsize=10, ha=side, weight="bold")
    ax.text(d - 1.5, 2.38, f"m = d = {d}", fontsize=9.5, ha="right", va="top")
    ax.text(5, 1.04, "no answer", fontsize=9.5)
    ax.set_xlim(0, 130)
    ax.set_ylim(0, 2.4)
    ax.set_xticks([0, 32, 64, 96, 128])
    ax.set_yticks([0, 0.5, 1, 1.5, 2])
    ax.set_xlabel("pairs written, m")
    ax.set_ylabel("mean squared error")
    return fig
