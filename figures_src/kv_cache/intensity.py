"""Sharing a cached head among more queries raises the work done per byte read, but not to what a GPU needs.
Used on kv_cache/kv-tables."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import decode_bound
from attnledger.costs.hardware import H100
from attnledger.costs.models import DEEPSEEK_V3, GPT_3_6_7B, LLAMA_2_70B, LLAMA_3_8B

ALT = (
    "Operations per cached byte in one decode step, on a logarithmic axis, as bars: 1 for GPT-3 6.7B, which caches all "
    "heads, 4 for Llama 3 8B, 8 for Llama 2 70B, and some two hundred for DeepSeek-V3's latent. A dashed line a little "
    "further right marks what an H100 can do for each byte it reads; no bar reaches it."
)

BARS = [
    (GPT_3_6_7B, "every head cached", "softmax"),
    (LLAMA_3_8B, "4 queries share a head", "grouped"),
    (LLAMA_2_70B, "8 queries share a head", "grouped"),
    (DEEPSEEK_V3, "128 queries share a latent", "latent"),
]


def draw(*, tokens: int = 4096) -> Figure:
    fig, ax = style.subplots(width=5.2, height=2.9)
    ridge = H100.ridge("bf16")
    for place, (model, why, color) in enumerate(BARS):
        value = style.rounded(decode_bound(model, H100, tokens=tokens, weights=False).intensity)
        ax.barh(-place, value - 0.5, left=0.5, height=0.62, color=style.COLORS[color], linewidth=0)
        ax.text(0.52, -place + 0.52, f"{model.name}, {why}: {value:.3g}", fontsize=10, va="center")
    ax.axvline(style.rounded(ridge), color=style.COLORS["accent"], linestyle="--")
    ax.text(ridge * 1.1, 0.1, f"an H100\nneeds\n{ridge:.3g}", color=style.COLORS["accent"], fontsize=10, va="center")
    ax.set_xscale("log")
    ax.set_xticks([1, 10, 100], ["1", "10", "100"])
    ax.minorticks_off()
    ax.set(xlim=(0.5, 900), ylim=(-3.5, 0.85), xlabel="FLOP per cached byte, one decode step")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return fig
