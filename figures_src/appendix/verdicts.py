"""Most claims hold; the others sit in a few topics. Used on appendix/claims."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "One horizontal bar for each topic that the book has reached, as long as the topic has claims. A bar is made of up "
    "to four pieces: claims that hold, in grey; wrong ones, in red; disputed, mixed in units or not to be computed, in "
    "ochre; and those that could not be checked, outlined."
)

PIECES = {
    "hold": ("muted", ("holds", "holds, rounded")),
    "are wrong": ("accent", ("wrong",)),
    "are open": ("gated", ("disputed", "units mixed", "cannot be computed")),
    "not checked": (None, ("not checked",)),
}
EXAMPLE = {
    "linear": {"holds": 30, "holds, rounded": 3, "wrong": 4, "disputed": 2},
    "cache": {"holds": 9, "units mixed": 4, "not checked": 1},
    "sparse": {"holds": 8, "wrong": 1},
    "delta": {"holds": 5},
    "gating": {"holds": 3, "disputed": 1},
}


def pieces(row: Mapping[str, int]) -> dict[str, int]:
    """How many claims of a topic go into each piece of its bar."""
    return {name: sum(row.get(word, 0) for word in words) for name, (_, words) in PIECES.items()}


def reached(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Topics with at least one claim that a page or a reason stands behind, the largest first."""
    found = {topic: pieces(row) for topic, row in counts.items()}
    found = {topic: row for topic, row in found.items() if sum(row.values())}
    return dict(sorted(found.items(), key=lambda item: (-sum(item[1].values()), item[0])))


def draw(*, counts: Mapping[str, Mapping[str, int]] = EXAMPLE) -> Figure:
    rows = reached(counts)
    fig, ax = style.subplots(width=5.0, height=0.7 + 0.27 * max(len(rows), 5))
    longest = max(sum(row.values()) for row in rows.values())
    for place, (_, row) in enumerate(rows.items()):
        left = 0
        for name, count in row.items():
            color = PIECES[name][0]
            look = {"color": style.COLORS[color], "linewidth": 0} if color else {"facecolor": "none", "linewidth": 1}
            if count:
                ax.barh(-place, count, left=left, height=0.7, edgecolor=style.COLORS["muted"], **look)
            left += count
        ax.text(left + longest * 0.015, -place, f"{left}", va="center", fontsize=9.5)
    total = {name: sum(row[name] for row in rows.values()) for name in PIECES}
    key = [f"{count} {name}" for name, count in total.items() if count]
    colors = [PIECES[name][0] or "muted" for name, count in total.items() if count]
    lowest = -max(len(rows) - 1, len(key))
    for line, (words, color) in enumerate(zip(key, colors, strict=True)):
        place = lowest + 1.2 * (len(key) - 1 - line)
        ax.text(longest * 1.1, place, words, ha="right", va="center", color=style.COLORS[color], fontsize=11)
    ax.set_yticks([-i for i in range(len(rows))], list(rows))
    ax.set_xticks([])
    ax.set(xlim=(0, longest * 1.1), ylim=(lowest - 0.6, 0.5))
    ax.tick_params(left=False)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return fig


def reading(*, counts: Mapping[str, Mapping[str, int]] = EXAMPLE) -> str:
    rows = reached(counts)
    total = sum(sum(row.values()) for row in rows.values())
    parts = [f"{sum(row[name] for row in rows.values())} {name}" for name in PIECES]
    return f"{total} claims in {len(rows)} topics: " + ", ".join(parts) + "."
