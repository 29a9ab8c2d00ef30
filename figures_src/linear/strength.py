"""Repeated writes shrink a key's error only while β‖k‖² stays below 2. Used on linear/delta-rule."""

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.delta import delta_rule

ALT = (
    "Size of the error at one key, on a logarithmic axis, against the number of times the same pair is written. "
    "For β times the squared key length equal to 0.3 and 1.6 the error falls along straight lines, at 2 it stays at "
    "one for ever, and at 2.4 and 4 it grows along straight lines."
)

WRITES = 12
STRENGTHS = {0.3: "delta", 1.6: "delta", 2.0: "muted", 2.4: "accent", 4.0: "accent"}  # no error ends in a 5: no ties


def errors(strength: float) -> list[float]:
    """|v − k S| after 0, 1, …, WRITES writes of the pair k = √strength, v = 1 with β = 1, starting from S = 0."""
    k = torch.full((WRITES, 1), strength**0.5, dtype=torch.float64)
    v = torch.ones(WRITES, 1, dtype=torch.float64)
    answers = delta_rule(k, k, v, beta=torch.ones(WRITES, dtype=torch.float64))
    return [1.0] + (v - answers).abs()[:, 0].tolist()


def draw() -> Figure:
    fig, ax = style.subplots(width=4.8, height=3.3)
    for strength, color in STRENGTHS.items():
        y = style.rounded(errors(strength))
        ax.plot(range(WRITES + 1), y, marker="o", markersize=3.5, color=style.COLORS[color])
        style.direct_label(ax, WRITES, y[-1], f"β‖k‖² = {strength:g}", style.COLORS[color], weight="bold")
    ax.set_yscale("log")
    ax.set_yticks([1e-2, 1, 1e2, 1e4, 1e6], ["0.01", "1", "100", "10,000", "1,000,000"])
    ax.minorticks_off()
    ax.set_ylim(1e-3, 3e6)
    ax.set_xlim(-0.2, WRITES + 6.5)
    ax.set_xticks(range(0, WRITES + 1, 3))
    ax.set_xlabel("times the same pair is written")
    ax.set_ylabel("size of the error at the key")
    ax.grid(axis="y")
    return fig
