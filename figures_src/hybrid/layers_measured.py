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
            ratios = [p.ratio("dense", name) for p in points]
            spread = [[getattr(r, quantile) for r in ratios] for quantile in ("p25", "median", "p75")]
            style.measured(ax, n, *spread, color=ink, own=i == 0)
            counted = [p.entries["dense"].flops / p.entries[name].flops for p in points]
            ax.plot(n, style.rounded(counted), color=ink, linewidth=1, linestyle=":")
            if i == 0:
                note = {"textcoords": "offset points", "va": "center", "fontsize": 10, "color": ink}
                ax.annotate(words, (n[-1], spread[1][-1]), xytext=(9, lift), **note)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ticks = [2**e for e in range(9, 18) if 2**e <= max(line.get_xdata()[-1] for line in ax.lines[1:])]
    ax.set_xticks(ticks, [f"{t:,}" if t < 1024 else f"{t // 1024:,}K" for t in ticks])
    low, high = ax.get_ylim()
    halves = [2.0**e for e in range(-4, 8) if low <= 2.0**e <= high]
    ax.set_yticks(halves, [f"{h:g} ×" for h in halves])
    ax.minorticks_off()
    ax.grid(True, axis="y")
    ax.set(xlabel="tokens n", ylabel="times less than dense layers")
    return fig
