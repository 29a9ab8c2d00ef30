"""Six fixed patterns as causal masks, drawn to one scale. Used on sparse/fixed-patterns."""

import torch
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.sparse import bigbird_mask, dilated_mask, global_mask, window_mask

ALT = (
    "Six causal masks of 24 tokens. Window: a band of six keys along the diagonal. Dilated: the band is twice as wide "
    "and every second key is missing. Window and sinks: the band and the first two columns. Window and global token: "
    "the band, and the row and the column of token 12. Blocks: triangles of six tokens along the diagonal, nothing "
    "between them. Big Bird: in blocks of two tokens a band, the first column of blocks and a few scattered blocks."
)

T, W = 24, 6


def patterns() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Name -> (mask, the part of it that is the plain window or block)."""
    near = window_mask(T, window=W)
    block = torch.arange(T) // W
    own = (block.unsqueeze(-1) == block) & window_mask(T, window=T)
    gaps = dilated_mask(T, window=W, dilation=2)
    bird = bigbird_mask(T, block_size=2, window=3, global_blocks=1, random_blocks=1)
    band = bigbird_mask(T, block_size=2, window=3, global_blocks=0, random_blocks=0)
    return {
        "window": (near, near),
        "dilated": (gaps, gaps),
        "window + sinks": (window_mask(T, window=W, sinks=2), near),
        "window + global": (near | global_mask(T, tokens=[12]), near),
        "blocks": (own, own),
        "Big Bird": (bird, band),
    }


def draw() -> Figure:
    fig, axes = style.subplots(2, 3, width=5.2, height=3.9)
    shades = ListedColormap(
        ["#00000000", to_rgba(style.COLORS["muted"], 0.22), style.COLORS["window"], style.COLORS["sparse"]]
    )
    past = torch.ones(T, T, dtype=torch.bool).tril()
    for ax, (name, (mask, near)) in zip(axes.flat, patterns().items(), strict=True):
        code = past.int() + mask.int() + (mask & ~near).int()
        ax.imshow(code.numpy(), cmap=shades, vmin=0, vmax=3, interpolation="none")
        ax.set_title(name)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_visible(False)
    axes[1, 0].set_xlabel("key")
    axes[1, 0].set_ylabel("query")
    return fig
