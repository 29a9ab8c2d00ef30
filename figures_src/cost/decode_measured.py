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
            spreads = [(e.times.p20, e.times.median, e.times.p80) for e in entries]
            bound = [e.bound_ms for e in entries]
            style.measured(ax, x, spreads, bound=bound, color=style.COLORS[color], own=i == 0)
            if i == 0:
                note = {"textcoords": "offset points", "va": "center", "fontsize": 10}
                ax.annotate(words, (x[-1], entries[-1].ms), xytext=(9, lift), color=style.COLORS[color], **note)
    longest = max(line.get_xdata()[-1] for line in ax.lines)
    style.token_axis(ax, (2**e for e in range(9, 21, 2) if 2**e <= longest))
    style.plain_powers(ax)
    ax.grid(True)
    ax.set(xlabel="context s (tokens)", ylabel="ms per step and layer")
    return fig
