"""Written-out attention moves the square four times; tiled attention re-reads keys and values instead, and only the
block size changes how often. Used on exact/flash-attention."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import format_bytes, hbm_traffic

ALT = (
    "Two bars, the bytes one head moves through main memory at {n} tokens and width {d}, both to the scale of the "
    "upper one. The upper bar, attention written out, is made of four equal parts, the scores and the weights each "
    "written and read, and a thin rest. The lower bar, attention in tiles of {block} queries, is shorter and is almost "
    "all keys and values read again."
)

PARTS = ["S out", "S in", "P out", "P in"]


def parts(n: int, d: int, block: int) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes moved in FP16, by what is moved: written out, and tiled."""
    naive = hbm_traffic("naive", tokens=n, head_dim=d, causal=False)
    tiled = hbm_traffic("tiled", tokens=n, head_dim=d, causal=False, block_q=block)
    once = 4 * n * d  # bytes of Q and O together: each is moved once
    square = 2 * n * n
    written = dict.fromkeys(PARTS, square) | {"Q, K, V, O": naive.bytes - 4 * square}
    return written, {"K, V": tiled.bytes - once, "Q, O": once}


def draw(*, n: int = 4096, d: int = 64, block: int = 128) -> Figure:
    fig, ax = style.subplots(width=5.0, height=2.3)
    written, tiled = parts(n, d, block)
    total = sum(written.values())
    blue, violet, grey = style.COLORS["softmax"], style.COLORS["sparse"], style.COLORS["muted"]
    for y, bar in ((1, written), (0, tiled)):
        left = 0.0
        for name, size in bar.items():
            width = style.rounded(size / total)
            color = blue if name in PARTS else violet if name == "K, V" else grey
            ax.barh(y, width, left=left, height=0.42, color=color, alpha=0.75, edgecolor=color, linewidth=1)
            if name in PARTS:
                ax.text(left + width / 2, y, name, ha="center", va="center", fontsize=9.5, color=style.INK)
            left += width
    ax.text(0, 1.3, f"written out: {format_bytes(total, digits=3)}", fontsize=9.5, va="bottom", color=style.INK)
    moved = format_bytes(sum(tiled.values()), digits=3)
    ax.text(0, 0.3, f"tiles of {block} queries: {moved}", fontsize=9.5, va="bottom", color=style.INK)
    ax.text(0, -0.33, "keys and values, re-read", color=violet, fontsize=9.5, va="top", weight="bold")
    ax.text(1, -0.33, "Q, K, V, O: grey", color=grey, fontsize=9.5, va="top", ha="right", weight="bold")
    ax.set_xlim(-0.01, 1.02)
    ax.set_ylim(-0.7, 1.65)
    ax.axis("off")
    return fig


def reading(*, n: int = 4096, d: int = 64, block: int = 128) -> str:
    written, tiled = (sum(bar.values()) for bar in parts(n, d, block))
    passes = -(-n // block)
    return (
        f"{n:,} tokens, width {d}: {format_bytes(written, digits=3)} written out, {format_bytes(tiled, digits=3)} in "
        f"tiles of {block} queries, {written / tiled:.2f} times less; keys and values are read {passes:,} times."
    )
