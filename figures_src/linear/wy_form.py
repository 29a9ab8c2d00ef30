"""The three writes of a chunk are one triangular system. Used on linear/delta-rule."""

import torch
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Three small matrices in an equation. I + A is three by three, ones on the diagonal and the overlaps of later keys "
    "with earlier ones below it: 0.6, 1 and 0.6. It multiplies the three by two unknown rows of differences, (2, 0), "
    "(−1.2, 3) and (3.72, 3.2), and gives the three by two values (2, 0), (0, 3) and (5, 5)."
)

KEYS = torch.tensor([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0]], dtype=torch.float64)
VALUES = torch.tensor([[2.0, 0.0], [0.0, 3.0], [5.0, 5.0]], dtype=torch.float64)


def draw() -> Figure:
    system = torch.eye(3, dtype=torch.float64) + (KEYS @ KEYS.T).tril(-1)
    differences = torch.linalg.solve_triangular(system, VALUES, upper=False, unitriangular=True)
    fig, axes = style.subplots(1, 3, width=4.8, height=2.2, width_ratios=[3, 2, 2])
    color, given = style.COLORS["delta"], style.COLORS["muted"]
    panels = [("I + A", system, given), ("differences Ṽ", differences, color), ("values V", VALUES, given)]
    for ax, (name, values, shade) in zip(axes, panels, strict=True):
        style.matrix(ax, values.numpy(), color=shade)
        ax.set_title(name, fontsize=11)
    for ax, sign, reach in ((axes[0], "·", 2.9), (axes[1], "=", 1.95)):
        ax.text(reach, 1, sign, ha="center", va="center", fontsize=16, clip_on=False)
    for row, name in enumerate(("write 1", "write 2", "write 3")):
        axes[0].text(-0.7, row, name, ha="right", va="center", fontsize=9.5)
    return fig
