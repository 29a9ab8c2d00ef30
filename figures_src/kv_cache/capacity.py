"""How many conversations of which length fit on a machine, for a model, a cache type and a machine.
Used on kv_cache/kv-tables."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import format_bytes, kv_cache_bytes, linear_state_bytes, requests_per_card
from attnledger.costs.hardware import A100_80, H100, H200, L4
from attnledger.costs.models import DEEPSEEK_V3, KIMI_LINEAR_48B, LLAMA_2_70B, LLAMA_3_8B

ALT = (
    "Caches of {model} in {dtype} against the context length, both axes logarithmic: rising lines for 1, 8 and 64 "
    "conversations at once, and a dashed level line for the memory that {machine} leaves beside the weights."
)

MODELS = {
    "Llama 3 8B": (LLAMA_3_8B, None),
    "Llama 2 70B": (LLAMA_2_70B, None),
    "Llama 2 70B, all heads": (LLAMA_2_70B, "mha"),
    "DeepSeek-V3": (DEEPSEEK_V3, None),
    "Kimi Linear 48B": (KIMI_LINEAR_48B, None),
}
BYTES = {"BF16": 2, "FP8": 1}
MACHINES = {"1 × L4": (L4, 1), "2 × A100": (A100_80, 2), "8 × H100": (H100, 8), "16 × H200": (H200, 16)}
STATE = 4  # the released hybrids keep their states in FP32


def size(model: str, dtype: str, tokens: int, requests: int) -> float:
    """Bytes of the caches, and of the states where the model has any."""
    config, scheme = MODELS[model]
    states = linear_state_bytes(config, bytes_per_number=STATE, requests=requests) if config.linear_layers else 0
    return kv_cache_bytes(config, tokens, requests=requests, scheme=scheme, bytes_per_number=BYTES[dtype]) + states


def room(model: str, machine: str) -> int:
    """Bytes left beside BF16 weights, by the driver's count of the memory; negative if the weights do not fit."""
    gpu, cards = MACHINES[machine]
    return cards * gpu.reported - 2 * MODELS[model][0].parameters


def draw(*, model: str = "Llama 3 8B", dtype: str = "BF16", machine: str = "1 × L4") -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.7)
    tokens = np.array([2**i for i in range(10, 21, 2)])
    for requests, width in ((64, 2.6), (8, 2.0), (1, 1.4)):
        sizes = style.rounded([size(model, dtype, int(n), requests) / 2**30 for n in tokens])
        ax.loglog(tokens, sizes, color=style.COLORS["softmax"], linewidth=width)
        style.direct_label(ax, 2**20, sizes[-1], f"× {requests}", style.COLORS["softmax"], fontsize=10.5)
    left = room(model, machine)
    words = f"{machine}: the weights alone take {format_bytes(2 * MODELS[model][0].parameters, digits=3)}, too much"
    if left > 0:
        ax.axhline(style.rounded(left / 2**30), color=style.COLORS["accent"], linestyle="--")
        words = f"{machine}: {format_bytes(left, digits=3)} beside the weights"
    ax.text(0.02, 1.0, words, transform=ax.transAxes, va="top", fontsize=10.5, color=style.COLORS["accent"])
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**10, 2**12, 2**14, 2**16, 2**18, 2**20], ["1K", "4K", "16K", "64K", "256K", "1M"])
    ax.set_yticks([0.01, 1, 100, 10_000], ["0.01", "1", "100", "10,000"])
    ax.minorticks_off()
    ax.set(xlim=(1024, 2**20), ylim=(0.003, 1e6), xlabel="tokens per conversation", ylabel="caches, GiB")
    return fig


def reading(*, model: str = "Llama 3 8B", dtype: str = "BF16", machine: str = "1 × L4") -> str:
    if room(model, machine) <= 0:
        return f"The weights of {model} alone do not fit on {machine}."
    config, scheme = MODELS[model]
    gpu, cards = MACHINES[machine]
    options = {"cards": cards, "scheme": scheme, "bytes_per_number": BYTES[dtype], "memory": "reported"}
    short, long = (requests_per_card(config, gpu, tokens=n, **options) for n in (4096, 131072))
    return f"At most {short:,} conversations of 4K tokens or {long:,} of 128K tokens fit on {machine} beside {model}."
