"""A batch shares the weights and not the caches, so only short contexts can keep a card's arithmetic busy.
Used on cost/decode."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import decode_bound
from attnledger.costs.hardware import H100
from attnledger.costs.models import LLAMA_3_8B

ALT = (
    "Operations per byte in one decode step against the number of conversations in the batch, both axes logarithmic, "
    "one curve per context length. All start near one and rise; the longer the context, the earlier the curve levels "
    "off. Only the shortest context reaches the dashed line of what an H100 needs."
)

CONTEXTS = [(128, "128 tokens"), (1024, "1K"), (8192, "8K"), (131072, "128K")]


def intensity(requests: int, tokens: int) -> float:
    """FLOP per byte of one step of `requests` conversations of Llama 3 8B with `tokens` tokens each."""
    return decode_bound(LLAMA_3_8B, H100, tokens=tokens, requests=requests).intensity


def draw() -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.5)
    batches = [2**i for i in range(13)]
    for tokens, name in CONTEXTS:
        values = style.rounded([intensity(b, tokens) for b in batches])
        ax.loglog(batches, values, color=style.COLORS["softmax"], linewidth=1.4)
        style.direct_label(ax, batches[-1], values[-1], name, style.COLORS["softmax"], fontsize=10)
    ridge = style.rounded(H100.ridge("bf16"))
    ax.axhline(ridge, color=style.COLORS["accent"], linestyle="--")
    ax.text(1.1, ridge * 1.18, "an H100 computes at its peak", color=style.COLORS["accent"], fontsize=10)
    marks = [1, 8, 64, 512, 4096]
    ax.set_xticks(marks, [f"{mark:,}" for mark in marks])
    ax.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    ax.minorticks_off()
    ax.grid(True)
    ax.set(xlim=(1, 4096), ylim=(0.8, 2500), xlabel="conversations in the batch", ylabel="FLOP per byte")
    return fig
