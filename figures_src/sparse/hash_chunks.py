"""Sorting by bucket brings the pairs that meet to the diagonal. Used on sparse/hashing."""

import torch
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.sparse import lsh_buckets

ALT = (
    "Two maps of 32 queries by 32 keys. In the order of the text, left, the pairs of one bucket lie scattered over the "
    "triangle of the past. Sorted by bucket, right, the same pairs form small triangles along the diagonal, and a "
    "staircase of chunks of eight tokens, each with the chunk before it, covers all of them."
)

T, CHUNK = 32, 8


def draw() -> Figure:
    source = torch.Generator().manual_seed(4)
    make = {"generator": source, "dtype": torch.float64}
    centre = torch.randn(6, 8, **make)[torch.randint(6, (T,), generator=source)]
    bucket = lsh_buckets(centre + 0.4 * torch.randn(T, 8, **make), buckets=8)[0]
    position = torch.arange(T)
    order = bucket.argsort(stable=True)
    met = (bucket.unsqueeze(-1) == bucket) & (position < position.unsqueeze(-1))
    chunk = position // CHUNK
    back = chunk.unsqueeze(-1) - chunk
    computed = (back == 0) | (back == 1)
    past = position <= position.unsqueeze(-1)

    shades = ListedColormap(["#00000000", to_rgba(style.COLORS["muted"], 0.28), style.COLORS["sparse"]])
    fig, axes = style.subplots(1, 2, width=5.2, height=3.0)
    maps = (torch.where(met, 2, past.int()), torch.where(met[order][:, order], 2, computed.int()))
    for ax, code, title in zip(axes, maps, ("order of the text", "sorted by bucket"), strict=True):
        ax.imshow(code.numpy(), cmap=shades, vmin=0, vmax=2, interpolation="none")
        ax.set_title(title)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel("key")
        ax.spines[:].set_visible(False)
    axes[0].set_ylabel("query")
    return fig
