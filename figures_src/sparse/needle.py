"""A needle's block is found by its largest score, and drowned by its mean. Used on sparse/block-selection."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Chance that a single relevant key is found, against its score in standard deviations of the other scores, for "
    "blocks of {block} keys and {top_k} slots, in contexts of 8K and 1M tokens. Where a block counts by its largest "
    "score, both curves jump to one at scores between two and five; where it counts by its mean, they rise slowly and "
    "reach one only at scores several times larger. In the short context both read the needle now and then by luck."
)

LENGTHS = ((1 << 13, "8K"), (1 << 20, "1M"))  # 2**13 and 2**20 tokens


def upper_tail(x: np.ndarray) -> np.ndarray:
    """P(Z > x) of a standard normal, accurate far out."""
    return np.array([0.5 * math.erfc(v / math.sqrt(2)) for v in np.ravel(x)]).reshape(np.shape(x))


def fewer_than(slots: int, p: np.ndarray, n: int) -> np.ndarray:
    """P(fewer than `slots` of `n` independent blocks beat the needle), each with probability `p`."""
    p = np.clip(p, 1e-300, 1 - 1e-12)
    total = np.zeros_like(p)
    for j in range(slots):
        choose = math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)
        total += np.exp(choose + j * np.log(p) + (n - j) * np.log1p(-p))
    return total


def found_by_max(score: np.ndarray, tokens: int, *, block: int, top_k: int) -> np.ndarray:
    """Chance that the needle's block is among the scored slots when a block counts by its largest score.

    All other scores are standard normal and one slot is the query's own block. The needle's block counts by the
    larger of the needle and the best of its other keys, whose quantiles are averaged over.
    """
    quantiles = torch.special.ndtri(torch.linspace(0, 1, 203, dtype=torch.float64)[1:-1] ** (1 / (block - 1))).numpy()
    largest = np.maximum(score[:, None], quantiles[None, :])
    beaten = -np.expm1(block * np.log1p(-upper_tail(largest)))  # P(another block's largest score is larger)
    return fewer_than(top_k - 1, beaten, tokens // block - 2).mean(axis=1)


def found_by_mean(score: np.ndarray, tokens: int, *, block: int, top_k: int) -> np.ndarray:
    """The same when a block counts by its mean: the needle is spread over `block` keys."""
    noise = torch.special.ndtri(torch.linspace(0, 1, 203, dtype=torch.float64)[1:-1]).numpy() * math.sqrt(block - 1)
    mean = (score[:, None] + noise[None, :]) / block
    beaten = upper_tail(mean * math.sqrt(block))
    return fewer_than(top_k - 1, beaten, tokens // block - 2).mean(axis=1)


def needed(found, tokens: int, *, block: int = 128, top_k: int = 16) -> float:
    """The score at which the needle is found half of the time."""
    low, high = 0.0, 80.0
    for _ in range(40):
        middle = (low + high) / 2
        if found(np.array([middle]), tokens, block=block, top_k=top_k)[0] < 0.5:
            low = middle
        else:
            high = middle
    return high


def draw(*, block: int = 128, top_k: int = 16) -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.4)
    score = np.union1d(np.geomspace(1, 64, 73), np.geomspace(2, 5, 41))
    rules = (
        ("largest score", found_by_max, style.COLORS["sparse"]),
        ("mean score", found_by_mean, style.COLORS["accent"]),
    )
    for word, found, color in rules:
        for (tokens, name), line, side in zip(LENGTHS, ("--", "-"), ("right", "left"), strict=True):
            chance = found(score, tokens, block=block, top_k=top_k)
            ax.plot(style.rounded(score), np.round(chance, 3), line, color=color)
            half = style.rounded(needed(found, tokens, block=block, top_k=top_k))
            shift = {"xytext": (-6, 5) if side == "right" else (6, -5), "ha": side}
            ax.annotate(name, (half, 0.5), textcoords="offset points", va="center", fontsize=9.5, color=color, **shift)
        ax.text(half, 1.04, word, color=color, ha="center", va="bottom", fontsize=10)
    ax.set_xscale("log", base=2)
    ax.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    ax.set_xlabel("score of the needle, in standard deviations of all scores")
    ax.set_ylabel("chance that it is read")
    ax.set_xlim(1, 64)
    ax.set_ylim(0, 1.15)
    ax.set_yticks([0, 0.5, 1], ["0", "½", "1"])
    return fig
