"""What has to be read before what, and how long each page takes. Used on appendix/teaching."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from attnledger import style

ALT = (
    "One row per page in the book's order: its name, a filled bar as long as its reading time and an outlined one as "
    "long as its exercises, in minutes. On the left, a curve leads from each page to every later page that needs it; "
    "one that led back up, from a page that the book prints later than the one that needs it, would be dashed."
)

COLORS = {"cost": "softmax", "exact": "tensor", "linear": "linear", "sparse": "sparse", "kv_cache": "latent"}
# name, minutes to read, minutes of exercises, names of the pages it needs
Row = tuple[str, int, int, Sequence[str]]
EXAMPLE: Sequence[Row] = (
    ("cost/first", 15, 40, ()),
    ("linear/second", 20, 30, ("cost/first",)),
    ("hybrid/third", 20, 45, ("cost/first", "linear/second", "kv_cache/last")),
    ("kv_cache/last", 10, 35, ()),
)


def curve(above: int, below: int) -> Path:
    """From one row to another, bulging to the left with their distance."""
    deep = -8 - 3.4 * abs(below - above)
    points = [(-2, above + 0.1), (deep, above + 0.1), (deep, below - 0.1), (-2, below - 0.1)]
    return Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


def draw(*, pages: Sequence[Row] = EXAMPLE) -> Figure:
    place = {name: row for row, (name, *_) in enumerate(pages)}
    fig, ax = style.subplots(width=5.2, height=0.7 + 0.27 * max(len(pages), 8))
    start = 62
    for row, (name, reads, works, needs) in enumerate(pages):
        part, _, short = name.partition("/")
        color = style.COLORS[COLORS.get(part, "hybrid")]
        ax.text(0, row, short, va="center", fontsize=9.5, color=color)
        ax.barh(row, reads, left=start, height=0.6, color=color, linewidth=0)
        ax.barh(row, works, left=start + reads, height=0.6, facecolor="none", edgecolor=color, linewidth=1)
        for need in (need for need in needs if need in place):
            back = place[need] > row
            ends = sorted((place[need], row))
            look = {"linestyle": "--" if back else "-", "edgecolor": style.COLORS["accent" if back else "muted"]}
            ax.add_patch(PathPatch(curve(*ends), facecolor="none", linewidth=1.1, **look))
    longest = max(reads + works for _, reads, works, _ in pages)
    ax.text(start, -1, "read", fontsize=9.5, va="center")
    ax.text(start + pages[0][1], -1, "practise", fontsize=9.5, va="center")
    ax.set_xticks([start + minutes for minutes in range(0, longest + 1, 20)], range(0, longest + 1, 20))
    ax.set_xlabel("minutes", loc="right")
    ax.set_yticks([])
    ax.set(xlim=(-10 - 2.7 * min(len(pages), 12), start + longest + 2), ylim=(len(pages) - 0.4, -1.6))
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return fig


def reading(*, pages: Sequence[Row] = EXAMPLE) -> str:
    reads, works = sum(row[1] for row in pages), sum(row[2] for row in pages)
    free = sum(not row[3] for row in pages)
    return f"{len(pages)} pages, {free} of them without a page before: {reads} minutes to read, {works} of exercises."
