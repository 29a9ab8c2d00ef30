"""Which scheme a length, a batch and a card ask for, by rules that can be read. Used on hybrid/choosing."""

from typing import NamedTuple

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import ModelConfig, decode_bound, format_bytes, kv_cache_bytes, linear_state_bytes
from attnledger.costs.hardware import H100, L4
from attnledger.costs.models import LLAMA_3_8B

ALT = (
    "Two panels with one bar per scheme at {tokens} tokens, {requests} requests at once on one {card}; exact recall "
    "needed: {recall}. Left, what the weights, caches and states hold, with a dashed line for the card's memory; bars "
    "end at twice the card. Right, the least time of a decode step beside that of the exact stack. The chosen scheme "
    "has a strong bar, excluded ones are faint."
)

CARDS = {"H100": H100, "L4": L4}
WORTH = 1.25  # a scheme that gains less over the exact stack is not worth a new training run
STATE = 4  # bytes per number of a state: FP32


def variant(name: str, **changed) -> ModelConfig:
    return ModelConfig(**vars(LLAMA_3_8B) | {"name": name} | changed)


def states(layers) -> dict:
    width = {"linear_key_dim": LLAMA_3_8B.head_dim, "linear_value_dim": LLAMA_3_8B.head_dim}
    heads = {"linear_key_heads": LLAMA_3_8B.heads, "linear_value_heads": LLAMA_3_8B.heads}
    return {"linear_layers": tuple(layers), **width, **heads}


INDEX = {"index_heads": LLAMA_3_8B.kv_heads, "index_dim": 128, "block": 128, "top_k": 16}
SCHEMES = {
    "exact": LLAMA_3_8B,
    "block-sparse": variant("block-sparse", sparse_layers=tuple(range(32)), **INDEX),
    "state": variant("state", **states(range(32))),
    "3:1 mix": variant("3:1 mix", **states(i for i in range(32) if i % 4 != 3)),
}
COLORS = {"exact": "softmax", "block-sparse": "sparse", "state": "delta", "3:1 mix": "hybrid"}


class Choice(NamedTuple):
    scheme: str | None
    reasons: list[str]
    excluded: set[str]


def held_bytes(model: ModelConfig, tokens: int, requests: int) -> int:
    """BF16 weights and caches, FP32 states."""
    state = linear_state_bytes(model, bytes_per_number=STATE, requests=requests) if model.linear_layers else 0
    return 2 * model.parameters + kv_cache_bytes(model, tokens, requests=requests) + state


def step_seconds(model: ModelConfig, tokens: int, requests: int, card: str) -> float:
    return decode_bound(model, CARDS[card], tokens=tokens, requests=requests, state_bytes_per_number=STATE).seconds


def choose(tokens: int, requests: int, card: str, recall: str) -> Choice:
    """The rules of the page: fits, recalls, is worth it; else the fastest that is left."""
    room = CARDS[card].reported
    seconds = {name: step_seconds(model, tokens, requests, card) for name, model in SCHEMES.items()}
    fits = {name for name, model in SCHEMES.items() if held_bytes(model, tokens, requests) <= room}
    able = {name for name in SCHEMES if recall == "no" or name != "state"}
    reasons = []
    if too_big := [name for name in SCHEMES if name not in fits]:
        reasons.append(f"does not fit: {', '.join(too_big)}")
    if able < set(SCHEMES):
        reasons.append("exact recall rules out a state alone")
    left = [name for name in SCHEMES if name in fits & able]
    excluded = set(SCHEMES) - set(left)
    if not left:
        return Choice(None, [*reasons, "nothing is left: fewer numbers per token, or more cards"], excluded)
    fastest = min(left, key=seconds.get)
    gain = seconds["exact"] / seconds[fastest]
    if "exact" in left and gain < WORTH:
        return Choice("exact", [*reasons, f"the best of the others is only {gain:.2f} times as fast"], excluded)
    reasons.append(f"the fastest that is left, {gain:.3g} times as fast as the exact stack")
    return Choice(fastest, reasons, excluded)


def draw(*, tokens: int = 65_536, requests: int = 1, card: str = "H100", recall: str = "yes") -> Figure:
    choice = choose(tokens, requests, card, recall)
    fig, axes = style.subplots(1, 2, width=5.2, height=2.5, sharey=True)
    held = [held_bytes(m, tokens, requests) / 2**30 for m in SCHEMES.values()]
    times = [1e3 * step_seconds(m, tokens, requests, card) for m in SCHEMES.values()]
    names = list(SCHEMES)
    panels = ((held, CARDS[card].reported / 2**30, 2.0), (times, times[0], 1.2))
    for ax, (values, unit, longest) in zip(axes, panels, strict=True):
        for row, (name, value) in enumerate(zip(names, values, strict=True)):
            alpha = 1.0 if name == choice.scheme else 0.5 if name in choice.excluded else 0.7
            length = style.rounded(min(value / unit, longest))
            color = style.COLORS[COLORS[name]]
            ax.barh(row, length, height=0.6, color=(color, alpha), edgecolor=color, linewidth=1)
            number = f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
            ax.text(1.72 * longest, row, number, ha="right", va="center", fontsize=9)
        ax.set(xlim=(0, 1.75 * longest), xticks=[])
        ax.spines["bottom"].set_visible(False)
        ax.tick_params(length=0)
    axes[0].axvline(1, color=style.COLORS["accent"], linestyle="--", linewidth=1.4)
    axes[0].set_title("held, GiB")
    axes[1].set_title("a step, ms at least")
    axes[0].set_yticks(range(len(names)), [f"► {name}" if name == choice.scheme else name for name in names])
    axes[0].set_ylim(3.5, -0.5)
    return fig


def reading(*, tokens: int = 65_536, requests: int = 1, card: str = "H100", recall: str = "yes") -> str:
    choice = choose(tokens, requests, card, recall)
    head = f"Choice: {choice.scheme}" if choice.scheme else "None of the four"
    room = format_bytes(CARDS[card].reported, digits=3)
    return f"{head} ({room} on the card): " + "; ".join(choice.reasons) + "."
