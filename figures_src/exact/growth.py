"""Tiling lowers the line of the traffic and does not bend it: twice the tokens still move four times as much.
Used on exact/flash-attention."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import hbm_traffic

ALT = (
    "Bytes one head moves against the number of tokens, both axes logarithmic. The line of attention written out and "
    "three lines of tiled attention, with 64, 128 and 256 queries per tile, are parallel, each below the one before. "
    "A dotted line, every input and output moved once, rises only half as steeply and lies far below at long lengths."
)

D = 64
LENGTHS = [2**e for e in range(10, 18)]


def draw() -> Figure:
    fig, ax = style.subplots(width=5.0, height=3.7)
    blue, violet, grey = style.COLORS["softmax"], style.COLORS["sparse"], style.COLORS["muted"]

    def line(algorithm: str, **options) -> list[float]:
        moved = [hbm_traffic(algorithm, tokens=n, head_dim=D, causal=False, **options).bytes for n in LENGTHS]
        return [style.rounded(b / 2**20) for b in moved]

    ends = {}
    ends["written out"] = (line("naive"), blue)
    for block in (64, 128, 256):
        ends[f"tiles of {block}"] = (line("tiled", block_q=block), violet)
    for name, (values, color) in ends.items():
        ax.plot(LENGTHS, values, color=color)
        style.direct_label(ax, LENGTHS[-1], values[-1], name, color)
    once = [style.rounded(8 * n * D / 2**20) for n in LENGTHS]
    ax.plot(LENGTHS, once, color=grey, linestyle=":")
    style.direct_label(ax, LENGTHS[-1], once[-1], "all moved once", grey)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xlim(LENGTHS[0], LENGTHS[-1] * 6)
    ax.set_xticks([2**e for e in (10, 12, 14, 16)], ["1K", "4K", "16K", "64K"])
    ax.set_yticks([1, 32, 2**10, 2**15], ["1 MiB", "32 MiB", "1 GiB", "32 GiB"])
    ax.set_xlabel("tokens n (width 64)", loc="left")
    ax.set_title("moved by one head, forward, FP16", loc="left", fontsize=9.5)
    ax.minorticks_off()
    return fig
