"""Attention alone cubes its distance to rank one at every layer; with residuals the distance stays.
Used on cost/limits."""

import math

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.softmax import attention

ALT = (
    "Distance to a matrix of equal rows against the number of layers; the vertical axis is logarithmic twice, so that "
    "cubing is a straight line. Attention alone and attention with MLPs fall along a straight line and leave the plot; "
    "with residual connections the distance stays near the top, highest in a complete block."
)


def example(layers: int = 4) -> dict[str, list[float]]:
    """Attention alone on one random matrix, for the figure on its own."""
    source = torch.Generator().manual_seed(0)
    x, found = torch.randn(16, 32, generator=source, dtype=torch.float64), []
    for _ in range(layers + 1):
        found.append(float((x - x.mean(0)).norm() / x.norm()))
        q, k, v = (x @ torch.randn(32, 32, generator=source, dtype=torch.float64) / math.sqrt(32) for _ in range(3))
        x = attention(2 * q, 2 * k, v, causal=False)
    return {"attention alone": found}


# colour, and where the name stands: layers, distance
STYLES = {
    "attention alone": ("softmax", 5.5, 4e-3),
    "with MLP": ("gated", 0.2, 4e-8),
    "with residual": ("linear", 2.7, 0.915),
    "complete block": ("weights", 8.9, 0.72),
}


def draw(*, curves: dict[str, list[float]] | None = None) -> Figure:
    curves = curves or example()
    fig, ax = style.subplots(width=5.2, height=3.8)
    longest = max(12, *(len(values) - 1 for values in curves.values()))
    for name, values in curves.items():
        color, across, down = STYLES[name]
        heights = style.rounded([-math.log(value) for value in values])
        ax.semilogy(range(len(values)), heights, color=style.COLORS[color], marker="o", markersize=3.5)
        ax.text(across, -math.log(down), name, color=style.COLORS[color], fontsize=10, weight="bold", va="center")
    start = style.rounded(-math.log(curves["attention alone"][0]))
    last = int(math.log(28 / start) / math.log(3))
    ax.semilogy([0, last], [start, style.rounded(start * 3**last)], ":", color=style.INK, linewidth=1.2)
    ax.text(last + 0.15, start * 3 ** (last - 0.15), "cubed at every layer", fontsize=10, va="center")
    marks = {0.97: "0.97", 0.8: "0.8", 0.5: "0.5", 0.1: "0.1", 0.01: "0.01", 1e-4: "10⁻⁴", 1e-12: "10⁻¹²"}
    ax.set_yticks(style.rounded([-math.log(mark) for mark in marks]), list(marks.values()))
    ax.minorticks_off()
    ax.grid(True)
    ax.set(xlim=(0, longest), ylim=(34, 0.022), xlabel="layers", ylabel="distance to rank one")
    return fig
