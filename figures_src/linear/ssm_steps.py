"""The exponential follows the continuous decay at any step; Euler's step leaves it. Used on linear/state-space."""

import math

import numpy as np
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "A state of one number that starts at 1 and receives nothing, against eight tokens, for a rate of {rate} and a "
    "step of {delta}. A thin curve is the continuous decay. Round dots, the exponential step, lie on it; square dots "
    "joined by a line are Euler's step."
)

TOKENS = 8
REACH = 2.4


def draw(*, delta: float = 1.5, rate: float = -1.0) -> Figure:
    fig, ax = style.subplots(width=4.6, height=3.1)
    exact, euler = style.COLORS["gated"], style.COLORS["accent"]
    fine = np.arange(0, TOKENS * 5 + 1) / 5
    whole = np.arange(0, TOKENS + 1)
    ax.axhline(0, color=style.INK, linewidth=0.8)
    ax.plot(fine, style.rounded(np.exp(delta * rate * fine).round(6)), color=exact, linewidth=1.2)
    steps = np.cumprod([1.0] + TOKENS * [1 + delta * rate])
    inside = int(np.argmax(np.abs(steps) > REACH)) if np.any(np.abs(steps) > REACH) else TOKENS
    seen = slice(0, inside + 1)
    ax.plot(whole[seen], style.rounded(steps[seen].round(6)), "s-", color=euler, linewidth=1.4, markersize=6)
    ax.plot(whole, style.rounded(np.exp(delta * rate * whole).round(6)), "o", color=exact, markersize=6)
    ax.text(TOKENS, 2.3, "exp(ΔA): on the curve", color=exact, ha="right", va="top", fontsize=9.5, weight="bold")
    ax.text(TOKENS, 1.85, "Euler: 1 + ΔA", color=euler, ha="right", va="top", fontsize=9.5, weight="bold")
    ax.set_xlim(-0.2, TOKENS + 0.2)
    ax.set_ylim(-REACH, REACH)
    ax.set_xticks(range(0, TOKENS + 1, 2))
    ax.set_yticks([-2, -1, 0, 1, 2])
    ax.set_xlabel("tokens")
    ax.set_ylabel("state")
    return fig


def reading(*, delta: float = 1.5, rate: float = -1.0) -> str:
    factor = 1 + delta * rate
    size = abs(factor)
    if size > 1:
        fate = f"and Euler's state is {size**TOKENS:,.3g} times its start after {TOKENS} tokens"
    elif size == 1:
        fate = "and Euler's state flips its sign for ever"
    else:
        fate = "and Euler's state dies out, with alternating sign" if factor < 0 else "and Euler's state dies out too"
    shown = f"{factor:.3g}".replace("-", "−")
    return f"ΔA = {delta * rate:.3g}: ".replace("-", "−") + (
        f"one token keeps {math.exp(delta * rate):.3g} of the state, Euler's step {shown}, {fate}."
    )
