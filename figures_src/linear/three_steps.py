"""Additive memory averages two values filed under one key. Used on linear/linear-attention."""

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style
from attnledger.ops.linear import identity, linear_attention

ALT = (
    "Three panels, one per write. Each shows the two by two state S, the normaliser z beside it and the answer to "
    "q = (1, 0). After the first write the answer is (2, 0); after the second, under the same key, it is (1, 1.5), "
    "the mean of both values; the third write goes to the other row and leaves the answer as it was."
)

KEYS = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
VALUES = torch.tensor([[2.0, 0.0], [0.0, 3.0], [5.0, 5.0]], dtype=torch.float64)
QUESTION = torch.tensor([[1.0, 0.0]], dtype=torch.float64)


def pair(x) -> str:
    return "(" + ", ".join(f"{float(a):g}" for a in x) + ")"


def cell(ax, x: float, y: float, number: float, color: str, *, written: bool, read: bool) -> None:
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=color, alpha=0.55 if written else 0.15, linewidth=0))
    ax.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor=color, linewidth=2.2 if read else 1.0))
    ax.text(x + 0.5, y + 0.5, f"{number:g}", ha="center", va="center", fontsize=12)


def draw() -> Figure:
    fig, axes = style.subplots(1, 3, width=4.6, height=3.5)
    color = style.COLORS["linear"]
    for t, ax in enumerate(axes, start=1):
        k, v = KEYS[:t], VALUES[:t]
        answers, (S, z) = linear_attention(QUESTION.expand(t, 2), k, v, feature_map=identity, return_state=True)
        for i in range(2):
            for j in range(2):
                written = bool(KEYS[t - 1, i] * VALUES[t - 1, j] != 0)
                cell(ax, j, 1 - i, float(S[i, j]), color, written=written, read=i == 0)
            cell(ax, 2.3, 1 - i, float(z[i]), style.COLORS["muted"], written=bool(KEYS[t - 1, i] != 0), read=i == 0)
        ax.text(1, 2.12, "S", ha="center", va="bottom", fontsize=11)
        ax.text(2.8, 2.12, "z", ha="center", va="bottom", fontsize=11)
        ax.text(0, 4.55, f"write {t}", va="bottom", fontsize=12, weight="bold")
        ax.text(
            0, 3.05, f"k = {pair(KEYS[t - 1])}\nv = {pair(VALUES[t - 1])}", va="bottom", fontsize=11, linespacing=1.4
        )
        ax.text(0, -0.35, f"q reads row 1:\n{pair(S[0])} ÷ {float(z[0]):g}", va="top", fontsize=11, linespacing=1.4)
        ax.text(0, -2.0, f"y = {pair(answers[-1])}", va="top", fontsize=12.5, color=color, weight="bold")
        ax.set_xlim(-0.1, 3.6)
        ax.set_ylim(-2.8, 5.3)
        ax.set_aspect("equal")
        ax.axis("off")
    return fig
