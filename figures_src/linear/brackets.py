"""The bracket decides what stands in the middle: n × n scores or a d × d state. Used on linear/linear-attention."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style
from attnledger.costs import attention_flops, decode_macs

ALT = (
    "The product phi(Q) phi(K) transposed V, drawn twice to scale for {n} tokens and {d} features. Upper row: the "
    "bracket holds phi(Q) and phi(K) transposed, and a block of {n} by {n} scores stands in the middle. Lower row: the "
    "bracket holds phi(K) transposed and V, and the block is the {d} by {d} state."
)

LARGEST_N, LARGEST_D = 256, 128  # the largest values the sliders offer: all frames share one scale
GAP = 92
MIDDLE = 4 * GAP + 2 * LARGEST_D + LARGEST_N  # where the column of blocks in the middle starts


def multiply_adds(n: int, d: int) -> tuple[int, int]:
    """Multiply-adds of (φ(Q) φ(K)ᵀ) V and of φ(Q) (φ(K)ᵀ V), with r = d_v = d; a multiply-add is 2 FLOP."""
    return attention_flops(n, heads=1, head_dim=d, causal=False) // 2, n * decode_macs("linear", d_k=d)


def box(ax, left: float, middle: float, shape: tuple[int, int], name: str, color: str, alpha: float) -> None:
    """One matrix to scale, its name above and its shape below."""
    height, width = shape
    corner = (left, middle - height / 2)
    ax.add_patch(Rectangle(corner, width, height, facecolor=color, alpha=alpha, linewidth=0))
    ax.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=color, linewidth=1.3))
    ax.text(left + width / 2, middle + height / 2 + 6, name, ha="center", va="bottom", fontsize=11)
    ax.text(left + width / 2, middle - height / 2 - 6, f"{height}×{width}", ha="center", va="top", fontsize=9.5)


def bracket(ax, x: float, middle: float, height: float, color: str, *, opens: bool) -> None:
    reach = 14 if opens else -14
    top, bottom = middle + height / 2 + 46, middle - height / 2 - 46
    ax.plot([x + reach, x, x, x + reach], [top, top, bottom, bottom], color=color, linewidth=2.4)


def row(ax, middle: float, n: int, d: int, *, state_first: bool) -> None:
    """The three matrices in their order, the bracket round two of them, and the block that the bracket makes."""
    color = style.COLORS["linear" if state_first else "softmax"]
    lefts = [GAP, 2 * GAP + d, 3 * GAP + d + n]
    for left, shape, name in zip(lefts, [(n, d), (d, n), (n, d)], ["φ(Q)", "φ(K)ᵀ", "V"], strict=True):
        box(ax, left, middle, shape, name, style.COLORS["muted"], 0.25)
    start, stop = (lefts[1], lefts[2] + d) if state_first else (lefts[0], lefts[1] + n)
    bracket(ax, start - GAP / 2, middle, max(n, d), color, opens=True)
    bracket(ax, stop + GAP / 2, middle, max(n, d), color, opens=False)
    size, name = (d, "state S") if state_first else (n, "scores")
    box(ax, MIDDLE + (LARGEST_N - size) / 2, middle, (size, size), name, color, 0.75)
    count = multiply_adds(n, d)[state_first]
    ax.text(GAP, middle + max(n, d) / 2 + 74, f"{count:,} multiply–adds", fontsize=11.5, color=color, weight="bold")


def draw(*, n: int = 64, d: int = 128) -> Figure:
    fig, ax = style.subplots(width=4.5, height=4.1)
    row(ax, 480, n, d, state_first=False)
    row(ax, 0, n, d, state_first=True)
    ax.text(MIDDLE + LARGEST_N / 2, 690, "in the middle", fontsize=11.5, ha="center")
    ax.set_xlim(GAP / 2 - 6, MIDDLE + LARGEST_N + 10)
    ax.set_ylim(-190, 740)
    ax.set_aspect("equal")
    ax.axis("off")
    return fig


def reading(*, n: int = 64, d: int = 128) -> str:
    scores, state = multiply_adds(n, d)
    winner = "the two tie" if state == scores else f"the {'state' if state < scores else 'scores'} order does less work"
    return f"{n * n:,} scores against {d * d:,} state numbers; {scores:,} against {state:,} multiply–adds: {winner}."
