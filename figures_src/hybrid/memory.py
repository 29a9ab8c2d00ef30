"""All mixes meet the cache-only model at one length, which no share of caches moves. Used on hybrid/layer-mix."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import (
    format_bytes,
    kv_numbers_per_layer,
    linear_state_numbers,
    models,
    state_crossover_tokens,
)

ALT = (
    "What a mix keeps, as a share of the same model with a cache in every layer, against the context length, both "
    "axes logarithmic. Five falling curves, from a cache in every second layer to no cache at all, cross at one point, "
    "where the share is one, and level off at the share of layers with a cache. The curve for a cache in {caches} is "
    "strong, with a dot at {tokens} tokens; the shape is that of {shape}."
)

SHARES = {"1 layer in 4": 1 / 4, "1 layer in 2": 1 / 2, "1 layer in 8": 1 / 8, "1 layer in 16": 1 / 16, "no layer": 0.0}
# layers, cached numbers per token and layer, numbers of a state: bf16 both, so that bytes are 2 per number
_LLAMA = models.LLAMA_3_8B
SHAPES = {
    "Llama 3 8B": (_LLAMA.layers, kv_numbers_per_layer(_LLAMA), linear_state_numbers(heads=32, d_k=128)),
    **{
        name: (m.layers, kv_numbers_per_layer(m), linear_state_numbers(m) // len(m.linear_layers))
        for name, m in (("Qwen3.5", models.QWEN3_5_397B), ("Kimi K3", models.KIMI_K3))
    },
}
GRID = [2**e for e in range(6, 21)]


def relative(share: float, tokens: float, crossover: float) -> float:
    """What the mix keeps over what caches in all layers keep."""
    return share + (1 - share) * crossover / tokens


def crossover_of(shape: str) -> float:
    _, cached, state = SHAPES[shape]
    return state_crossover_tokens(kv_numbers=cached, state_numbers=state)


def caches_word(name: str) -> str:
    """``1 layer in 4`` as it stands at the end of its curve: ``1 in 4``."""
    return "none" if name == "no layer" else name.replace(" layer", "")


def draw(*, caches: str = "1 layer in 4", tokens: int = 4096, shape: str = "Llama 3 8B") -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.4)
    meet = crossover_of(shape)
    for name, share in SHARES.items():
        chosen = name == caches
        ax.loglog(
            GRID,
            style.rounded([relative(share, n, meet) for n in GRID]),
            color=style.COLORS["hybrid" if chosen else "muted"],
            linewidth=2.6 if chosen else 1.0,
        )
        end = (2**20, share) if share else (2**20, 0.0055)
        color = style.COLORS["hybrid"] if chosen else style.INK
        style.direct_label(ax, *end, caches_word(name), color, fontsize=9)
    ax.axhline(1, color=style.COLORS["grouped"], linewidth=1.6)
    ax.text(2**19.9, 1.2, "a cache in every layer", color=style.COLORS["grouped"], ha="right", va="bottom", fontsize=10)
    ax.plot([tokens], [style.rounded(relative(SHARES[caches], tokens, meet))], "o", color=style.COLORS["accent"])
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**e for e in (6, 8, 10, 12, 14, 16, 18, 20)], ["64", "256", "1K", "4K", "16K", "64K", "256K", "1M"])
    ax.set_yticks([0.01, 0.1, 1, 10], ["1 %", "10 %", "100 %", "10 ×"])
    ax.minorticks_off()
    ax.set(xlim=(64, 2**20), ylim=(0.004, 50), xlabel="tokens of context", ylabel="kept, of the cache-only model")
    return fig


def reading(*, caches: str = "1 layer in 4", tokens: int = 4096, shape: str = "Llama 3 8B") -> str:
    layers, cached, state = SHAPES[shape]
    share = SHARES[caches]
    every = 2 * layers * cached * tokens
    kept, states = share * every, 2 * (1 - share) * layers * state
    parts = f"{format_bytes(kept, digits=3)} of caches and {format_bytes(states, digits=3)} of states"
    return (
        f"At {tokens:,} tokens a cache in every layer takes {format_bytes(every, digits=3)}, the mix {parts}: "
        f"{(kept + states) / every:.3g} of it. They are equal at {crossover_of(shape):,.0f} tokens."
    )
