"""Softmax tells two keys apart only if the angle between them is wide enough for its scale.
Used on linear/capacity."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.softmax import attention_weights

ALT = (
    "Weight of the asked key, between one half and 1, against the angle between it and one other key, from 0 to 90 "
    "degrees, for head widths 32 and 128. Both curves start at one half, where the keys coincide. Width 128 rises "
    "faster. A dotted line marks a weight of nine tenths."
)

ANGLES = tuple(range(0, 91, 6))


def weight(angle: float, scale: float) -> float:
    """Softmax weight of the asked key beside one other key at `angle` degrees."""
    theta = math.radians(angle)
    keys = torch.tensor([[1.0, 0.0], [math.cos(theta), math.sin(theta)]], dtype=torch.float64)
    return attention_weights(keys[:1], keys, causal=False, scale=scale)[0, 0].item()


def draw() -> Figure:
    fig, ax = style.subplots(width=4.8, height=3.2)
    ax.axhline(0.9, color=style.INK, linewidth=0.8, linestyle=":")
    for width, color in ((32, "window"), (128, "softmax")):
        y = style.rounded([weight(angle, math.sqrt(width)) for angle in ANGLES])
        ax.plot(ANGLES, y, color=style.COLORS[color])
        needed = math.degrees(math.acos(1 - math.log(9) / math.sqrt(width)))
        ax.plot(*style.rounded([needed, 0.9]), "o", color=style.COLORS[color], markersize=7)
        x, height = (50, 0.8) if width == 32 else (9, 0.85)
        ax.text(x, height, f"width {width}", color=style.COLORS[color], fontsize=10.5, weight="bold")
    ax.text(1, 0.915, "nine tenths", fontsize=9.5)
    ax.set_xlim(0, 90)
    ax.set_ylim(0.48, 1.02)
    ax.set_xticks(np.arange(0, 91, 15))
    ax.set_yticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    ax.set_xlabel("angle to the nearest other key (degrees)")
    ax.set_ylabel("weight of the asked key")
    return fig
