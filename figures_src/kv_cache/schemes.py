"""What one layer keeps per token under five schemes, as areas.
Used on kv_cache/kv-tables."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style
from attnledger.costs import SCHEMES, kv_numbers_per_layer
from attnledger.costs.models import LLAMA_2_70B

ALT = (
    "Five squares whose areas are the numbers that one layer of Llama 2 70B's shape keeps for a token: a large one for "
    "multi-head attention, one an eighth of it for eight groups, and three small ones for tensor-product, latent and "
    "multi-query attention."
)

COLORS = {"mha": "softmax", "gqa": "grouped", "mqa": "shared", "mla": "latent", "tpa": "tensor"}


def draw() -> Figure:
    fig, ax = style.subplots(width=5.2, height=2.7)
    kept = {scheme: kv_numbers_per_layer(LLAMA_2_70B, scheme=scheme) for scheme in SCHEMES}
    left = 0.0
    for scheme in sorted(kept, key=kept.get, reverse=True):
        side = style.rounded(kept[scheme] ** 0.5)
        color = style.COLORS[COLORS[scheme]]
        ax.add_patch(Rectangle((left, 0), side, side, color=color, linewidth=0))
        width = max(side, 44.0)
        middle = left + side / 2
        ax.text(middle, -6, scheme.upper(), ha="center", va="top", fontsize=10.5, color=color, weight="bold")
        ax.text(middle, -20, f"{kept[scheme]:,}", ha="center", va="top", fontsize=10)
        left += width + 6
    ax.set(xlim=(-8, left - 10), ylim=(-34, 132), aspect="equal")
    ax.axis("off")
    return fig
