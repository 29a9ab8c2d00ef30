"""The cache grows and the state does not: where they meet depends on what is shared and stored how.
Used on linear/linear-attention."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import format_bytes, kv_numbers_per_layer, linear_state_numbers, state_crossover_tokens
from attnledger.costs.models import LLAMA_3_8B

ALT = (
    "Bytes one layer keeps against the context length, both axes logarithmic. The KV cache of Llama 3 8B rises as a "
    "straight line; the state of a linear layer with {heads} states of {r} by 128 in {dtype} is a level line. "
    "A dot marks where they cross."
)

BYTES = {"bf16": 2, "fp32": 4}


def layer(heads: int, dtype: str, r: int) -> tuple[int, int, float]:
    """Cache bytes per token, state bytes, and the tokens at which the cache has grown to the state."""
    kv, state = kv_numbers_per_layer(LLAMA_3_8B), linear_state_numbers(heads=heads, d_k=r, d_v=LLAMA_3_8B.value_dim)
    meet = state_crossover_tokens(kv_numbers=kv, state_numbers=state, state_bytes_per_number=BYTES[dtype])
    return 2 * kv, state * BYTES[dtype], meet


def draw(*, heads: int = 32, dtype: str = "bf16", r: int = 128) -> Figure:
    fig, ax = style.subplots(width=4.6, height=3.5)
    per_token, state, meet = layer(heads, dtype, r)
    tokens = np.array([16, 65536])
    ax.loglog(tokens, tokens * per_token, color=style.COLORS["softmax"])
    ax.loglog(tokens, [state, state], color=style.COLORS["linear"])
    ax.loglog([meet], [state], "o", color=style.COLORS["accent"], markersize=8)
    style.direct_label(ax, 6000, 20000 * per_token, "KV cache", style.COLORS["softmax"], ha="right", fontsize=10.5)
    style.direct_label(
        ax, 65536, state / 1.8, f"state: {format_bytes(state)}", style.COLORS["linear"], ha="right", fontsize=10.5
    )
    ax.annotate(
        f"{meet:,} tokens",
        (meet, state),
        xytext=(-8, 10),
        textcoords="offset points",
        color=style.COLORS["accent"],
        fontsize=10.5,
        ha="right",
    )
    marks = [16, 256, 4096, 65536]
    ax.set_xticks(marks, [f"{mark:,}" for mark in marks])
    sizes = [2**16, 2**20, 2**24, 2**28]
    ax.set_yticks(sizes, [format_bytes(size) for size in sizes])
    ax.minorticks_off()
    ax.set_ylim(2**15.5, 2**28.3)
    ax.grid(True)
    ax.set_xlabel("context length (tokens)")
    ax.set_ylabel("kept per layer")
    return fig


def reading(*, heads: int = 32, dtype: str = "bf16", r: int = 128) -> str:
    per_token, state, meet = layer(heads, dtype, r)
    return (
        f"{heads} states of {r} × 128 in {dtype} take {format_bytes(state)} per layer, as much as the cache of "
        f"{meet:,} tokens at {format_bytes(per_token)} each."
    )
