"""Attention's share of a layer depends on n / d alone: a wider model only moves the curve to the right.
Used on cost/crossover."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import crossover_length, quadratic_share

ALT = (
    "Share of a layer's FLOP against the number of tokens on a logarithmic axis, for width {d} and {attention} "
    "attention. The area is filled from below with scores and read, which grow along an S-shaped curve from almost "
    "nothing to almost everything, and above it with the products with weights. A dotted line marks the half; a dot "
    "stands on the curve at n = {n}."
)


def draw(*, d: int = 4096, n: int = 2048, attention: str = "causal") -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.5)
    causal = attention == "causal"
    tokens = 2 ** np.arange(9, 21)
    share = style.rounded([100 * quadratic_share(int(t), causal=causal, of="layer", d_model=d) for t in tokens])
    ax.fill_between(tokens, 0, share, color=style.COLORS["softmax"], alpha=0.45, linewidth=0)
    ax.fill_between(tokens, share, 100, color=style.COLORS["weights"], alpha=0.25, linewidth=0)
    ax.plot(tokens, share, color=style.COLORS["softmax"])
    meet = crossover_length(causal=causal, d_model=d)
    ax.plot([512, meet], [50, 50], color=style.INK, linestyle=":", linewidth=1.2)
    ax.text(560, 52, f"half at {meet:,}", fontsize=10.5, va="bottom")
    here = style.rounded(100 * quadratic_share(n, causal=causal, of="layer", d_model=d))
    ax.plot([n], [here], "o", color=style.COLORS["accent"], markersize=8)
    above = here < 60
    ax.annotate(
        f"{here:.3g} %",
        (n, here),
        xytext=(-4 if above else 8, 8 if above else -10),
        textcoords="offset points",
        ha="right" if above else "left",
        fontsize=11,
        color=style.COLORS["accent"],
        weight="bold",
    )
    ax.text(560, 93, "products with weights", fontsize=10.5, va="top")
    ax.text(2**19.9, 6, "scores and read", fontsize=10.5, ha="right")
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**10, 2**12, 2**14, 2**16, 2**18, 2**20], ["1K", "4K", "16K", "64K", "256K", "1M"])
    ax.minorticks_off()
    ax.set(xlim=(512, 2**20), ylim=(0, 100), xlabel="tokens n", ylabel="share of the layer, %")
    return fig


def reading(*, d: int = 4096, n: int = 2048, attention: str = "causal") -> str:
    causal = attention == "causal"
    ratio = quadratic_share(n, causal=causal, of="projections", d_model=d)
    share = quadratic_share(n, causal=causal, of="layer", d_model=d)
    return (
        f"{n:,} tokens are {n / d:.3g} d: scores and read do {100 * ratio:.3g} % of the work of the weights, "
        f"{100 * share:.3g} % of the layer ({attention})."
    )
