"""Measured, one decode step keeps its word: caches cost in proportion to their length, weights and states do not.
Used on cost/decode."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from attnledger import style
from attnledger.timing import recording
from attnledger.timing.recording import Recording

ALT = (
    "Milliseconds of one decode step of one layer against the tokens in the cache, both axes logarithmic; dots are "
    "medians, bars the middle three fifths, thin dotted lines the least time by the bytes. Reading a whole cache rises "
    "in proportion to its length and passes the level line of the weights; a grouped cache rises as steeply below it; "
    "a state is level and lowest at long contexts."
)

LINES = [  # candidate, words, colour, where the words stand beside their line's end
    ("softmax", "cache, 16 heads", "softmax", 5),
    ("grouped", "cache, 4 heads", "grouped", 0),
    ("weights", "weights", "weights", -5),
    ("delta", "state", "delta", 0),
]


def draw(*, runs: Iterable[Recording] = ()) -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.8)
    runs = list(runs) or [recording.read("decode-cpu")]
    for i, run in enumerate(runs):
        for name, words, color, lift in LINES:
            if not (series := run.series(name, "tokens", batch=1)):
                continue
            x, entries = zip(*series, strict=True)
            times = [[getattr(e.times, q) for e in entries] for q in ("p20", "median", "p80")]
            style.measured(ax, x, *times, color=style.COLORS[color], own=i == 0)
            bounds = style.rounded([e.bound_ms for e in entries])
            ax.plot(x, bounds, color=style.COLORS[color], linewidth=1, linestyle=":")
            if i == 0:
                note = {"textcoords": "offset points", "va": "center", "fontsize": 10}
                ax.annotate(words, (x[-1], times[1][-1]), xytext=(9, lift), color=style.COLORS[color], **note)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ticks = [2**e for e in range(9, 21, 2) if 2**e <= max(line.get_xdata()[-1] for line in ax.lines)]
    ax.set_xticks(ticks, [f"{t:,}" if t < 1024 else f"{t // 1024:,}K" for t in ticks])
    low, high = ax.get_ylim()
    decades = [10.0**e for e in range(-3, 5) if low <= 10.0**e <= high]
    ax.set_yticks(decades, [f"{d:,g}" for d in decades])
    ax.minorticks_off()
    ax.grid(True)
    ax.set(xlabel="context s (tokens)", ylabel="ms per step and layer")
    return fig
