"""The softplus gate has no floor, the bounded gate has one. Used on linear/gating."""

import numpy as np
import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.delta import bounded_gate, softplus_gate

ALT = (
    "Log decay g against the gate's input z from −8 to 8. Both gates start close to 0 on the left. The softplus gate "
    "falls on and on, as a straight line for large z; the bounded gate passes −2.5 at z = 0 and levels off at −5, "
    "marked by a dotted line."
)


def draw() -> Figure:
    fig, ax = style.subplots(width=4.8, height=3.2)
    z = torch.arange(-16, 17, dtype=torch.float64) / 2
    curves = {
        "softplus": (softplus_gate(z, 0.0, 0.0), "delta"),
        "bounded": (bounded_gate(z, 0.0), "gated"),
    }
    ax.axhline(-5, color=style.INK, linewidth=0.8, linestyle=":")
    for g, color in curves.values():
        ax.plot(z.numpy(), style.rounded(g.numpy()), color=style.COLORS[color])
    ax.text(3.2, -1.4, "softplus", color=style.COLORS["delta"], fontsize=10.5, weight="bold")
    ax.text(-0.6, -4.2, "bounded", color=style.COLORS["gated"], fontsize=10.5, weight="bold", ha="right")
    ax.text(-7.8, -5.2, "lower bound", fontsize=9.5, va="top")
    ax.set_xlim(-8, 8)
    ax.set_ylim(-8.2, 0.3)
    ax.set_xticks(np.arange(-8, 9, 4))
    ax.set_yticks([-8, -6, -4, -2, 0])
    ax.set_xlabel("gate input z")
    ax.set_ylabel("log decay g")
    return fig
