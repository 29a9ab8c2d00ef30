"""Which of the three bills each mechanism cuts, for one layer at one length. Used on intro."""

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import attention_flops, kv_numbers_per_layer, linear_state_numbers, models, msa_flops

ALT = (
    "A table of coloured cells: one row for each mechanism, one column for each bill (computed in prefill, read per "
    "decoded token, held per sequence), each cell giving the share of full multi-head attention's bill that is left"
)

MODEL = models.LLAMA_3_8B
WINDOW, TOP_K, BLOCK, INDEX = 4096, 16, 128, 128
COLUMNS = ("computed", "read per token", "held")


def shares(tokens: int) -> dict[str, tuple[str, tuple[float, float, float]]]:
    """Mechanism -> palette key and its bills over those of multi-head softmax attention, one Llama 3 8B layer wide."""
    heads, width = MODEL.heads, MODEL.head_dim
    full = attention_flops(tokens, heads=heads, head_dim=width, causal=True, exact=True)
    cache = tokens * kv_numbers_per_layer(MODEL, scheme="mha")
    grouped = tokens * kv_numbers_per_layer(MODEL)
    latent = tokens * kv_numbers_per_layer(MODEL, scheme="mla")
    window = attention_flops(tokens, heads=heads, head_dim=width, causal=True, exact=True, window=WINDOW)
    near = min(tokens, WINDOW) / tokens
    geometry = {"heads": heads, "kv_heads": MODEL.kv_heads, "head_dim": width, "index_dim": INDEX}
    selected = msa_flops(tokens, top_k=TOP_K, block=BLOCK, exact=True, **geometry)
    chosen = min(tokens, TOP_K * BLOCK) / tokens * grouped + tokens * INDEX
    state = linear_state_numbers(heads=heads, d_k=width)
    delta = (3 * 2 * state * tokens / full, 2 * state / cache, state / cache)
    rotary = kv_numbers_per_layer(MODEL, scheme="mla") - 4 * width
    return {
        "multi-head": ("softmax", (1.0, 1.0, 1.0)),
        "grouped (GQA)": ("grouped", (1.0, grouped / cache, grouped / cache)),
        "latent (MLA)": ("latent", ((2 * width + rotary) / (2 * width), latent / cache, latent / cache)),
        "window": ("window", (window / full, near, near)),
        "block selection": (
            "sparse",
            ((selected.index + selected.main) / full, chosen / cache, (grouped + tokens * INDEX) / cache),
        ),
        "linear state": ("linear", (2 * 2 * state * tokens / full, 2 * state / cache, state / cache)),
        "delta rule": ("delta", delta),
        "3 delta : 1 GQA": (
            "hybrid",
            tuple(0.75 * d + 0.25 * g for d, g in zip(delta, (1.0, grouped / cache, grouped / cache), strict=True)),
        ),
    }


def draw(*, tokens: int = 131_072) -> Figure:
    rows = shares(tokens)
    fig, ax = style.subplots(width=5.0, height=3.4)
    cells = np.zeros((len(rows), len(COLUMNS), 4))
    for i, (name, (color, values)) in enumerate(rows.items()):
        ax.text(-0.1, i, name, ha="right", va="center", fontsize=10)
        for j, value in enumerate(values):
            if value < 0.995:  # coloured: cut
                cells[i, j] = to_rgba(style.COLORS[color], 0.35)
            ax.text(j + 0.5, i, spoken(value), ha="center", va="center", fontsize=10)
    ax.imshow(cells, extent=(0, len(COLUMNS), len(rows) - 0.5, -0.5), aspect="auto", interpolation="none")
    for j, column in enumerate(COLUMNS):
        ax.text(j + 0.5, -0.75, column, ha="center", va="center", fontsize=10, fontweight="bold")
    ax.set_xlim(-1.45, 3.0)
    ax.set_ylim(len(rows) - 0.5, -1.1)
    ax.set_axis_off()
    return fig


def spoken(share: float) -> str:
    """A share in per cent, to two significant digits (three from 100 on)."""
    percent = style.rounded(100 * share, 3 if share >= 1 else 2)
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def reading(*, tokens: int = 131_072) -> str:
    rows = shares(tokens)
    parts = [f"{name} holds {spoken(rows[name][1][2])}" for name in ("grouped (GQA)", "latent (MLA)", "delta rule")]
    return f"At {tokens:,} tokens, against multi-head attention: " + ", ".join(parts) + "."
