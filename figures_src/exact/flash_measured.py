"""Measured, the fused order holds a line where the written-out one holds a square, and is faster as well.
Used on exact/flash-attention."""

from collections.abc import Iterable

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import score_matrix_bytes
from attnledger.timing import recording
from attnledger.timing.recording import Recording

ALT = (
    "Two panels against the number of tokens, all axes logarithmic. Left, milliseconds of one attention with four "
    "heads: the written-out order lies above the fused one at long lengths, both rise alike; thin dotted lines are the "
    "least times by the counts. Right, MiB that one call adds: written out it follows the dotted line of two score "
    "matrices; fused it stays far below."
)

NAMES = {"naive": ("written out", "muted"), "flash": ("fused", "softmax")}
LEAST = 1.0  # MiB: what the allocator rounds to is not shown below it


def draw(*, runs: Iterable[Recording] = ()) -> Figure:
    fig, (left, right) = style.subplots(1, 2, width=5.2, height=3.0)
    runs = list(runs) or [recording.read("flash-cpu")]
    for i, run in enumerate(runs):
        for name, (words, color) in NAMES.items():
            if not (series := run.series(name, "tokens")):
                continue
            x, entries = zip(*series, strict=True)
            spreads = [(e.times.p20, e.times.median, e.times.p80) for e in entries]
            bound = [e.bound_ms for e in entries]
            style.measured(left, x, spreads, bound=bound, color=style.COLORS[color], own=i == 0)
            held = [(n, e.memory_bytes / 2**20) for n, e in zip(x, entries, strict=True) if e.memory_bytes]
            held = [(n, m) for n, m in held if m >= LEAST]
            if held:
                n, mib = zip(*held, strict=True)
                style.measured(right, n, [(m, m, m) for m in mib], color=style.COLORS[color], own=i == 0)
                if i == 0:
                    spot = {"textcoords": "offset points", "fontsize": 10, "color": style.COLORS[color], "va": "center"}
                    place = len(n) // 2
                    right.annotate(words, (n[place], mib[place]), xytext=(-9, 4), ha="right", **spot)
        number = 4 if run.environment["dtype"] == "float32" else 2
        lengths = [n for n, _ in run.series("naive", "tokens")]
        heads = run.geometry["heads"]
        square = [2 * score_matrix_bytes(n, heads=heads, bytes_per_number=number) / 2**20 for n in lengths]
        right.plot(lengths, style.rounded(square), color=style.COLORS["muted"], linewidth=1, linestyle=":")
    for ax, title in ((left, "ms per call"), (right, "MiB added by a call")):
        style.token_axis(ax, (2**e for e in range(8, 17, 2)))
        ends = [line.get_xdata() for line in left.lines]
        ax.set_xlim(min(x[0] for x in ends) / 1.2, max(x[-1] for x in ends) * 1.2)
        style.plain_powers(ax)
        ax.grid(True)
        ax.set_title(title)
        ax.set_xlabel("tokens n")
    return fig
