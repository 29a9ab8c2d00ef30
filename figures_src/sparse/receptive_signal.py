"""The theory's limit and what arrives: windows that average, layer on layer. Used on sparse/fixed-patterns."""

import numpy as np
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Share of the last token's final vector that comes from a token, against that token's distance, on a logarithmic "
    "scale, for {layers} layers of averaging windows of 16 keys ({stream}). A dashed line marks the distance that "
    "theory calls reachable; the curve is a hill to the left of it, and with several layers far to the left."
)

WINDOW = 16
FLOOR = 1e-9


def shares(layers: int, window: int, stay: float) -> np.ndarray:
    """Weight of the token at each distance, from 0 to the theoretical limit."""
    step = np.full(window, (1 - stay) / window)
    step[0] += stay
    found = np.ones(1)
    for _ in range(layers):
        found = np.convolve(found, step)
    return found


def _stay(stream: str) -> float:
    return 0.5 if stream == "half and half" else 0.0


def draw(*, layers: int = 8, stream: str = "attention only") -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.0)
    found = shares(layers, WINDOW, _stay(stream))
    limit = layers * (WINDOW - 1)
    seen = np.flatnonzero(found >= FLOOR)
    ax.semilogy(seen, style.rounded(found[seen]), color=style.COLORS["window"])
    ax.axvline(limit, color=style.COLORS["accent"], linestyle="--", linewidth=1.5)
    left = limit > 250
    ax.text(
        limit + (-8 if left else 8), 0.4, "limit in theory", color=style.COLORS["accent"], va="top",
        ha="right" if left else "left", fontsize=10,
    )  # fmt: skip
    ax.set_xlim(-5, 500)
    ax.set_ylim(FLOOR, 1)
    ax.set_yticks([1e-9, 1e-6, 1e-3, 1], ["10⁻⁹", "10⁻⁶", "10⁻³", "1"])
    ax.minorticks_off()
    ax.set_xlabel("distance (tokens)")
    ax.set_ylabel("share of the signal")
    return fig


def reading(*, layers: int = 8, stream: str = "attention only") -> str:
    found = shares(layers, WINDOW, _stay(stream))
    far = int(np.searchsorted(found.cumsum(), 0.99))
    limit = layers * (WINDOW - 1)
    last = layers * np.log10(WINDOW / (1 - _stay(stream)))
    return (
        f"Layers: {layers}. The limit lies {limit} tokens back; 99 % of the signal comes from the last {far + 1} "
        f"tokens, and the token at the limit sends about 10^−{last:.0f} of it."
    )
