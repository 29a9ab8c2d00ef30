"""More rounds of hashing meet more of the attention. Used on sparse/hashing."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Share of the attention that falls on keys met in some round, against the number of rounds from 1 to 16 on a "
    "doubling scale. The curve for fewer buckets lies above the one for more buckets; both rise towards one. The curve "
    "for tokens without clusters stays far below. A last, low curve is what as many recent keys would hold."
)

COLORS = ("sparse", "window", "accent", "muted")


def draw(*, rounds: tuple[int, ...] = (1, 2, 4, 8, 16), curves: dict[str, list[float]] | None = None) -> Figure:
    chance = {f"chance {p}": [1 - (1 - p) ** r for r in rounds] for p in (0.5, 0.25)}
    fig, ax = style.subplots(width=5.2, height=3.3)
    free = 2.0  # labels keep a distance, from the highest curve down
    named = list(zip((curves or chance).items(), COLORS, strict=False))
    for (word, shares), name in sorted(named, key=lambda line: -line[0][1][-1]):
        values = style.rounded(shares)
        ax.plot(np.log2(rounds), values, "o-", markersize=4, color=style.COLORS[name])
        free = min(float(values[-1]), free - 0.08)
        style.direct_label(ax, float(np.log2(rounds[-1])), free, word, style.COLORS[name])
    ax.set_xlim(-0.15, np.log2(rounds[-1]) + 2.1)
    ax.set_ylim(0, 1.05)
    ax.set_xticks(np.log2(rounds), [str(r) for r in rounds])
    ax.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    ax.set_xlabel("rounds of hashing")
    ax.set_ylabel("attention met")
    return fig
