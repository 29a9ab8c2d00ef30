"""The sink forms while the head learns its task, and ends up holding most of the weight. Used on cost/limits."""

import math

from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Attention weight against the training step. One curve is the weight that question marks put on the token before "
    "them, the other the weight that letters put on the start token. Both begin near zero and end near one."
)


def example() -> tuple[list[int], list[float], list[float]]:
    """Two logistic curves, for the figure on its own."""
    steps = list(range(0, 301, 50))
    return steps, *([1 / (1 + math.exp((middle - t) / 30)) for t in steps] for middle in (110, 150))


def draw(*, steps: list[int] | None = None, copy: list[float] | None = None, sink: list[float] | None = None) -> Figure:
    if steps is None:
        steps, copy, sink = example()
    fig, ax = style.subplots(width=5.0, height=2.9)
    ax.plot(steps, style.rounded(copy), color=style.COLORS["muted"])
    ax.plot(steps, style.rounded(sink), color=style.COLORS["softmax"])
    end = steps[-1]
    ax.text(end, 0.30, "? on the token before", color=style.COLORS["muted"], ha="right", fontsize=10, weight="bold")
    ax.text(
        end, 0.14, "letter on the start token", color=style.COLORS["softmax"], ha="right", fontsize=10, weight="bold"
    )
    ax.set(xlim=(0, end), ylim=(0, 1.02), xlabel="training step", ylabel="attention weight")
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.grid(True)
    return fig
