"""1/Γ is a straight line on a logarithmic axis, and every number type has a ceiling. Used on linear/gating."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Power of ten of 1/Γ against the token in a chunk of 64, for constant log decays of −0.5, −1.4, −5 and −20 per "
    "token: straight lines from zero, the steeper the stronger the decay. Level lines mark the largest number of fp16, "
    "far below, and of fp32 and bf16 together. The line for −5 crosses the latter at token 18, the line for −20 at "
    "token 5, the line for −0.5 not within the chunk."
)


def draw() -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.3)
    for dtype, label in ((torch.float16, "fp16 ends"), (torch.float32, "fp32 and bf16 end")):
        top = style.rounded(math.log10(torch.finfo(dtype).max))
        ax.axhline(top, color=style.INK, linewidth=0.9, linestyle=":")
        ax.text(64, top + 0.7, label, fontsize=9.5, ha="right", va="bottom")
    lines = {-0.5: (33, 10.5), -1.4: (50, 26.5), -5.0: (21.5, 43.5), -20.0: (7, 47.5)}
    for g, (x, y) in lines.items():
        color = style.COLORS["gated" if g > -1 else "accent"]
        tokens = np.array([0.0, min(64.0, 50 * math.log(10) / -g)])
        ax.plot(style.rounded(tokens), style.rounded(-g * tokens / math.log(10)), color=color)
        step = math.floor(math.log(torch.finfo(torch.float32).max) / -g) + 1
        if step <= 64:
            ax.plot([step], [style.rounded(-g * step / math.log(10))], "o", color=color, markersize=7)
        ax.text(x, y, f"g = {g:g}".replace("-", "−"), color=color, fontsize=10, weight="bold", ha="left", va="center")
    ax.set_xlim(0, 65)
    ax.set_ylim(0, 50)
    ax.set_xticks([0, 16, 32, 48, 64])
    ax.set_yticks([0, 10, 20, 30, 40], ["1", "10¹⁰", "10²⁰", "10³⁰", "10⁴⁰"])
    ax.set_xlabel("token in the chunk")
    ax.set_ylabel("1/Γ")
    return fig
