"""In two products of a layer both factors are data, and an n by n matrix stands between them.
Used on cost/softmax-attention."""

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnledger import style
from attnledger.costs import attention_flops, projection_flops

ALT = (
    "Four rows of matrix products, drawn to scale with one and a half times as many tokens as channels. Project and "
    "MLP multiply the data by a block of weights, and their results are as tall as the data and as wide as the "
    "weights. Score multiplies queries by keys, data by data, and makes an n by n square; read multiplies that square "
    "by the values. Beside each row stands its work in FLOP."
)

N, D = 96, 64  # tokens and width of the drawing
DATA, WEIGHTS = style.COLORS["softmax"], style.COLORS["weights"]


def work() -> dict[str, str]:
    """The FLOP of each row, as a multiple of n d² or n² d."""
    data = attention_flops(N, heads=1, head_dim=D, causal=False) // (N * N * D)
    weights = projection_flops(N, d_model=D) // (N * D * D)
    mlp = weights - projection_flops(N, d_model=D, d_ff=D) // (N * D * D)  # a 4 d MLP less a d one: three quarters
    mlp = mlp * 4 // 3
    return {
        "project": f"{weights - mlp} n d²",
        "score": f"{data // 2} n² d",
        "read": f"{data // 2} n² d",
        "mlp": f"{mlp} n d²",
    }


def block(ax, x: float, y: float, height: float, width: float, name: str, color: str, strong: bool = False) -> float:
    """One matrix with its top left corner at (x, y); returns where the next may start."""
    ax.add_patch(Rectangle((x, y - height), width, height, facecolor=color, alpha=0.6 if strong else 0.25, linewidth=0))
    ax.add_patch(Rectangle((x, y - height), width, height, fill=False, edgecolor=color, linewidth=1.3))
    ax.text(x + width / 2, y - height / 2, name, ha="center", va="center", fontsize=10.5)
    return x + width


def row(ax, y: float, title: str, flop: str, factors: list[tuple], result: tuple) -> None:
    """``title: flop`` above, the product below: each matrix as (name, rows, columns, color, strong)."""
    color = DATA if all(factor[3] == DATA for factor in factors) else WEIGHTS
    ax.text(0, y + 12, title, fontsize=10.5, va="bottom")
    ax.text(640, y + 12, f"{flop} FLOP", fontsize=10.5, va="bottom", ha="right", color=color, weight="bold")
    x = 0.0
    for sign, (name, rows, columns, shade, strong) in zip("·=.", [*factors, result], strict=True):
        x = block(ax, x, y, rows, columns, name, shade, strong)
        if sign != ".":
            ax.text(x + 14, y - N / 2, sign, ha="center", va="center", fontsize=12)
        x += 28


def draw() -> Figure:
    fig, ax = style.subplots(width=4.8, height=4.9)
    flop = work()
    x = ("x", N, D, DATA, False)
    q, k = ("Q", N, D, DATA, False), ("Kᵀ", D, N, DATA, False)
    a, v = ("A", N, N, DATA, True), ("V", N, D, DATA, False)
    once = ("W", D, D, WEIGHTS, False)
    wide = ("W, 4 times as wide", D, 4 * D, WEIGHTS, False)
    row(ax, 510, "project (Q, K, V and output)", flop["project"], [x, once], ("Q", N, D, DATA, False))
    row(ax, 350, "score: data by data", flop["score"], [q, k], ("S: n × n", N, N, DATA, True))
    row(ax, 190, "read: data by data", flop["read"], [a, v], ("C", N, D, DATA, False))
    row(ax, 30, "MLP (up, and back down)", flop["mlp"], [x, wide], ("hidden", N, 4 * D, DATA, False))
    ax.set_xlim(-4, 650)
    ax.set_ylim(-72, 560)
    ax.set_aspect("equal")
    ax.axis("off")
    return fig
