"""The delta rule reads a key before it writes, so the second value replaces the first. Used on linear/delta-rule."""

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style
from attnledger.ops.delta import delta_rule
from attnledger.ops.linear import identity, linear_attention

ALT = (
    "Three panels, one per write. Each names what the key held, the difference that is written, and shows the two by "
    "two state afterwards with the row that q = (1, 0) reads outlined. The delta rule answers (2, 0), then (0, 3), the "
    "last value written, and keeps it after the third write; additive memory answers (2, 0), then (1, 1.5) twice."
)

KEYS = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
VALUES = torch.tensor([[2.0, 0.0], [0.0, 3.0], [5.0, 5.0]], dtype=torch.float64)
QUESTION = torch.tensor([[1.0, 0.0]], dtype=torch.float64)


def pair(x: torch.Tensor) -> str:
    return "(" + ", ".join(f"{float(a) + 0.0:g}" for a in x).replace("-", "−") + ")"


def draw() -> Figure:
    fig, axes = style.subplots(1, 3, width=4.8, height=3.5)
    color, additive = style.COLORS["delta"], style.COLORS["linear"]
    before = torch.zeros(2, 2, dtype=torch.float64)
    for t, ax in enumerate(axes, start=1):
        q, k, v = QUESTION.expand(t, 2), KEYS[:t], VALUES[:t]
        answers, S = delta_rule(q, k, v, beta=torch.ones(t, dtype=torch.float64), return_state=True)
        means = linear_attention(q, k, v, feature_map=identity)
        held = k[-1] @ before
        ax.text(1, 5.0, f"write {t}", ha="center", va="bottom", fontsize=11, weight="bold")
        facts = (f"k = {pair(k[-1])}", f"v = {pair(v[-1])}", f"held {pair(held)}", f"write {pair(v[-1] - held)}")
        for line, y in zip(facts, (4.3, 3.65, 3.0, 2.35), strict=True):
            ax.text(1, y, line, ha="center", va="bottom", fontsize=10)
        for i in range(2):
            for j in range(2):
                changed = bool(S[i, j] != before[i, j])
                ax.add_patch(Rectangle((j, 1 - i), 1, 1, facecolor=color, alpha=0.55 if changed else 0.15, linewidth=0))
                edge = 2.2 if i == 0 else 1.0
                ax.add_patch(Rectangle((j, 1 - i), 1, 1, fill=False, edgecolor=color, linewidth=edge))
                ax.text(j + 0.5, 1.5 - i, f"{float(S[i, j]) + 0.0:g}", ha="center", va="center", fontsize=12)
        ax.text(1, -0.3, f"delta {pair(answers[-1])}", ha="center", va="top", fontsize=10.5, color=color, weight="bold")
        ax.text(1, -1.1, f"additive {pair(means[-1])}", ha="center", va="top", fontsize=10, color=additive)
        ax.set_xlim(-0.7, 2.7)
        ax.set_ylim(-1.9, 5.6)
        ax.set_aspect("equal")
        ax.axis("off")
        before = S
    return fig
