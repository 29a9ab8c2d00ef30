"""A line. Used on part/page of the sample book."""

from matplotlib.figure import Figure

from attnledger import style

ALT = "A line through the origin with slope {slope}"


def draw(*, slope: float = 2.0) -> Figure:
    fig, ax = style.subplots()
    x = [0, 1, 2, 3]
    ax.plot(x, style.rounded([slope * value for value in x]), color=style.COLORS["linear"])
    ax.set_xlabel("steps")
    return fig


def reading(*, slope: float = 2.0) -> str:
    return f"After three steps the line stands at {3 * slope:g}."
