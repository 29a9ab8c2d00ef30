"""Each pair is a line in the plane of states; two lines meet in one state, and a third one misses it.
Used on linear/capacity."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "The plane of all states of two numbers. The pair (1, 0), 4 is a vertical line, the pair (0, 1), 1 a level line; "
    "they cross in one dot, the state that holds both. The pair (0.6, 0.8), 7 is a slanted line that passes the dot at "
    "a distance. A second dot lies between the three lines: the state with the least squared error."
)

KEYS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
VALUES = np.array([4.0, 1.0, 7.0])


def draw() -> Figure:
    fig, ax = style.subplots(width=4.2, height=3.4)
    own, third, best = style.COLORS["linear"], style.COLORS["accent"], style.COLORS["delta"]
    held = np.linalg.solve(KEYS[:2], VALUES[:2])
    least = style.rounded(np.linalg.lstsq(KEYS, VALUES, rcond=None)[0])
    s1 = np.array([0.0, 9.5])
    ax.plot([held[0]] * 2, [0, 7], color=own)
    ax.plot(s1, [held[1]] * 2, color=own)
    ax.plot(s1, style.rounded((VALUES[2] - KEYS[2, 0] * s1) / KEYS[2, 1]), color=third)
    ax.plot(*held, "o", color=own, markersize=9)
    ax.plot(*least, "s", color=best, markersize=9)
    ax.text(4.2, 6.3, "first pair", color=own, fontsize=10)
    ax.text(7.2, 0.35, "second pair", color=own, fontsize=10)
    ax.text(0.3, 6.3, "third pair: misses\nthe crossing", color=third, fontsize=10, va="top")
    ax.annotate(
        "holds two", held, xytext=(-8, 10), textcoords="offset points", ha="right", va="bottom", color=own, fontsize=10
    )
    ax.annotate("least error", least, xytext=(10, 6), textcoords="offset points", ha="left", color=best, fontsize=10)
    ax.set_xlim(0, 9.5)
    ax.set_ylim(-0.4, 7)
    ax.set_xticks([0, 2, 4, 6, 8])
    ax.set_yticks([0, 2, 4, 6])
    ax.set_xlabel("first number of the state")
    ax.set_ylabel("second number")
    return fig
