"""How much attention the chosen blocks hold, against how many are chosen. Used on sparse/block-selection."""

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.softmax import attention_weights

ALT = (
    "Share of the attention that falls on the chosen blocks, from zero to one, against the number of chosen blocks. "
    "Every curve reaches one when all blocks are chosen; the names in the lower right corner stand in the order of the "
    "curves."
)

COLORS = ("muted", "sparse", "accent", "window")


def example() -> dict[str, list[float]]:
    """Best and most recent blocks of random attention, for the figure on its own."""
    source = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 64, 8, generator=source, dtype=torch.float64).mul(2).unbind(0)
    mass = attention_weights(q, k)[-1].unflatten(-1, (16, 4)).sum(-1)
    best = mass.sort(descending=True).values.cumsum(-1)
    return {"best possible": best.tolist(), "most recent": mass.flip(-1).cumsum(-1).tolist()}


def draw(*, curves: dict[str, list[float]] | None = None) -> Figure:
    curves = curves or example()
    fig, ax = style.subplots(width=5.2, height=3.5)
    for line, ((word, shares), name) in enumerate(zip(curves.items(), COLORS, strict=False)):
        ax.plot(range(1, len(shares) + 1), style.rounded(shares), "o-", markersize=3.5, color=style.COLORS[name])
        # the lower right corner is free: every curve ends at one
        height = 0.03 + 0.09 * (len(curves) - 1 - line)
        ax.text(len(shares), height, word, color=style.COLORS[name], ha="right", va="bottom", fontsize=10)
    ax.set_xlabel("blocks read, k")
    ax.set_ylabel("attention on the blocks read")
    ax.set_ylim(0, 1.03)
    ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    return fig
