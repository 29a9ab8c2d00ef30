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

QUANTILES = ("p20", "median", "p80")
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
            each = [1e3 / n for n in x]  # microseconds per token, from milliseconds
            times = [[getattr(e.times, q) * u for e, u in zip(entries, each, strict=True)] for q in QUANTILES]
            style.measured(ax, x, *times, color=style.COLORS[color], own=i == 0)
            bounds = style.rounded([e.bound_ms * u for e, u in zip(entries, each, strict=True)])
            ax.plot(x, bounds, color=style.COLORS[color], linewidth=1, linestyle=":")
            if i == 0:
                note = {"textcoords": "offset points", "va": "center", "fontsize": 10, "color": style.COLORS[color]}
                ax.annotate(words, (x[-1], times[1][-1]), xytext=(9, lift[name]), **note)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ticks = [2**e for e in range(9, 19) if 2**e <= max(line.get_xdata()[-1] for line in ax.lines)]
    ticks = ticks[:: 1 + len(ticks) // 7]
    ax.set_xticks(ticks, [f"{t:,}" if t < 1024 else f"{t // 1024:,}K" for t in ticks])
    low, high = ax.get_ylim()
    decades = [10.0**e for e in range(-4, 6) if low <= 10.0**e <= high]
    ax.set_yticks(decades, [f"{d:,g}" for d in decades])
    ax.minorticks_off()
    ax.grid(True)
    ax.set(xlabel="tokens n", ylabel="µs per token")
    return fig
