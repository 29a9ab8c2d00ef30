"""One mix, three speeds: attention by count, the step by count, the step measured. Used on hybrid/choosing."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import ModelConfig, decode_attention_flops, decode_bound
from attnledger.costs.hardware import H100
from attnledger.costs.models import KIMI_LINEAR_48B

ALT = (
    "Kimi Linear against the same model with a cache in all 27 layers, decoding, for contexts from 4K to 1M tokens: "
    "how many times less. The FLOP of attention are a nearly level line, from 3.7 to 3.9, the bytes of attention rise "
    "to it early, the whole step for one request rises from 1 to 2.6. A dot at 1M tokens, the step measured, lies just "
    "below that line; another, reported for larger batches, lies above everything."
)

GRID = [2**e for e in range(12, 21)]
FULL = ModelConfig(**vars(KIMI_LINEAR_48B) | {"name": "MLA in every layer", "linear_layers": ()})
# the report (arXiv 2510.26692), Fig. 1b and sec. 6.3
MEASURED = {"reported,\nlarger batches": 11.48 / 1.84, "measured,\none request": 2.3}


def flops_ratio(tokens: int) -> float:
    return decode_attention_flops(FULL, tokens) / decode_attention_flops(KIMI_LINEAR_48B, tokens)


def step_ratio(tokens: int, *, weights: bool) -> float:
    full, mix = (decode_bound(m, H100, tokens=tokens, weights=weights).seconds for m in (FULL, KIMI_LINEAR_48B))
    return full / mix


def draw() -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.4)
    lines = {
        "softmax": [flops_ratio(n) for n in GRID],
        "hybrid": [step_ratio(n, weights=False) for n in GRID],
        "weights": [step_ratio(n, weights=True) for n in GRID],
    }
    for color, values in lines.items():
        ax.plot(GRID, style.rounded(values), color=style.COLORS[color])
    ax.text(2**12.2, 3.95, "attention, FLOP", color=style.COLORS["softmax"], fontsize=10, va="bottom")
    ax.text(2**15.4, 2.5, "attention, bytes", color=style.COLORS["hybrid"], fontsize=10)
    ax.text(2**17.6, 1.35, "whole step", color=style.COLORS["weights"], fontsize=10, va="top")
    for word, value in MEASURED.items():
        ax.plot([2**20], [style.rounded(value)], "o", color=style.INK, clip_on=False)
        style.direct_label(ax, 2**20, value, word, fontsize=9)
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**e for e in (12, 14, 16, 18, 20)], ["4K", "16K", "64K", "256K", "1M"])
    ax.set_yticks([1, 2, 3, 4, 5, 6], ["1 ×", "2 ×", "3 ×", "4 ×", "5 ×", "6 ×"])
    ax.minorticks_off()
    ax.set(xlim=(4096, 2**20), ylim=(0.8, 6.6), xlabel="tokens of context", ylabel="times less than all caches")
    ax.grid(True, axis="y")
    return fig
