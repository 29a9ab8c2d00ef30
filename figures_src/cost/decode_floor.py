"""The least time of one decode step: the weights are read once for all, every conversation adds its own cache.
Used on cost/decode."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import decode_bound, kv_cache_bytes
from attnledger.costs.hardware import A100_80, H100, H200, L4
from attnledger.costs.models import LLAMA_3_8B

ALT = (
    "Two horizontal bars in milliseconds for one decode step of Llama 3 8B on a card of type {card}, {requests} "
    "conversation(s) of {tokens} tokens each. The upper bar is the time to read memory, in two pieces: weights and "
    "caches. The lower bar is the time of the arithmetic at the card's peak."
)

CARDS = {"L4": L4, "A100": A100_80, "H100": H100, "H200": H200}


def parts(tokens: int, requests: int, card: str) -> tuple[float, float, float]:
    """Milliseconds to read the weights, to read the caches, and to compute."""
    whole = decode_bound(LLAMA_3_8B, CARDS[card], tokens=tokens, requests=requests)
    caches = decode_bound(LLAMA_3_8B, CARDS[card], tokens=tokens, requests=requests, weights=False).memory_seconds
    return 1e3 * (whole.memory_seconds - caches), 1e3 * caches, 1e3 * whole.compute_seconds


def time(ms: float) -> str:
    """Milliseconds in a unit that needs no zeros."""
    value, unit = (1e3 * ms, "µs") if ms < 0.995 else (ms, "ms") if ms < 995 else (ms / 1e3, "s")
    return f"{value:.3g} {unit}"


def draw(*, tokens: int = 1024, requests: int = 1, card: str = "H100") -> Figure:
    fig, ax = style.subplots(width=5.2, height=2.4)
    weights, caches, compute = style.rounded(parts(tokens, requests, card))
    top = style.rounded(1.02 * max(weights + caches, compute))
    ax.barh(0, weights, height=0.5, color=style.COLORS["weights"], linewidth=0)
    ax.barh(0, caches, left=weights, height=0.5, color=style.COLORS["softmax"], linewidth=0)
    ax.barh(-1.25, compute, height=0.5, color=style.COLORS["muted"], linewidth=0)
    ax.text(0, 0.4, f"weights {time(weights)}", color=style.COLORS["weights"], fontsize=10.5)
    ax.text(top, 0.4, f"caches {time(caches)}", color=style.COLORS["softmax"], fontsize=10.5, ha="right")
    ax.text(0, -0.85, f"arithmetic {time(compute)}", fontsize=10.5)
    ax.set(xlim=(0, top), ylim=(-1.6, 0.85), xlabel="milliseconds per step, at least")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return fig


def reading(*, tokens: int = 1024, requests: int = 1, card: str = "H100") -> str:
    weights, caches, compute = parts(tokens, requests, card)
    floor = max(weights + caches, compute)
    need = 2 * LLAMA_3_8B.parameters + kv_cache_bytes(LLAMA_3_8B, tokens, requests=requests)
    fits = "It fits on the card" if need <= CARDS[card].memory else "It does not fit on the card"
    return (
        f"Floor {time(floor)} per step: at most {1e3 / floor:,.3g} tokens per second for each conversation, "
        f"{1e3 * requests / floor:,.3g} for all; caches are {caches / (weights + caches):.0%} of what is read. {fits}."
    )
