"""Measured end to end, a mix gains what attention's share of the layer allows and no more. Used on hybrid/choosing."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from attnledger import style
from attnledger.timing import recording
from attnledger.timing.recording import Recording

ALT = (
    "How many times less than four dense layers, against the tokens of a prefill, both axes logarithmic; dots are "
    "medians of per-round ratios, bars their quartiles, thin dotted lines the counts. Without any attention the gain "
    "is highest at every length. The mix of three gated delta layers and a dense one begins below one, slower than "
    "dense layers, and rises above one at long texts; so do four gated delta layers, which end above the mix."
)

LINES = {  # candidate: words, colour, where the words stand beside their line's end
    "rest": ("no attention", "accent", 7),
    "gated": ("4 states", "gated", 0),
    "hybrid": ("3 states,\n1 dense", "hybrid", -8),
}


def draw(*, runs: Iterable[Recording] = ()) -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.5)
    runs = list(runs) or [recording.read("hybrid-cpu")]
    ax.axhline(1, color=style.COLORS["muted"], linewidth=1)
    for i, run in enumerate(runs):
        for name, (words, color, lift) in LINES.items():
            points = [p for p in run.points if {"dense", name} <= set(p.entries)]
            if not points:
                continue
            n, ink = [p.size["tokens"] for p in points], style.COLORS[color]
            spreads = [(r.p25, r.median, r.p75) for r in (p.ratio("dense", name) for p in points)]
            counted = [p.entries["dense"].flops / p.entries[name].flops for p in points]
            style.measured(ax, n, spreads, bound=counted, color=ink, own=i == 0)
            if i == 0:
                note = {"textcoords": "offset points", "va": "center", "fontsize": 10, "color": ink}
                ax.annotate(words, (n[-1], spreads[-1][1]), xytext=(9, lift), **note)
    longest = max(line.get_xdata()[-1] for line in ax.lines[1:])
    style.token_axis(ax, (2**e for e in range(9, 18) if 2**e <= longest))
    style.plain_powers(ax, base=2, unit=" ×")
    ax.grid(True, axis="y")
    ax.set(xlabel="tokens n", ylabel="times less than dense layers")
    return fig
