"""A state forgets past its width, a cache cannot tell old from new, a stack of both can do both.
Used on hybrid/layer-mix."""

from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Two panels: share of keys whose value comes back exactly, against the number of keys from 4 to 128, for states "
    "of width 16. Left, every key written once: the additive and the delta state are perfect up to 16 keys, then one "
    "drops to zero and the other falls; the cache alone and the mix stay perfect. Right, every key written twice: the "
    "additive state and the cache alone are at zero, the delta state is perfect up to 16 keys and falls, the mix stays "
    "perfect."
)

COLORS = {"additive state": "linear", "delta state": "delta", "cache": "softmax", "state, then cache": "hybrid"}
KEYS = [4, 8, 16, 32, 64, 128]
# the shape of the page's result, for the figure on its own: a state of width d keeps the last d of m
EXAMPLE = [
    {
        "additive state": [float(m <= 16) * (writes == 1) for m in KEYS],
        "delta state": [min(1.0, 16 / m) for m in KEYS],
        "cache": [float(writes == 1)] * len(KEYS),
        "state, then cache": [1.0] * len(KEYS),
    }
    for writes in (1, 2)
]
LABELS = [
    {"additive state": (4, 0.16), "delta state": (40, 0.46), "cache": (40, 0.88), "state, then cache": (4, 1.04)},
    {"additive state": (4, 0.06), "delta state": (40, 0.46), "cache": (30, 0.06), "state, then cache": (4, 1.04)},
]


def draw(*, curves: list[dict[str, list[float]]] | None = None) -> Figure:
    fig, axes = style.subplots(1, 2, width=5.2, height=3.2, sharey=True)
    titles = ("each key written once", "each key written twice")
    for ax, title, lines, labels in zip(axes, titles, curves or EXAMPLE, LABELS, strict=True):
        for name, shares in lines.items():
            mixed = name == "state, then cache"  # drawn wide and below, so that what lies on it is seen
            look = (
                {"linewidth": 5, "linestyle": "-", "zorder": 1}
                if mixed
                else {"linewidth": 1.8, "linestyle": "--", "zorder": 2}
            )
            ax.plot(KEYS, style.rounded(shares), "o", color=style.COLORS[COLORS[name]], markersize=4, **look)
            x, y = labels[name]
            ax.text(x, y, name, color=style.COLORS[COLORS[name]], fontsize=9.5, va="bottom")
        ax.set_xscale("log", base=2)
        ax.set_xticks(KEYS, [str(m) for m in KEYS])
        ax.minorticks_off()
        ax.set(ylim=(-0.06, 1.18), xlabel="keys")
        ax.set_title(title)
    axes[0].set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes[0].set_ylabel("recalled exactly")
    return fig
