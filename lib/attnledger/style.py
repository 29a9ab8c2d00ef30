"""The look of every drawing: palette, sizes, text that follows the page's theme, and data rounded before it is drawn.

Drawings are SVG with their text kept as text. Ink is drawn as ``#010203``; on the site that colour becomes
``currentColor``, so words and axes follow the light or dark theme. The palette is Paul Tol's *bright* scheme, darkened
where needed to keep a contrast of 3:1 on white and on near-black; a mechanism keeps its colour through the whole book.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

INK = "#010203"

COLORS = {
    "softmax": "#3a7cb8",
    "linear": "#2f9e6e",
    "delta": "#d0662f",
    "gated": "#a8791b",
    "sparse": "#8f62c4",
    "window": "#3f93a8",
    "grouped": "#4f8f8b",
    "shared": "#8a76a8",
    "latent": "#c2508f",
    "tensor": "#6f8f2f",
    "hybrid": "#8a7a52",
    "weights": "#9a6b4f",
    "accent": "#d1495b",
    "muted": "#808488",
}

RC = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.0,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.0,
    "grid.color": "#808488",
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "axes.unicode_minus": True,
    "path.simplify": True,
}


@contextmanager
def look() -> Iterator[None]:
    """Draw under the book's settings, whatever the caller's settings are."""
    with matplotlib.rc_context(matplotlib.rcParamsDefault.copy() | RC):
        yield


def subplots(
    rows: int = 1, columns: int = 1, *, width: float = 5.0, height: float = 3.0, **options
) -> tuple[Figure, Axes]:
    """A figure outside pyplot and its axes (one, or an array of them), in the book's look; sizes in inches.

    Five inches wide, text of nine points stays legible on a phone; the site shows the drawing a quarter larger.
    """
    with look():
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, **options)
    return figure, axes


def rounded(data, digits: int = 3):
    """`data` to `digits` significant digits, so that the last bits of another CPU never reach a drawing."""
    values = np.asarray(data, dtype=np.float64)
    result = np.array([float(f"{value:.{digits}g}") for value in values.flat]).reshape(values.shape)
    return result if result.ndim else float(result)


def direct_label(ax: Axes, x: float, y: float, text: str, color: str = INK, **options) -> None:
    """A word beside the line it names, instead of a legend."""
    options = {"fontsize": 9.5, "va": "center", "ha": "left"} | options
    ax.annotate(text, (x, y), xytext=(5, 0), textcoords="offset points", color=color, **options)


def measured(
    ax: Axes,
    x: Sequence[float],
    spreads: Sequence[tuple[float, float, float]],
    *,
    color: str,
    bound: Sequence[float] | None = None,
    own: bool = True,
) -> None:
    """Samples at `x`, each a low quantile, the median and a high one: dots on a line, and bars.

    `bound`: what the counts say, a dotted line. `own=False`, a second device: hollow dots, the line dashed.
    """
    low, middle, high = (rounded(values) for values in zip(*spreads, strict=True))
    ax.vlines(x, low, high, color=color, linewidth=1.2)
    ax.plot(
        x,
        middle,
        color=color,
        linewidth=1.6 if own else 1.2,
        linestyle="-" if own else "--",
        marker="o",
        markersize=5 if own else 6,
        markerfacecolor=color if own else "none",
    )
    if bound is not None:
        ax.plot(x, rounded(bound), color=color, linewidth=1, linestyle=":")


def token_axis(ax: Axes, ticks: Iterable[int]) -> None:
    """Powers of two along x, 1,024 tokens being 1K."""
    ax.set_xscale("log", base=2)
    ticks = list(ticks)
    ax.set_xticks(ticks, [f"{t:,}" if t < 1024 else f"{t // 1024:,}K" for t in ticks])


def plain_powers(ax: Axes, base: int = 10, unit: str = "") -> None:
    """A logarithmic y on which the powers of `base` in view are written out."""
    ax.set_yscale("log", base=base)
    low, high = ax.get_ylim()
    powers = [float(base) ** e for e in range(-9, 10) if low <= float(base) ** e <= high]
    ax.set_yticks(powers, [f"{power:,g}{unit}" for power in powers])
    ax.minorticks_off()


def colormap(color: str) -> LinearSegmentedColormap:
    """From transparent to `color`: a matrix on the page's own background, light or dark."""
    return LinearSegmentedColormap.from_list(f"to-{color}", [color + "00", color + "ff"])


def matrix(
    ax: Axes,
    values,
    *,
    color: str = COLORS["softmax"],
    text: bool = True,
    vmax: float | None = None,
    spec: str = ".3g",
) -> None:
    """Draw a small matrix as a matrix: one square per number, the number inside when `text`."""
    values = rounded(values)
    top = vmax if vmax is not None else max(float(np.max(np.abs(values), initial=0.0)), 1e-12)
    with look():
        ax.imshow(np.abs(values), cmap=colormap(color), vmin=0, vmax=top * 1.6, interpolation="none", aspect="equal")
        rows, columns = values.shape
        ax.set_xticks([])
        ax.set_yticks([])
        for side in ax.spines.values():
            side.set_visible(True)
        if text:
            for i in range(rows):
                for j in range(columns):
                    ax.text(j, i, format(values[i, j] + 0.0, spec), ha="center", va="center", fontsize=9.5, color=INK)
