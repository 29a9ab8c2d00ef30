"""A state is a flat line, a cache a rising one; a larger state moves the crossing right. Used on linear/state-space."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import kv_numbers_per_layer, models, state_crossover_tokens

ALT = (
    "Numbers kept by one layer against the context in tokens, both axes logarithmic. The cache of a grouped-query "
    "layer rises; the states of Mamba with 16, 128 and 256 rows are flat lines, one above the other. Each crosses "
    "the cache line at a dot, further right the larger the state."
)

ROWS = (16, 128, 256)


def draw() -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.2)
    model = models.LLAMA_3_8B
    per_token, inner = kv_numbers_per_layer(model), 2 * model.d_model
    cache, state = style.COLORS["grouped"], style.COLORS["gated"]
    tokens = [8, 131072]
    ax.plot(tokens, style.rounded([n * per_token for n in tokens]), color=cache)
    ax.text(24, 2.0e4, "cache (GQA)", color=cache, fontsize=9.5, weight="bold", ha="left", va="center")
    for rows in ROWS:
        numbers = inner * rows
        cross = state_crossover_tokens(kv_numbers=per_token, state_numbers=numbers)
        ax.plot(tokens, style.rounded([numbers, numbers]), color=state)
        ax.plot([cross], [style.rounded(numbers)], "o", color=state, markersize=7)
        above = rows != 128
        ax.text(
            125000,
            numbers * (1.12 if above else 0.88),
            f"{rows} rows: {cross:,.0f} tokens",
            color=state,
            fontsize=9.5,
            ha="right",
            va="bottom" if above else "top",
            weight="bold",
        )
    ax.text(9, 2.6e6, "states (Mamba)", color=state, fontsize=9.5, weight="bold", ha="left", va="bottom")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks([16, 128, 1024, 8192, 65536], ["16", "128", "1,024", "8,192", "65,536"])
    ax.minorticks_off()
    ax.set_xlim(8, 131072)
    ax.set_ylim(1.2e4, 4e8)
    ax.set_yticks([1e5, 1e6, 1e7, 1e8], ["10⁵", "10⁶", "10⁷", "10⁸"])
    ax.set_xlabel("context (tokens)")
    ax.set_ylabel("numbers kept per layer")
    return fig
