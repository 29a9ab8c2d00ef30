"""The same lead buys less weight the more candidates there are, and a spread among them costs half its square.
Used on cost/limits."""

import math

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.softmax import attention_weights

ALT = (
    "Weight of the best key against the number of candidates, both axes logarithmic, for a lead of {lead} over the "
    "mean of the others, whose scores spread by {spread}. The curve is level near one while candidates are few and "
    "then falls in proportion to their number. Two dots mark 512 and 131,072 candidates."
)


def weight(n: int, lead: float, spread: float = 0.0) -> float:
    """Weight of one key `lead` above the mean of n - 1 others with normal scores, the others as one key."""
    others = math.log(n - 1) + spread**2 / 2  # log of (n - 1) times the mean of exp(normal)
    scores = torch.tensor([[lead], [others]], dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    return float(attention_weights(one, scores, causal=False, scale=1.0)[0, 0])


def draw(*, lead: float = 5, spread: float = 0) -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.2)
    counts = [2**i for i in range(2, 21)]
    ax.loglog(counts, style.rounded([weight(n, lead, spread) for n in counts]), color=style.COLORS["softmax"])
    for n, side in ((512, "left"), (131072, "right")):
        value = weight(n, lead, spread)
        ax.loglog([n], [style.rounded(value)], "o", color=style.COLORS["accent"], markersize=7)
        move = (7, 5) if side == "left" else (-7, -13)
        ax.annotate(
            f"{value:.3g}" if value > 0.0995 else f"1 in {style.rounded(1 / value):,.0f}",
            (n, style.rounded(value)),
            xytext=move,
            textcoords="offset points",
            color=style.COLORS["accent"],
            fontsize=10.5,
            ha=side,
        )
    marks = [4, 512, 8192, 131072]
    ax.set_xticks(marks, [f"{mark:,}" for mark in marks])
    ax.set_yticks([1e-6, 1e-4, 1e-2, 1], ["10⁻⁶", "10⁻⁴", "0.01", "1"])
    ax.minorticks_off()
    ax.grid(True)
    ax.set(xlim=(4, 2**20), ylim=(3e-7, 3), xlabel="candidates n", ylabel="weight of the best key")
    return fig


def reading(*, lead: float = 5, spread: float = 0) -> str:
    half = math.exp(lead - spread**2 / 2) + 1
    first, last = (weight(n, lead, spread) for n in (512, 131072))
    return (
        f"A lead of {lead:g} with a spread of {spread:g} gives {first:.3g} among 512 candidates and {last:.3g} among "
        f"131,072; it holds half of the weight against {half:,.3g} candidates."
    )
