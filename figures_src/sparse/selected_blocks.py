"""Two groups read different blocks of one past, the query's own always among them. Used on sparse/block-selection."""

import torch
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.msa import select_blocks
from attnledger.ops.softmax import attention_weights

ALT = (
    "Two causal attention maps of 32 queries by 32 keys, one per group. Darker squares carry more attention; read "
    "squares are violet, visible but unread ones grey. In the row of query {query} the chosen blocks of {block} keys, "
    "at most {k}, are framed."
)

T, GROUPS, HEADS = 32, 2, 4
LEVELS = (0.02, 0.1)  # attention weights that separate the three shades


def layer() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """q (4, 32, 8) and k (2, 32, 8) of a layer with fixed projections; iq (2, 32, 16) and ik (1, 32, 16) of its index.

    The index key is the token itself and the index query the group's mean query pulled back through the key
    projection, so that an index score is the mean score of the group's heads (up to a factor).
    """
    source = torch.Generator().manual_seed(5)
    make = {"generator": source, "dtype": torch.float64}
    embedding = torch.randn(24, 16, **make)
    w_q, w_k = 0.8 * torch.randn(HEADS, 16, 8, **make), 0.8 * torch.randn(GROUPS, 16, 8, **make)
    # every place adds a little, or copies of one token would tie and rounding would choose between them
    x = embedding[torch.randint(24, (T,), generator=source)] + 0.1 * torch.randn(T, 16, **make)
    q, k = x @ w_q, x @ w_k
    return q, k, q.unflatten(0, (GROUPS, -1)).mean(1) @ w_k.mT, x.unsqueeze(0)


def chosen(query: int, k: int, block: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Block ids (2, 32, k), the keys they make readable (2, 32, 32) and each group's mean attention weights."""
    q, keys, iq, ik = layer()
    weights = attention_weights(q, keys.repeat_interleave(HEADS // GROUPS, 0)).unflatten(0, (GROUPS, -1)).mean(1)
    blocks = select_blocks(iq, ik, block_size=block, top_k=k)
    ids = torch.arange(T) // block
    read = (blocks.unsqueeze(-1) == ids).any(-2) & torch.ones(T, T, dtype=torch.bool).tril()
    return blocks, read, weights


def draw(*, query: int = 27, k: int = 3, block: int = 4) -> Figure:
    blocks, read, weights = chosen(query, k, block)
    shade = 1 + (weights > LEVELS[0]).int() + (weights > LEVELS[1]).int()
    code = torch.where(read, 3 + shade, shade).tril()
    grey = [to_rgba(style.COLORS["muted"], alpha) for alpha in (0.14, 0.5, 1.0)]
    violet = [to_rgba(style.COLORS["sparse"], alpha) for alpha in (0.3, 0.6, 1.0)]
    shades = ListedColormap(["#00000000", *grey, *violet])
    fig, axes = style.subplots(1, GROUPS, width=5.2, height=3.0)
    for g, ax in enumerate(axes):
        ax.imshow(code[g].numpy(), cmap=shades, vmin=0, vmax=6, interpolation="none")
        x, y = [], []  # one line around all chosen blocks keeps a frame small
        for b in blocks[g, query].tolist():
            if b >= 0:
                left, right = b * block - 0.5, min((b + 1) * block, query + 1) - 0.5
                x += [left, right, right, left, left, None]
                y += [query - 0.5, query - 0.5, query + 0.5, query + 0.5, query - 0.5, None]
        ax.plot(x, y, color=style.COLORS["accent"], linewidth=1.8)
        ax.set_title(f"group {g}")
        ax.set_xticks([0, 8, 16, 24])
        ax.set_yticks([0, 8, 16, 24] if g == 0 else [])
        ax.set_xlabel("key")
        ax.spines[:].set_visible(False)
    axes[0].set_ylabel("query")
    return fig


def reading(*, query: int = 27, k: int = 3, block: int = 4) -> str:
    blocks, read, weights = chosen(query, k, block)
    parts = []
    for g in range(GROUPS):
        ids = [str(b) for b in blocks[g, query].tolist() if b >= 0]
        mass = float((weights[g, query] * read[g, query]).sum())
        keys = f"{int(read[g, query].sum())} of {query + 1} keys with {mass:.0%} of the attention"
        parts.append(f"group {g} reads block{'s' * (len(ids) > 1)} {', '.join(ids)} ({keys})")
    return f"Query {query}: " + "; ".join(parts) + "."
