"""Gradients through random window attention follow the random walk. Used on sparse/fixed-patterns."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Share of the gradient of the last token against the distance of the token it reaches, on a logarithmic scale. The "
    "curves of averaging windows and of random softmax attention run close together, a hill at short and middle "
    "distances; both plunge long before the dashed line, the limit in theory."
)

COLORS = ("window", "softmax", "sparse")
FLOOR = 1e-9


def example() -> dict[str, list[float]]:
    """Averaging windows alone, for the figure on its own."""
    found = np.ones(1)
    for _ in range(8):
        found = np.convolve(found, np.full(16, 1 / 16))
    return {"averaging": found.tolist()}


def draw(*, curves: dict[str, list[float]] | None = None, limit: int = 120) -> Figure:
    curves = curves or example()
    fig, ax = style.subplots(width=5.2, height=3.1)
    for line, ((word, shares), name) in enumerate(zip(curves.items(), COLORS, strict=False)):
        values = np.array(shares)
        seen = np.flatnonzero(values >= FLOOR)
        ax.semilogy(seen, style.rounded(values[seen]), color=style.COLORS[name])
        ax.text(limit / 2, 10 ** (-5.5 - line), word, color=style.COLORS[name], fontsize=10, va="center", ha="center")
    ax.axvline(limit, color=style.COLORS["accent"], linestyle="--", linewidth=1.5)
    ax.text(limit - 2, 0.5, "limit in theory", color=style.COLORS["accent"], ha="right", va="top", fontsize=10)
    ax.set_xlim(-2, limit + 4)
    ax.set_ylim(FLOOR, 1)
    ax.set_yticks([1e-9, 1e-6, 1e-3, 1], ["10⁻⁹", "10⁻⁶", "10⁻³", "1"])
    ax.minorticks_off()
    ax.set_xlabel("distance (tokens)")
    ax.set_ylabel("share of the gradient")
    return fig
