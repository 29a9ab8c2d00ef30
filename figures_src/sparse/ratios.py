"""Reading less gains without limit, finding what to read caps the gain. Used on sparse/block-selection."""

from matplotlib.figure import Figure

from attnledger import style
from attnledger.costs import msa_flops
from attnledger.costs.models import MSA_PAPER_109B as MODEL

ALT = (
    "How many times fewer FLOP block selection needs than dense attention, against the context length, both axes "
    "logarithmic. The main branch alone is a straight rising line. Both branches together follow it, bend and flatten "
    "under a dotted ceiling; two counts of them differ only at short lengths, where one falls below one. At a million "
    "tokens two dots, the measured speed-ups of prefill and decode, lie below."
)

MEASURED = {"prefill, measured": 14.2, "decode, measured": 7.6}  # arXiv 2606.13392, abstract, at 1M tokens
GEOMETRY = {
    "heads": MODEL.heads,
    "kv_heads": MODEL.kv_heads,
    "head_dim": MODEL.head_dim,
    "index_dim": MODEL.index_dim,
    "top_k": MODEL.top_k,
    "block": MODEL.block,
}


def draw() -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.9)
    lengths = [2**e for e in range(10, 24)]
    printed = [msa_flops(n, **GEOMETRY) for n in lengths]
    exact = [msa_flops(n, exact=True, **GEOMETRY) for n in lengths]
    violet, grey = style.COLORS["sparse"], style.COLORS["muted"]
    ax.axhline(1, color=grey, linewidth=1)
    ceiling = 2 * MODEL.heads * MODEL.head_dim / (MODEL.kv_heads * MODEL.index_dim)
    ax.axhline(ceiling, color=violet, linewidth=1, linestyle=":")
    ax.plot(lengths, style.rounded([w.main_ratio for w in printed]), color=style.COLORS["accent"])
    ax.plot(lengths, style.rounded([w.ratio for w in printed]), color=violet)
    ax.plot(lengths, style.rounded([w.ratio for w in exact]), color=violet, linestyle="--")
    at = 2**20
    for word, value in MEASURED.items():
        ax.plot([at], [value], "o", color=style.INK)
        ax.annotate(
            word, (at, value), xytext=(-6, -9), textcoords="offset points", ha="right", va="center", fontsize=9.5
        )
    ax.text(2**17.7, 75, "main branch alone", color=style.COLORS["accent"], ha="right", va="center", fontsize=9.5)
    ax.text(2**10.2, ceiling * 1.1, f"ceiling {ceiling:g}", color=violet, va="bottom", fontsize=9.5)
    ax.text(2**14.7, 3.6, "both branches,\nEq. 12", color=violet, va="top", fontsize=9.5)
    ax.text(2**10.2, 1.45, "exact\ncounts", color=violet, va="bottom", fontsize=9.5)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_ylim(0.2, 500)
    ax.set_xticks([2**e for e in (10, 12, 14, 16, 18, 20, 22)], ["1K", "4K", "16K", "64K", "256K", "1M", "4M"])
    ax.set_yticks([1, 10, 100], ["1", "10", "100"])
    ax.set_xlabel("context length N (tokens)")
    ax.set_ylabel("times less than dense")
    ax.minorticks_off()
    return fig
