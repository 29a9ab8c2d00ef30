"""One decay for the whole state fades every row alike; one per channel fades a row and spares another.
Used on linear/gating."""

import math

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style
from attnledger.ops.delta import delta_rule

ALT = (
    "Two rows of four states, two by two numbers each, after 0, 1, 2 and 3 tokens. Top, one decay of a half: both "
    "rows of the state go from 8 to 4, 2 and 1. Bottom, a decay per channel, a half and 1: the first row goes from 8 "
    "to 4, 2 and 1, the second stays 8."
)

START = torch.tensor([[8.0, 8.0], [8.0, 8.0]], dtype=torch.float64)
HALF = math.log(0.5)
GATES = {
    "one decay: α = ½": torch.full((3,), HALF, dtype=torch.float64),
    "one per channel: α = (½, 1)": torch.tensor([[HALF, 0.0]], dtype=torch.float64).expand(3, 2),
}


def draw() -> Figure:
    fig, axes = style.subplots(2, 4, width=4.8, height=3.3)
    color = style.COLORS["gated"]
    for row, (name, g) in zip(axes, GATES.items(), strict=True):
        for t, ax in enumerate(row):
            nothing, none = torch.zeros(t, 2, dtype=torch.float64), torch.zeros(t, dtype=torch.float64)
            _, S = delta_rule(nothing, nothing, nothing, beta=none, g=g[:t], state=START, return_state=True)
            for i in range(2):
                for j in range(2):
                    value = float(S[i, j])
                    faded = 0.12 + 0.5 * value / 8
                    ax.add_patch(Rectangle((j, 1 - i), 1, 1, facecolor=color, alpha=style.rounded(faded), linewidth=0))
                    ax.add_patch(Rectangle((j, 1 - i), 1, 1, fill=False, edgecolor=color, linewidth=1.0))
                    ax.text(j + 0.5, 1.5 - i, f"{value:.3g}", ha="center", va="center", fontsize=11)
            ax.set_xlim(-0.15, 2.15)
            ax.set_ylim(-0.75, 2.15)
            ax.set_aspect("equal")
            ax.axis("off")
            if name == list(GATES)[-1]:
                label = "start" if t == 0 else f"{t} token" + "s" * (t > 1)
                ax.text(1, -0.25, label, ha="center", va="top", fontsize=10)
        row[0].set_title(name, loc="left", fontsize=10.5, color=color)
    return fig
