"""One tile of queries stays on the chip while the keys stream past; tiles nobody sees are skipped. Used on
exact/flash-attention."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style

ALT = (
    "The square of scores cut into six by six tiles. Left of it a column of query tiles, above it a row of key and "
    "value tiles, right of it a column of output tiles. One row of tiles is being worked on: its query tile, one key "
    "and value tile, its output tile and one tile of scores are filled, they are on the chip. The tiles of scores left "
    "of it are hatched, computed and gone; the tile on the diagonal is still to come. Tiles above the diagonal are "
    "crossed out, they are never computed."
)

TILES, ROW, COLUMN = 6, 4, 2  # tiles along a side, and the one being computed
BLUE, RED, GREY = style.COLORS["softmax"], style.COLORS["accent"], style.COLORS["muted"]


def box(ax, x: float, y: float, *, width: float = 1.0, on: bool = False, hatch: str = "") -> None:
    """A tile with its top left corner at (x, y); filled when it is on the chip."""
    if on:
        ax.add_patch(Rectangle((x, y - 1), width, 1, facecolor=RED, alpha=0.55, linewidth=0))
    color = RED if on else GREY
    ax.add_patch(
        Rectangle((x, y - 1), width, 1, fill=False, edgecolor=color, linewidth=1.6 if on else 0.8, hatch=hatch)
    )


def draw() -> Figure:
    fig, ax = style.subplots(width=5.0, height=4.0)
    with style.look():
        for i in range(TILES):
            box(ax, -1.3, -i, width=0.8, on=i == ROW)
            box(ax, TILES + 0.5, -i, width=0.8, on=i == ROW)
            box(ax, i, 1.6, on=i == COLUMN)
            for j in range(TILES):
                done = i < ROW and j <= i or i == ROW and j < COLUMN
                box(ax, j, -i, on=(i, j) == (ROW, COLUMN), hatch="///" if done else "")
                if j > i:
                    ax.plot([j + 0.3, j + 0.7], [-i - 0.7, -i - 0.3], color=GREY, linewidth=1.2)
                    ax.plot([j + 0.3, j + 0.7], [-i - 0.3, -i - 0.7], color=GREY, linewidth=1.2)
        ax.annotate(
            "", (COLUMN + 2.4, 2.0), (COLUMN + 0.4, 2.0), arrowprops={"arrowstyle": "-|>", "color": RED, "linewidth": 2}
        )
        ax.text(COLUMN + 2.5, 2.0, "inner loop", color=RED, fontsize=9.5, va="center")
        ax.annotate(
            "", (-1.7, -TILES), (-1.7, -TILES + 2), arrowprops={"arrowstyle": "-|>", "color": BLUE, "linewidth": 2}
        )
        ax.text(-1.9, -TILES + 1, "outer\nloop", color=BLUE, fontsize=9.5, va="center", ha="right")
        ax.text(-0.9, -TILES - 0.2, "Q", fontsize=11, ha="center", va="top")
        ax.text(TILES + 0.9, -TILES - 0.2, "O", fontsize=11, ha="center", va="top")
        ax.text(-0.25, 1.1, "K, V", fontsize=11, ha="right", va="center")
        ax.text(0, -TILES - 0.25, "hatched: computed and gone", color=GREY, fontsize=9.5, va="top")
        ax.text(0, -TILES - 0.85, "crossed: never computed", color=GREY, fontsize=9.5, va="top")
        ax.text(0, -TILES - 1.45, "filled: on the chip now", color=RED, fontsize=9.5, va="top")
    ax.set_xlim(-3.3, TILES + 1.5)
    ax.set_ylim(-TILES - 2.1, 2.4)
    ax.set_aspect("equal")
    ax.axis("off")
    return fig
