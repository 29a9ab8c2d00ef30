"""The mask of SSD: a causal mask that fades, evenly or where a token says so. Used on linear/state-space."""

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.ssm import semiseparable_mask

ALT = (
    "Three lower triangular masks of eight tokens. With decay 1 all entries at and below the diagonal are 1: the "
    "causal mask. With decay 0.7 for every token the entries fade evenly away from the diagonal. With decays chosen "
    "by the tokens most entries are 1, but rows from token 5 on have nothing left of tokens 1 to 4, because token 5 "
    "resets the state, and token 7 halves what came before it."
)

GATES = {
    "decay 1": [1.0] * 8,
    "decay 0.7": [0.7] * 8,
    "chosen by token": [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.5, 1.0],
}


def draw() -> Figure:
    fig, axes = style.subplots(1, 3, width=5.1, height=2.3)
    colors = [style.COLORS[name] for name in ("linear", "gated", "gated")]
    for ax, color, (name, decays) in zip(axes, colors, GATES.items(), strict=True):
        mask = semiseparable_mask(torch.tensor(decays, dtype=torch.float64).log())
        style.matrix(ax, mask.numpy(), color=color, text=False, vmax=0.7)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("written at", fontsize=9.5)
        ticks = [0, 4, 7]
        ax.set_xticks(ticks, [str(t + 1) for t in ticks])
        ax.set_yticks(ticks, [str(t + 1) for t in ticks])
        ax.tick_params(length=0)
    axes[0].set_ylabel("read at", fontsize=9.5)
    return fig
