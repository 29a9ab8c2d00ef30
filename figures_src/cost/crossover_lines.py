"""The weights' work grows with n, attention's with n²: they meet at 12 d tokens, or at 6 d without a causal mask.
Used on cost/crossover."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import attention_flops, crossover_length, projection_flops

ALT = (
    "FLOP of one layer of width {d} against the number of tokens, both axes logarithmic. The products with weights "
    "rise as a straight line; scores and read rise twice as steeply, once for bidirectional and, half as high, once "
    "for causal attention. Dots mark where each of them crosses the line of the weights."
)


def draw(*, d: int = 4096) -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.7)
    tokens = np.array([2**9, 2**18])
    linear = style.rounded([projection_flops(int(n), d_model=d) for n in tokens])
    ax.loglog(tokens, linear, color=style.COLORS["weights"])
    ax.text(560, 10 * linear[0], "weights, 24 n d²", color=style.COLORS["weights"], fontsize=10.5)
    for causal, words, dash in ((False, "bidirectional, 4 n² d", "-"), (True, "causal, 2 n² d", "--")):
        square = style.rounded([attention_flops(int(n), heads=1, head_dim=d, causal=causal) for n in tokens])
        ax.loglog(tokens, square, color=style.COLORS["softmax"], linestyle=dash)
        meet = crossover_length(causal=causal, d_model=d)
        ax.loglog([meet], [projection_flops(meet, d_model=d)], "o", color=style.COLORS["accent"], markersize=8)
        ax.annotate(
            f"{meet:,}",
            (meet, projection_flops(meet, d_model=d)),
            xytext=(8, -4) if causal else (-8, 4),
            textcoords="offset points",
            ha="left" if causal else "right",
            va="top" if causal else "bottom",
            fontsize=10.5,
            color=style.COLORS["accent"],
        )
        x = 6000 if causal else 110_000
        y = attention_flops(x, heads=1, head_dim=d, causal=causal)
        ax.annotate(
            words,
            (x, y),
            xytext=(7, -4) if causal else (-7, 4),
            textcoords="offset points",
            ha="left" if causal else "right",
            va="top" if causal else "bottom",
            fontsize=10.5,
            color=style.COLORS["softmax"],
        )
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**10, 2**12, 2**14, 2**16, 2**18], ["1K", "4K", "16K", "64K", "256K"])
    ax.set_yticks([1e10, 1e12, 1e14], ["0.01", "1", "100"])
    ax.minorticks_off()
    ax.set(xlim=(2**9, 2**18), xlabel="tokens n", ylabel="work of one layer, TFLOP")
    ax.grid(True)
    return fig
