"""Where the book's operators stand under the roof of a card: most of decoding on the slope, prefill on the flat.
Used on appendix/hardware."""

from functools import cache

import numpy as np
from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import attention_flops, decode_bound, decode_macs, hbm_traffic
from attnledger.costs.hardware import GPUS, H100
from attnledger.costs.models import DEEPSEEK_V3, LLAMA_3_8B

ALT = (
    "Above, the roof of a {card}: attainable work per second against work per byte moved, both logarithmic, a slope "
    "and a level line that meet at the ridge. Dots on it mark eight operators. Below, each operator by name, from the "
    "state of linear attention on the far left over cache reads and attention kernels to a projection in prefill on "
    "the far right, with the share of the peak that it can reach."
)

TOKENS, WIDTH = 4096, 4096


@cache
def operators() -> list[tuple[str, str, float]]:
    """Name, palette key and FLOP per byte, by rising intensity; none of it depends on the card."""
    d = LLAMA_3_8B.head_dim
    work = attention_flops(TOKENS, heads=1, head_dim=d, causal=False)
    naive, tiled = (
        work / hbm_traffic(kind, tokens=TOKENS, head_dim=d, causal=False).bytes for kind in ("naive", "tiled")
    )
    one, many = (decode_bound(LLAMA_3_8B, H100, tokens=TOKENS, requests=n).intensity for n in (1, 64))
    grouped, latent = (
        decode_bound(model, H100, tokens=TOKENS, weights=False).intensity for model in (LLAMA_3_8B, DEEPSEEK_V3)
    )
    state = 2 * decode_macs("linear", d_k=d) / (2 * 4 * d * d)  # an fp32 state, read and written
    projection = 2 * TOKENS * WIDTH**2 / (2 * (WIDTH**2 + 2 * TOKENS * WIDTH))
    found = [
        ("linear state, decode", "linear", state),
        ("decode step, 1 request", "weights", one),
        ("GQA cache read", "grouped", grouped),
        ("decode step, 64 requests", "weights", many),
        ("attention, naive", "softmax", naive),
        ("attention, tiled", "softmax", tiled),
        ("MLA cache read", "latent", latent),
        ("projection, prefill", "weights", projection),
    ]
    return sorted(found, key=lambda operator: operator[2])


def half(gpu) -> str:
    """The two-byte format the card computes in."""
    return "bf16" if gpu.bf16 else "fp16"


def draw(*, card: str = "H100 SXM") -> Figure:
    gpu = next(g for g in GPUS if g.name == card)
    peak, ridge, speed = gpu.peak(half(gpu)) / 1e12, gpu.ridge(half(gpu)), gpu.bandwidth / 1e12
    fig, (top, bottom) = style.subplots(
        2, 1, width=5.0, height=5.0, sharex=True, gridspec_kw={"height_ratios": [1, 1.25]}
    )
    left, right = 0.2, 4000.0
    x = np.array([left, ridge, right])
    top.plot(style.rounded(x), style.rounded(np.minimum(peak, x * speed)), color=style.INK, linewidth=1.5)
    dots = []
    for row, (name, color, intensity) in enumerate(operators()):
        reach = min(peak, intensity * speed)
        place = style.rounded(intensity)
        dots.append((place, style.rounded(reach), -row, style.COLORS[color]))
        share = 100 * reach / peak
        words = f"{name}: {share:.2g} %" if share < 99.5 else f"{name}: at the peak"
        leftwards = intensity > 20
        beside = min(place * 0.75, ridge * 0.85 if intensity > ridge else place) if leftwards else place * 1.35
        bottom.text(style.rounded(beside), -row, words, ha="right" if leftwards else "left", va="center")
    places, heights, rows, colors = zip(*dots, strict=True)
    top.scatter(places, heights, s=50, c=colors, linewidth=0, zorder=3)
    bottom.scatter(places, rows, s=50, c=colors, linewidth=0)
    for ax in (top, bottom):
        ax.axvline(style.rounded(ridge), color=style.COLORS["accent"], linestyle="--", linewidth=1.3)
    top.text(0.25, 1500, f"{peak:.3g} TFLOP/s in {half(gpu)}", va="center")
    top.text(style.rounded(ridge * 1.15), 0.2, f"ridge {ridge:.0f}", va="center", color=style.COLORS["accent"])
    top.set(yscale="log", xscale="log", xlim=(left, right), ylim=(0.05, 4000), ylabel="TFLOP/s at most")
    top.set_yticks([1, 100], ["1", "100"])
    top.tick_params(bottom=False)
    bottom.set(ylim=(-len(operators()) + 0.4, 0.6), xlabel="work per byte moved (FLOP per byte)")
    bottom.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    bottom.set_yticks([])
    bottom.spines["left"].set_visible(False)
    top.minorticks_off()
    bottom.minorticks_off()
    return fig


def reading(*, card: str = "H100 SXM") -> str:
    gpu = next(g for g in GPUS if g.name == card)
    ridge = gpu.ridge(half(gpu))
    below = sum(intensity < ridge for _, _, intensity in operators())
    return (
        f"{card}, {half(gpu)}: a byte must give {ridge:.0f} FLOP of work to keep the units busy; "
        f"{below} of {len(operators())} operators give less."
    )
