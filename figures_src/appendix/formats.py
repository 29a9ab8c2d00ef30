"""Two bytes buy either range (bf16) or digits (fp16), not both. Used on appendix/primer."""

import math

import torch
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Four horizontal bars, one for each number format, from the smallest to the largest power of ten it holds. fp64 "
    "runs off both ends of the axis; fp32 and bf16 cover the same range; the bar of fp16 is a short piece in the "
    "middle. Beside each bar stands how many decimal digits the format keeps: most for fp64, fewest for bf16."
)

FORMATS = [(torch.float64, "fp64"), (torch.float32, "fp32"), (torch.bfloat16, "bf16"), (torch.float16, "fp16")]

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def draw(*, reach: int = 50) -> Figure:
    fig, ax = style.subplots(width=5.2, height=2.9)
    for place, (dtype, name) in enumerate(FORMATS):
        info = torch.finfo(dtype)
        low, high = (style.rounded(math.log10(x)) for x in (info.tiny, info.max))
        left, right = max(low, -reach), min(high, reach)
        color = style.COLORS["muted" if info.bits > 16 else "accent"]
        ax.barh(-place, right - left, left=left, height=0.5, color=color, linewidth=0)
        digits = style.rounded((1 - math.log2(info.eps)) * math.log10(2), 2)
        words = f"{name}, {info.bits // 8} bytes: {digits:g} digits"
        ax.text(-reach, -place + 0.33, words, ha="left", va="bottom", fontsize=10)
        largest = f"{info.max:,.0f}" if info.max < 1e6 else f"10{str(math.floor(high)).translate(RAISED)}"
        ax.text(right + 1, -place, f"to {largest}", ha="left", va="center", fontsize=9.5)
    ticks = [-40, -20, 0, 20, 40]
    ax.set_xticks(ticks, ["10⁻⁴⁰", "10⁻²⁰", "1", "10²⁰", "10⁴⁰"])
    ax.set(xlim=(-reach, reach + 14), ylim=(-len(FORMATS) + 0.6, 0.85), xlabel="size of a number")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return fig
