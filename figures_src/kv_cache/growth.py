"""The cache grows in proportion to the context; what differs between models is the slope, and whether a window caps it.
Used on kv_cache/kv-tables."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import kv_cache_bytes
from attnledger.costs.models import (
    DEEPSEEK_V3,
    KIMI_LINEAR_48B,
    LLAMA_2_70B,
    LLAMA_3_8B,
    LLAMA_3_70B,
    MISTRAL_7B,
    QWEN3_5_397B,
)

ALT = (
    "Size of the KV cache of one conversation against its length, both axes logarithmic. Six models give rising "
    "parallel lines, from Llama 2 70B with every head cached at the top to Kimi Linear at the bottom, more than two "
    "orders of magnitude apart; Mistral 7B bends and stays level at its window. A dot on each line marks the longest "
    "context the model was released with."
)

LINES = [
    (LLAMA_2_70B, "mha", "Llama 2 70B, all heads", "softmax"),
    (LLAMA_3_70B, None, "Llama 3 70B", "grouped"),
    (LLAMA_3_8B, None, "Llama 3 8B", "grouped"),
    (DEEPSEEK_V3, None, "DeepSeek-V3", "latent"),
    (QWEN3_5_397B, None, "Qwen3.5 397B", "hybrid"),
    (KIMI_LINEAR_48B, None, "Kimi Linear", "hybrid"),
    (MISTRAL_7B, None, "Mistral 7B", "window"),
]


def draw() -> Figure:
    fig, ax = style.subplots(width=5.2, height=4.3)
    tokens = np.array([1024, 4096, 2**20])
    for model, scheme, name, color in LINES:
        sizes = np.array([kv_cache_bytes(model, int(n), scheme=scheme) for n in tokens]) / 2**30
        ax.loglog(tokens, style.rounded(sizes), color=style.COLORS[color])
        dot = kv_cache_bytes(model, model.max_context, scheme=scheme) / 2**30
        ax.loglog([model.max_context], [style.rounded(dot)], "o", color=style.COLORS[color], clip_on=False)
        style.direct_label(ax, 2**20, sizes[-1], name, style.COLORS[color], fontsize=10)
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**10, 2**12, 2**14, 2**16, 2**18, 2**20], ["1K", "4K", "16K", "64K", "256K", "1M"])
    ax.set_yticks([0.01, 0.1, 1, 10, 100, 1000], ["0.01", "0.1", "1", "10", "100", "1,000"])
    ax.minorticks_off()
    ax.set(xlim=(1024, 2**20), xlabel="tokens of context", ylabel="KV cache in BF16, GiB")
    ax.grid(True, axis="y")
    return fig
