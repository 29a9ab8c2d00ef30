"""One bandwidth, several peaks: the narrower the numbers, the further right the ridge. Used on appendix/hardware."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs.hardware import GPUS

ALT = (
    "Work per second that an {card} can reach against the work done per byte moved, both on logarithmic axes. From the "
    "left one slope rises for all number formats; it breaks off into a level line at the peak of fp32 first, then "
    "bf16, then fp8. A dot and a number mark each corner, the ridge."
)

FORMATS = [("fp8", "accent"), ("bf16", "softmax"), ("fp32", "muted")]


def draw(*, card: str = "H100 SXM") -> Figure:
    gpu = next(g for g in GPUS if g.name == card)
    fig, ax = style.subplots(width=5.0, height=3.3)
    left, right = 1.0, 4000.0
    for dtype, color in FORMATS:
        if getattr(gpu, dtype) is None:
            continue
        ridge, peak = gpu.ridge(dtype), gpu.peak(dtype) / 1e12
        x = np.array([left, ridge, right])
        y = np.minimum(peak, x * gpu.bandwidth / 1e12)
        ax.plot(style.rounded(x), style.rounded(y), color=style.COLORS[color])
        ax.plot([style.rounded(ridge)], [style.rounded(peak)], "o", color=style.COLORS[color], markersize=7)
        words = f"{dtype}: ridge at {ridge:.0f}"
        over = dtype == "fp8"
        y = peak * (1.15 if over else 0.85)
        ax.text(right, y, words, ha="right", va="bottom" if over else "top", color=style.COLORS[color], fontsize=10.5)
    ax.text(2.2, 2.2 * gpu.bandwidth / 1e12 * 0.72, f"{gpu.bandwidth / 1e9:,.0f} GB/s", fontsize=10, va="top")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    ax.set_yticks([10, 100, 1000], ["10", "100", "1000"])
    ax.minorticks_off()
    ax.set(xlim=(left, right), ylim=(2, 6000), xlabel="work per byte moved (FLOP per byte)", ylabel="TFLOP/s at most")
    return fig
