"""In one decode step attention grows with the context and the weights do not; they tie at six widths.
Used on cost/decode."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import attention_flops, projection_flops

ALT = (
    "Work of one layer in one decode step against the context length, both axes logarithmic. The products with weights "
    "are a level line, attention is a rising straight line, and a dot marks where they cross, at six times the width."
)


def step(tokens: int, d: int) -> tuple[int, int]:
    """FLOP of one layer for one new token: attention over `tokens` tokens, products with weights."""
    return attention_flops(1, keys=tokens, heads=1, head_dim=d, causal=True), projection_flops(1, d_model=d)


def draw(*, d: int = 4096) -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.3)
    ends = [2**8, 2**20]
    attention = style.rounded([step(n, d)[0] for n in ends])
    weights = style.rounded(step(1, d)[1])
    meet = 6 * d
    ax.loglog(ends, attention, color=style.COLORS["softmax"])
    ax.loglog(ends, [weights, weights], color=style.COLORS["weights"])
    ax.loglog([meet], [weights], "o", color=style.COLORS["accent"], markersize=8)
    note = {"textcoords": "offset points", "fontsize": 10.5}
    ax.annotate("weights, 24 d²", (2**8, weights), xytext=(2, 7), color=style.COLORS["weights"], **note)
    ax.annotate(
        "attention, 4 s d", (2**14, 4 * d * 2**14), xytext=(8, -10), color=style.COLORS["softmax"], ha="left", **note
    )
    ax.annotate(f"{meet:,} tokens", (meet, weights), xytext=(-6, 14), color=style.COLORS["accent"], ha="right", **note)
    marks = [2**8, 2**12, 2**16, 2**20]
    ax.set_xticks(marks, [f"{mark:,}" for mark in marks])
    ax.set_yticks([10**6, 10**8, 10**10], ["10⁶", "10⁸", "10¹⁰"])
    ax.minorticks_off()
    ax.grid(True)
    ax.set(xlim=(2**8, 2**20), xlabel="context s (tokens)", ylabel="FLOP per layer")
    return fig
