"""A write at one key moves the answer of every key that is not at a right angle. Used on linear/delta-rule."""

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.delta import delta_rule

ALT = (
    "Top: two unit keys, the bystander along the horizontal axis and the written key at {angle} degrees. Below: what "
    "the bystander answers after a write of strength {beta} at the other key, against the angle. One curve is the "
    "share of its own value that is left, the other the share of the new value that leaked in; both come from the "
    "formula. Two dots at {angle} degrees come from running the operator."
)


def shares(angle: float, beta: float) -> tuple[float, float]:
    """Run: (own value kept, new value leaked in) at the bystander after one write at `angle` degrees from it."""
    theta = math.radians(angle)
    keys = torch.tensor([[1.0, 0.0], [math.cos(theta), math.sin(theta)]], dtype=torch.float64)
    values = torch.eye(2, dtype=torch.float64)  # column 0 counts the bystander's value, column 1 the new one
    strengths = torch.tensor([1.0, beta], dtype=torch.float64)
    answers = delta_rule(keys[:1].expand(2, 2), keys, values, beta=strengths)
    return float(answers[-1, 0]), float(answers[-1, 1])


def draw(*, angle: float = 60, beta: float = 1.0) -> Figure:
    fig, (keys, plot) = style.subplots(2, 1, width=4.4, height=4.3, height_ratios=[1, 2.3])
    own, new = style.COLORS["muted"], style.COLORS["delta"]
    theta = math.radians(angle)
    arrow = {"arrowstyle": "-|>", "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
    written = style.rounded(np.round([math.cos(theta), math.sin(theta)], 9))
    keys.annotate("", written, (0, 0), arrowprops=arrow | {"color": new})
    keys.annotate("", (1, 0), (0, 0), arrowprops=arrow | {"color": own})
    keys.text(1.1, 0, "bystander", color=own, ha="left", va="center", fontsize=9.5)
    keys.text(-1.3, 0.75, f"written key\nat {angle:g}°", color=new, ha="right", va="center", fontsize=9.5)
    keys.set_xlim(-2.6, 2.6)
    keys.set_ylim(-0.15, 1.1)
    keys.set_aspect("equal")
    keys.axis("off")

    degrees = np.arange(0, 181, 6)
    cosine = np.cos(np.radians(degrees)).round(9)
    plot.plot(degrees, style.rounded(1 - beta * cosine**2), color=own)
    plot.plot(degrees, style.rounded(beta * cosine), color=new)
    kept, leaked = style.rounded(np.round(shares(angle, beta), 9))
    plot.plot([angle], [kept], "o", markersize=8, color=own)
    plot.plot([angle], [leaked], "o", markersize=8, color=new)
    plot.text(180, 2.0, "own value kept", color=own, ha="right", va="top", fontsize=9.5, weight="bold")
    plot.text(180, 1.55, "new value leaked in", color=new, ha="right", va="top", fontsize=9.5, weight="bold")
    plot.axhline(0, color=style.INK, linewidth=0.8)
    plot.set_xlim(0, 180)
    plot.set_ylim(-2.15, 2.15)
    plot.set_xticks([0, 45, 90, 135, 180])
    plot.set_yticks([-2, -1, 0, 1, 2])
    plot.set_xlabel("angle between the keys (degrees)")
    plot.set_title(f"share in the bystander's answer, β = {beta:g}", loc="left", fontsize=9.5)
    return fig


def reading(*, angle: float = 60, beta: float = 1.0) -> str:
    kept, leaked = shares(angle, beta)
    theta = math.radians(angle)
    same = math.isclose(kept, 1 - beta * math.cos(theta) ** 2, abs_tol=1e-12) and math.isclose(
        leaked, beta * math.cos(theta), abs_tol=1e-12
    )
    shown = f"{kept + 0.0:.3f} of its own value and {round(leaked, 9) + 0.0:.3f} of the new one".replace("-", "−")
    agreement = "formula and run agree" if same else "formula and run differ"
    return f"Written at {angle:g}° with β = {beta:g}, the bystander answers {shown}; {agreement}."
