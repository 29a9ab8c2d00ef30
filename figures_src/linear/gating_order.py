"""Erasing puts the state where the key reads nothing; a decay per channel afterwards moves it away again.
Used on linear/gating."""

import torch
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "The plane of states of two numbers, with the key {key} as an arrow and, at a right angle to it, the dotted line "
    "of states that the key reads as 0. From the old state, forgetting by ({first}, 1) and then erasing ends on the "
    "line; erasing and then forgetting ends beside it, unless the factor is 1 or the key lies along an axis."
)

OLD = torch.tensor([5.0, 2.0], dtype=torch.float64)


def ends(key: str, first: float) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """States on the way: forget then erase, erase then forget; and the key."""
    k = torch.tensor([float(number) for number in key.split(",")], dtype=torch.float64)
    alpha = torch.tensor([first, 1.0], dtype=torch.float64)

    def erase(S: torch.Tensor) -> torch.Tensor:
        return S - k * (k @ S)

    return [OLD, alpha * OLD, erase(alpha * OLD)], [OLD, erase(OLD), alpha * erase(OLD)], k


def draw(*, key: str = "0.6, 0.8", first: float = 0.5) -> Figure:
    fig, ax = style.subplots(width=4.4, height=3.5)
    good, bad, k = ends(key, first)
    across = torch.stack([-k.flip(0), k.flip(0)]) * torch.tensor([1.0, -1.0], dtype=torch.float64)
    line = style.rounded((across * 12).numpy())
    ax.plot(line[:, 0], line[:, 1], color=style.INK, linewidth=0.9, linestyle=":")
    arrow = {"arrowstyle": "-|>", "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", style.rounded((2 * k).numpy()), (0, 0), arrowprops=arrow | {"color": style.INK})
    ax.text(*style.rounded((2.3 * k).numpy()), "key", fontsize=10, ha="center", va="center")
    for path, color in ((good, style.COLORS["gated"]), (bad, style.COLORS["accent"])):
        points = style.rounded(torch.stack(path).numpy().round(9) + 0.0)
        ax.plot(points[:, 0], points[:, 1], color=color, marker="o", markersize=4)
        ax.plot(*points[-1], "o", color=color, markersize=10)
    ax.text(5.25, 2.0, "old state", fontsize=10, va="center")
    ax.text(-3.6, 3.35, "dotted: the key reads 0", fontsize=9.5, va="top")
    ax.text(-3.6, 4.5, "forget, then erase", color=style.COLORS["gated"], fontsize=10, weight="bold", va="top")
    ax.text(-3.6, 3.9, "erase, then forget", color=style.COLORS["accent"], fontsize=10, weight="bold", va="top")
    ax.set_xlim(-3.8, 7.4)
    ax.set_ylim(-3.6, 4.6)
    ax.set_aspect("equal")
    ax.set_xlabel("first channel of the state")
    ax.set_ylabel("second channel")
    ax.set_xticks([-2, 0, 2, 4, 6])
    ax.set_yticks([-2, 0, 2, 4])
    return fig


def reading(*, key: str = "0.6, 0.8", first: float = 0.5) -> str:
    good, bad, k = ends(key, first)
    reads = [f"{round(float(k @ path[-1]), 6) + 0.0:.3g}".replace("-", "−") for path in (good, bad)]
    return f"The key ({key}) reads {reads[0]} after forget, then erase; {reads[1]} after erase, then forget."
