"""A shift of all scores leaves the weights alone; the temperature sets how sharp they are. Used on appendix/primer."""

import numpy as np
import torch
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Two rows of five bars with the same order. Above, the scores minus one to three, each moved by {shift}; below, "
    "the weights that softmax makes of them at temperature {temperature}, which sum to one."
)

SCORES = torch.tensor([1.0, 3.0, -1.0, 2.0, 0.0], dtype=torch.float64)


def weights(temperature: float, shift: float) -> torch.Tensor:
    """(5,) weights of the shifted scores."""
    return torch.softmax((SCORES + shift) / temperature, dim=-1)


def draw(*, temperature: float = 1.0, shift: float = 0.0) -> Figure:
    fig, (top, bottom) = style.subplots(2, 1, width=5.0, height=3.5, sharex=True)
    place = np.arange(len(SCORES))
    scores = style.rounded(SCORES + shift)
    top.bar(place, scores, width=0.62, color=style.COLORS["muted"], linewidth=0)
    top.axhline(0, color=style.INK, linewidth=0.8)
    for x, score in zip(place, scores, strict=True):
        above = score >= 0
        top.text(
            x,
            score + (0.35 if above else -0.35),
            f"{score:g}".replace("-", "−"),
            ha="center",
            va="bottom" if above else "top",
        )
    top.set(ylim=(-6.5, 8.5), ylabel="score")
    mixed = style.rounded(weights(temperature, shift))
    bottom.bar(place, mixed, width=0.62, color=style.COLORS["softmax"], linewidth=0)
    for x, weight in zip(place, mixed, strict=True):
        bottom.text(x, weight + 0.03, spoken(weight), ha="center", va="bottom")
    bottom.set(ylim=(0, 1.2), ylabel="weight")
    for ax in (top, bottom):
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    top.spines["bottom"].set_visible(False)
    return fig


def spoken(weight: float) -> str:
    """A weight with as many places as it needs."""
    return "≈ 0" if weight < 5e-4 else f"{weight:.3f}" if weight < 0.1 else f"{weight:.2f}"


def reading(*, temperature: float = 1.0, shift: float = 0.0) -> str:
    mixed = weights(temperature, shift)
    ratio = (mixed[1] / mixed[3]).item()
    return (
        f"Scores moved by {shift:g}, temperature {temperature:g}: the largest weight is {mixed.max().item():.3g}, "
        f"{ratio:.3g} times the second."
    )
