"""All gradients of attention are made from the weights A: one directly, two through the gradient of the scores.
Used on cost/softmax-attention."""

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.softmax import attention_weights

ALT = (
    "Three matrices of three by three for the tokens of the hand calculation. Left, the weights A, lower triangular, "
    "each row summing to one; below it an arrow to the gradient of V. Middle, the gradient of A, the same row three "
    "times. Right, the gradient of the scores: zero above the diagonal, every row summing to zero; below it an arrow "
    "to the gradients of Q and K."
)

Q = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)  # the factor √2 is in the scale
K = torch.tensor([[1.0, 1.0], [2.0, 1.0], [1.0, 3.0]], dtype=torch.float64).log()
V = torch.tensor([[6.0, 0.0], [0.0, 6.0], [2.0, 2.0]], dtype=torch.float64)


def matrices() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A, and the gradients of A and of the scores, when the loss is the sum of the outputs' first numbers."""
    A = attention_weights(Q, K, scale=1.0)
    dC = torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(3, 2)
    dA = dC @ V.mT
    return A, dA, A * (dA - (dA * A).sum(-1, keepdim=True))


def draw() -> Figure:
    fig, axes = style.subplots(1, 3, width=5.0, height=2.75)
    color = style.COLORS["softmax"]
    titles = ["A", "∂L/∂A", "∂L/∂S"]
    below = ["∂L/∂V = Aᵀ ∂L/∂C", "= ∂L/∂C Vᵀ", "∂L/∂Q, ∂L/∂K"]
    shades = [color, style.COLORS["muted"], style.COLORS["accent"]]
    for ax, values, title, words, shade in zip(axes, matrices(), titles, below, shades, strict=True):
        style.matrix(ax, values, color=shade, spec=".2g")
        ax.set_title(title, color=shade, fontsize=12, weight="bold")
        ax.text(1, 2.72, "↓" if shade != style.COLORS["muted"] else "", ha="center", va="top", fontsize=13)
        ax.text(1, 3.45, words, ha="center", va="top", fontsize=9.5, color=shade)
    axes[0].annotate("⊙", (1.09, 0.5), xycoords="axes fraction", fontsize=13, ha="center", va="center")
    axes[1].annotate("→", (1.09, 0.5), xycoords="axes fraction", fontsize=13, ha="center", va="center")
    return fig
