"""Random features imitate the exponential kernel; ELU+1 and ReLU define others. Used on linear/linear-attention."""

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.linear import elu_plus_one, favor_plus, relu

ALT = (
    "Similarity of a key k to the query q = 1, both of width one, relative to the similarity at k = 1. The exponential "
    "curves upward; crosses from {features} random features lie close to it, least so where it is large. ELU+1 and "
    "ReLU rise as straight lines for positive k, and ReLU is zero for every negative k."
)


def relative(feature_map, keys: torch.Tensor) -> torch.Tensor:
    """sim(1, k) / sim(1, 1) for every key of width one."""
    one = torch.ones(1, 1, dtype=torch.float64)
    return (feature_map(keys) @ feature_map(one).T / (feature_map(one) @ feature_map(one).T)).flatten()


def draw(*, features: int = 4096) -> Figure:
    fig, ax = style.subplots(width=4.6, height=3.4)
    keys = torch.arange(-20, 25, dtype=torch.float64)[:, None] / 10
    k = style.rounded(keys.flatten())
    ax.plot(k, style.rounded(torch.exp(keys.flatten() - 1)), color=style.COLORS["softmax"])
    few = keys[::4]
    crosses = relative(favor_plus(1, features=features), few)
    ax.plot(
        style.rounded(few.flatten()), style.rounded(crosses), "x", color=style.COLORS["accent"], markersize=7, mew=1.8
    )
    ax.plot(k, style.rounded(relative(elu_plus_one, keys)), color=style.COLORS["linear"])
    ax.plot(k, style.rounded(relative(relu, keys)), color=style.COLORS["gated"], linestyle="--")
    style.direct_label(ax, 1.85, 3.55, "exp (softmax)", style.COLORS["softmax"], ha="right", fontsize=10.5)
    style.direct_label(ax, 1.6, 2.85, "× random features", style.COLORS["accent"], ha="right", fontsize=10.5)
    style.direct_label(ax, 2.4, 1.7, "ELU+1", style.COLORS["linear"], fontsize=10.5)
    style.direct_label(ax, 2.4, 2.4, "ReLU", style.COLORS["gated"], fontsize=10.5)
    ax.set_xlim(-2.1, 3.3)
    ax.set_ylim(-0.15, 4.9)
    ax.set_yticks([0, 1, 2, 3, 4])
    ax.set_xlabel("key k (query q = 1, width 1)")
    ax.set_ylabel("sim(1, k) ÷ sim(1, 1)")
    return fig
