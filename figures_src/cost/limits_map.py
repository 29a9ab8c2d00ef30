"""A trained head looks at the first token whenever it has nothing to look for. Used on cost/limits."""

import torch
from matplotlib.figure import Figure

from attnledger import style
from attnledger.ops.softmax import attention_weights

ALT = (
    "A lower-triangular attention matrix, one row per query token. Rows of question marks have their dark square just "
    "left of the diagonal, on the token before; rows of letters have theirs in the first column, on the start token."
)


def example(tokens: str) -> list[list[float]]:
    """A head written by hand: letters score the first token, a question mark the token before it."""
    scores = torch.zeros(len(tokens), len(tokens), dtype=torch.float64)
    for i, token in enumerate(tokens):
        scores[i, i - 1 if token == "?" else 0] = 5.0
    nothing = torch.zeros(len(tokens), 1, dtype=torch.float64)
    return attention_weights(nothing, nothing, bias=scores).tolist()


def draw(*, tokens: str = "^ade?ebc?cfga?ab", weights: list[list[float]] | None = None) -> Figure:
    weights = weights or example(tokens)
    fig, ax = style.subplots(width=4.4, height=4.2)
    style.matrix(ax, weights, color=style.COLORS["softmax"], text=False, vmax=0.65)
    places = range(len(tokens))
    ax.set_xticks(places, list(tokens), fontsize=9.5)
    ax.set_yticks(places, list(tokens), fontsize=9.5)
    ax.tick_params(length=0)
    ax.set(xlabel="looks at (key)", ylabel="token that looks (query)")
    return fig
