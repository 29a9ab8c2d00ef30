"""What a free attention would gain, end to end: no scheme can pass this line. Used on hybrid/choosing."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import bound, decode_bound, kv_cache_bytes, quadratic_share
from attnledger.costs.hardware import H100
from attnledger.costs.models import LLAMA_3_8B as MODEL

ALT = (
    "How many times faster Llama 3 8B would be if its attention cost nothing, against the context length, both axes "
    "logarithmic. Three rising lines: decoding for 64 requests leaves one first, at about a thousand tokens; prefill "
    "and decoding for a single request stay near one up to about ten thousand."
)

GRID = [2**e for e in range(8, 21)]


def decode_ceiling(tokens: int, requests: int) -> float:
    """The step over the step without a cache to read."""
    whole = decode_bound(MODEL, H100, tokens=tokens, requests=requests)
    rest = bound(
        H100,
        flops=2 * requests * MODEL.parameters,
        bytes_moved=whole.bytes_moved - kv_cache_bytes(MODEL, tokens, requests=requests),
    )
    return whole.seconds / rest.seconds


def prefill_ceiling(tokens: int) -> float:
    """The layers' FLOP over those of their weights."""
    return 1 / (1 - quadratic_share(tokens, causal=True, of="layer", **MODEL.layer_geometry))


LINES = [
    ("decode,\n64 requests", "accent", lambda n: decode_ceiling(n, 64)),
    ("decode,\n1 request", "softmax", lambda n: decode_ceiling(n, 1)),
    ("prefill", "weights", prefill_ceiling),
]


def draw() -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.3)
    for name, color, gain in LINES:
        values = style.rounded([gain(n) for n in GRID])
        ax.loglog(GRID, values, color=style.COLORS[color])
        style.direct_label(ax, GRID[-1], values[-1], name, style.COLORS[color], fontsize=10)
    ax.set_xscale("log", base=2)
    ax.set_xticks([2**e for e in (8, 10, 12, 14, 16, 18, 20)], ["256", "1K", "4K", "16K", "64K", "256K", "1M"])
    ax.set_yticks([1, 2, 5, 10, 100], ["1 ×", "2 ×", "5 ×", "10 ×", "100 ×"])
    ax.minorticks_off()
    ax.set(xlim=(256, 2**20), ylim=(0.9, 1000), xlabel="tokens of context", ylabel="gain if attention were free")
    ax.grid(True, axis="y")
    return fig
