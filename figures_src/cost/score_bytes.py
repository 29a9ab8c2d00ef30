"""What one layer keeps for its backward pass: the written-out scores outgrow everything else.
Used on cost/softmax-attention."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import format_bytes, score_matrix_bytes
from attnledger.costs.hardware import H100

ALT = (
    "Bytes one layer keeps for the backward pass against the number of tokens, both axes logarithmic, for {heads} "
    "heads of width 128 and a batch of {batch}. A steep line, the n by n weights A, rises fourfold for every doubling; "
    "a flatter line, everything else, doubles. A dashed level line is the memory of one H100. Dots mark n = {n}."
)

HEAD_DIM = 128


def weights(n: int, heads: int, batch: int) -> int:
    """Bytes of the attention weights A in FP16: one n × n matrix per head and sequence."""
    return score_matrix_bytes(n, heads=heads, batch=batch)


def rest(n: int, heads: int, batch: int) -> int:
    """Bytes of Q, K, V and the output in FP16, and of one number per row in FP32."""
    return batch * heads * n * (4 * HEAD_DIM * 2 + 4)


def draw(*, n: int = 1024, heads: int = 1, batch: int = 1) -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.6)
    tokens = np.array([128, 2**20])
    kinds = [(weights, "softmax", "A, n² per head"), (rest, "muted", "Q, K, V, output")]
    for size, color, words in kinds:
        ax.loglog(tokens, [size(int(t), heads, batch) for t in tokens], color=style.COLORS[color])
        ax.loglog([n], [size(n, heads, batch)], "o", color=style.COLORS[color], markersize=7)
        words = f"{words}: {format_bytes(size(n, heads, batch), digits=3)}"
        top = 0.98 if size is weights else 0.89
        ax.text(0.02, top, words, transform=ax.transAxes, color=style.COLORS[color], va="top", fontsize=10.5)
    ax.axhline(H100.reported, color=style.COLORS["accent"], linestyle="--", linewidth=1.5)
    ax.text(2**20, H100.reported / 1.6, "one H100", ha="right", va="top", fontsize=10, color=style.COLORS["accent"])
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**8, 2**11, 2**14, 2**17, 2**20], ["256", "2K", "16K", "128K", "1M"])
    ticks = [2**20, 2**30, 2**40, 2**50]
    ax.set_yticks(ticks, [format_bytes(size) for size in ticks])
    ax.minorticks_off()
    ax.set(xlim=(128, 2**20), ylim=(2**15, 2**59), xlabel="tokens n", ylabel="kept by one layer")
    ax.grid(True, axis="y")
    return fig


def reading(*, n: int = 1024, heads: int = 1, batch: int = 1) -> str:
    square, line = weights(n, heads, batch), rest(n, heads, batch)
    words = f"{heads} head{'s' * (heads > 1)} at {n:,} tokens, batch {batch}"
    times = f"{square / line:.3g} times" if square > line else f"{100 * square / line:.3g} % of"
    return f"{words}: A takes {format_bytes(square)}, {times} the {format_bytes(line)} of everything else."
