"""Measured, a token costs the same at any length with a state, and in proportion to the length with all pairs.
Used on linear/linear-attention."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from attnledger import style
from attnledger.timing import recording
from attnledger.timing.recording import Recording

ALT = (
    "Microseconds per token of a causal prefill with four heads against its length, both axes logarithmic; dots are "
    "medians, bars the middle three fifths, thin dotted lines the least time by the counts. Softmax attention over all "
    "pairs starts lowest, rises with the length and ends highest; linear attention and the delta rule with one decay "
    "per channel stay level."
)

LINES = [  # candidate, words, colour
    ("dense", "softmax,\nall pairs", "softmax"),
    ("linear", "linear", "linear"),
    ("kda", "KDA", "gated"),
]


def draw(*, runs: Iterable[Recording] = ()) -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.6)
    runs = list(runs) or [recording.read("prefill-cpu")]
    ends = {name: [entry.ms for _, entry in runs[0].series(name, "tokens")][-1:] for name in ("linear", "kda")}
    below, above = sorted(ends, key=ends.get)
    lift = {"dense": 0, above: 7, below: -7}  # points by which the words stand beside their line's end
    for i, run in enumerate(runs):
        for name, words, color in LINES:
            if not (series := run.series(name, "tokens")):
                continue
            x, entries = zip(*series, strict=True)
            rows = [(e.times.p20, e.times.median, e.times.p80, e.bound_ms) for e in entries]
            rows = [[1e3 * ms / n for ms in row] for n, row in zip(x, rows, strict=True)]  # microseconds per token
            spreads, bound = [row[:3] for row in rows], [row[3] for row in rows]
            style.measured(ax, x, spreads, bound=bound, color=style.COLORS[color], own=i == 0)
            if i == 0:
                note = {"textcoords": "offset points", "va": "center", "fontsize": 10, "color": style.COLORS[color]}
                ax.annotate(words, (x[-1], spreads[-1][1]), xytext=(9, lift[name]), **note)
    ticks = [2**e for e in range(9, 19) if 2**e <= max(line.get_xdata()[-1] for line in ax.lines)]
    ticks = ticks[:: 1 + len(ticks) // 7]
    style.token_axis(ax, ticks)
    style.plain_powers(ax)
    ax.grid(True)
    ax.set(xlabel="tokens n", ylabel="µs per token")
    return fig
