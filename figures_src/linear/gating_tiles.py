"""Where pairs are computed one by one and where by matrix products: squares of 16, or squares that halve.
Used on linear/gating."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style

ALT = (
    "Two lower triangles of 64 by 64 pairs. Left: squares of 16 below the diagonal are matrix products; four squares "
    "on the diagonal are hatched, computed pair by pair or, with a bounded gate, as products too. Right: one square of "
    "32, two of 16, four of 8, eight of 4 and so on, all of them matrix products."
)

TOKENS = 64


def squares(start: int, size: int, smallest: int) -> list[tuple[int, int, int]]:
    """(row, column, size) of the squares that halve, down to `smallest`."""
    half = size // 2
    if half < smallest:
        return []
    below = squares(start, half, smallest) + squares(start + half, half, smallest)
    return [(start + half, start, half), *below]


def draw() -> Figure:
    fig, axes = style.subplots(1, 2, width=5.0, height=2.8)
    color, single = style.COLORS["gated"], style.COLORS["accent"]
    tiles = [(row, column, 16) for row in range(0, TOKENS, 16) for column in range(0, row, 16)]
    dyadic = squares(0, TOKENS, 4)
    for ax, blocks, title in ((axes[0], tiles, "tiles of 16"), (axes[1], dyadic, "dyadic tiles")):
        for row, column, size in blocks:
            ax.add_patch(
                Rectangle((column, row), size, size, facecolor=color, alpha=0.55, edgecolor=style.INK, linewidth=0.5)
            )
        for start in range(0, TOKENS, 16) if ax is axes[0] else ():
            ax.add_patch(Rectangle((start, start), 16, 16, fill=False, edgecolor=single, hatch="////", linewidth=1.2))
        ax.plot([0, TOKENS], [0, TOKENS], color=style.INK, linewidth=0.8)
        ax.set_xlim(-0.5, TOKENS + 0.5)
        ax.set_ylim(TOKENS + 0.5, -0.5)
        ax.set_aspect("equal")
        ax.set_xticks([0, 16, 32, 48, 64])
        ax.set_yticks([0, 16, 32, 48, 64])
        ax.set_title(title, fontsize=10.5)
        ax.set_xlabel("writing token")
    axes[0].set_ylabel("reading token")
    axes[0].text(62, 8, "pair by pair", color=single, fontsize=10, ha="right")
    axes[1].text(62, 8, "products only", color=color, fontsize=10, ha="right")
    return fig
