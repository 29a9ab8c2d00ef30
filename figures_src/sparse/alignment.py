"""The index branch learns from the attention it will later cut. Used on sparse/block-selection."""

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.msa import alignment_loss

ALT = (
    "The alignment loss over the training steps of the index branch. It falls steeply at first, then levels off; a "
    "vertical line marks the end of the warm-up, after which the loss is taken over the selected keys only and starts "
    "again from a lower value."
)


def example(steps: int = 12) -> list[float]:
    """A few plain gradient steps on free index queries and keys, for the figure on its own."""
    source = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 32, 8, generator=source, dtype=torch.float64).mul(2).unbind(0)
    iq, ik = torch.randn(2, 1, 32, 8, generator=source, dtype=torch.float64).mul(0.1).unbind(0)
    losses = []
    for _ in range(steps):
        iq, ik = iq.detach().requires_grad_(), ik.detach().requires_grad_()
        loss = alignment_loss(iq, ik, q, k)
        losses.append(loss.item())
        slope_q, slope_k = torch.autograd.grad(loss, (iq, ik))
        iq, ik = iq - 20 * slope_q, ik - 20 * slope_k
    return losses


def draw(*, losses: list[float] | None = None, warmup: int | None = None) -> Figure:
    losses = losses or example()
    fig, ax = style.subplots(width=5.2, height=3.2)
    color = style.COLORS["sparse"]
    first = losses if warmup is None else losses[:warmup]
    ax.plot(range(len(first)), style.rounded(first), color=color)
    top = 1.05 * max(losses)
    if warmup is not None:
        ax.plot(range(warmup, len(losses)), style.rounded(losses[warmup:]), color=color)
        ax.axvline(warmup, color=style.COLORS["muted"], linewidth=1, linestyle="--")
        ax.text(warmup / 2, top, "warm-up: all visible keys", ha="center", va="top", fontsize=9.5)
        ax.text((warmup + len(losses)) / 2, top, "then: selected keys only", ha="center", va="top", fontsize=9.5)
    ax.set_ylim(0, 1.08 * top)
    ax.set_xlabel("training step")
    ax.set_ylabel("KL (nats)")
    return fig
