"""Which of the large weights a few rounds of hashing find. Used on sparse/hashing."""

import math

import torch
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.softmax import attention_weights
from attnledger.ops.sparse import lsh_buckets

ALT = (
    "A causal attention map of 40 queries by 40 keys. Darker squares carry more attention; those met in at least one "
    "of the rounds ({rounds}, with {buckets} buckets each) are violet, those never met are grey."
)

T = 40
LEVELS = (0.03, 0.15)


def found(rounds: int, buckets: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention weights (40, 40) with shared queries and keys, and which pairs meet in some round."""
    source = torch.Generator().manual_seed(7)
    make = {"generator": source, "dtype": torch.float64}
    centre = torch.randn(6, 16, **make)[torch.randint(6, (T,), generator=source)]
    x = centre + 0.6 * torch.randn(T, 16, **make)
    past = torch.ones(T, T, dtype=torch.bool).tril(-1)
    weights = attention_weights(x, x / x.norm(dim=-1, keepdim=True), mask=past, scale=1.5)
    bucket = lsh_buckets(x, buckets=buckets, rounds=rounds)
    return weights, (bucket.unsqueeze(-1) == bucket.unsqueeze(-2)).any(0) & past


def draw(*, rounds: int = 1, buckets: int = 8) -> Figure:
    weights, met = found(rounds, buckets)
    shade = 1 + (weights > LEVELS[0]).int() + (weights > LEVELS[1]).int()
    code = torch.where(met, 3 + shade, shade).tril(-1)
    grey = [to_rgba(style.COLORS["muted"], alpha) for alpha in (0.14, 0.5, 1.0)]
    violet = [to_rgba(style.COLORS["sparse"], alpha) for alpha in (0.3, 0.6, 1.0)]
    fig, ax = style.subplots(width=4.2, height=3.6)
    shades = ListedColormap(["#00000000", *grey, *violet])
    ax.imshow(code.numpy(), cmap=shades, vmin=0, vmax=6, interpolation="none")
    ax.set_xticks([0, 10, 20, 30])
    ax.set_yticks([0, 10, 20, 30])
    ax.set_xlabel("key")
    ax.set_ylabel("query")
    ax.spines[:].set_visible(False)
    return fig


def reading(*, rounds: int = 1, buckets: int = 8) -> str:
    weights, met = found(rounds, buckets)
    mass = float((weights * met).sum() / weights.sum())
    pairs = int(met.sum())
    every = math.comb(T, 2)
    return f"{pairs} of {every} pairs meet, and they hold {mass:.0%} of the attention."
