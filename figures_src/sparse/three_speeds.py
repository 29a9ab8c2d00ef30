"""Counted, attention alone and the layer measured: three gains of one scheme. Used on sparse/block-selection."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from attnledger import style
from attnledger.timing import recording
from attnledger.timing.recording import Recording

ALT = (
    "How many times less than dense attention, against the number of blocks a query reads, both axes logarithmic; dots "
    "are medians of per-round ratios, bars their quartiles. The count is a falling line; attention alone, measured, "
    "falls with it, at four blocks lies below it, and comes down to about one where many blocks are read; the whole "
    "layer, measured, stays between attention alone and one."
)

MEASURED = {  # words, colour: over, under
    ("attention alone", "sparse"): ("dense", "sparse"),
    ("whole layer", "weights"): ("layer, dense", "layer, sparse"),
}


def draw(*, runs: Iterable[Recording] = ()) -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.5)
    runs = list(runs) or [recording.read("block-sparse-cpu")]
    ax.axhline(1, color=style.COLORS["muted"], linewidth=1)
    for i, run in enumerate(runs):
        points = sorted((p for p in run.points if {"dense", "sparse"} <= set(p.entries)), key=lambda p: p.size["top_k"])
        note = {"textcoords": "offset points", "va": "center", "fontsize": 10}
        for (words, color), (over, under) in MEASURED.items():
            chosen = [(p.size["top_k"], p.ratio(over, under)) for p in points if {over, under} <= set(p.entries)]
            if not chosen:
                continue
            k, ratios = zip(*chosen, strict=True)
            ink = style.COLORS[color]
            spreads = [(r.p25, r.median, r.p75) for r in ratios]
            style.measured(ax, k, spreads, color=ink, own=i == 0)
            if i == 0:
                ax.annotate(words, (k[0], spreads[0][1]), xytext=(-9, 0), ha="right", color=ink, **note)
        k = [p.size["top_k"] for p in points]
        counted = [p.entries["dense"].flops / p.entries["sparse"].flops for p in points]
        ax.plot(k, style.rounded(counted), color=style.COLORS["accent"], linestyle="-" if i == 0 else "--")
        if i == 0:
            ink = style.COLORS["accent"]
            ax.annotate("operations,\ncounted", (k[0], counted[0]), xytext=(-9, 0), ha="right", color=ink, **note)
    ax.set_xscale("log", base=2)
    ticks = sorted({p.size["top_k"] for run in runs for p in run.points})
    ax.set_xticks(ticks, [f"{k}" for k in ticks])
    style.plain_powers(ax, base=2, unit=" ×")
    ax.grid(True, axis="y")
    ax.set_xlim(ticks[0] / 4.5, ticks[-1] * 1.2)
    ax.set(xlabel="blocks of 128 tokens a query reads, k", ylabel="times less than dense")
    return fig
