"""Trained small models: what a state or a window cannot recall, one cache among four layers does.
Used on hybrid/layer-mix."""

import json
from importlib import resources

import numpy as np
from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Two panels of accuracy after training, one line per mixer, two seeds as dots. Left, recall of 4 to 32 pairs: "
    "softmax, block selection and the mix of three delta layers and one softmax stay perfect; linear, delta and gated "
    "delta start perfect and lose about a fifth of the answers at 32 pairs; the window falls steeply from nearly "
    "perfect at 4 pairs to almost nothing. Right, copying of 8 to 48 symbols: the same three stay perfect; the gated "
    "and the delta state fall to about half, the linear one to a third; the window copies 16 symbols and then nothing."
)

TITLES = {"recall": "recall", "copying": "copying"}
COUNTED = {"recall": "key–value pairs", "copying": "symbols to copy"}
NAMES = {
    "hybrid": ("3 delta : 1 softmax", "hybrid"),
    "softmax": ("softmax", "softmax"),
    "msa": ("MSA", "sparse"),
    "delta": ("delta", "delta"),
    "gated": ("gated", "gated"),
    "linear": ("linear", "linear"),
    "window": ("window", "window"),
}
LOOKS = {"hybrid": (7, "-"), "softmax": (3.5, "-"), "msa": (1.2, "--"), "gated": (1.8, ":")}  # seen where they coincide
LABELS = {  # heights at the right end, apart where lines are close; above the lines for those at the top
    "recall": {"delta": 0.89, "linear": 0.79, "gated": 0.69, "window": 0.06},
    "copying": {"gated": 0.56, "delta": 0.45, "linear": 0.32, "window": 0.01},
}
AT_TOP = {"hybrid": (0.03, 1.04), "softmax": (0.03, 1.14), "msa": (0.45, 1.14)}


def draw() -> Figure:
    data = json.loads((resources.files("attnledger") / "data" / "recall.json").read_text(encoding="utf8"))
    fig, axes = style.subplots(1, 2, width=5.2, height=3.4, sharey=True)
    for ax, (task, sizes) in zip(axes, data["settings"]["sizes"].items(), strict=True):
        for mixer, (name, color) in NAMES.items():
            seeds = [one["accuracy"] for one in data["runs"] if (one["task"], one["mixer"]) == (task, mixer)]
            width, line = LOOKS.get(mixer, (1.8, "-"))
            options = {"color": style.COLORS[color], "linewidth": width, "linestyle": line}
            ax.plot(sizes, style.rounded(np.mean(seeds, axis=0)), **options)
            if width < 3:
                for shares in seeds:
                    ax.plot(sizes, style.rounded(shares), "o", markersize=2.5, color=style.COLORS[color])
            if mixer in AT_TOP:
                x, y = AT_TOP[mixer]
                place = {"transform": ax.get_yaxis_transform(), "fontsize": 9.5, "va": "bottom"}
                ax.text(x, y, name, color=style.COLORS[color], **place)
            else:
                style.direct_label(ax, sizes[-1], LABELS[task][mixer], name, style.COLORS[color])
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        ax.set(xlim=(0.9 * sizes[0], 2.4 * sizes[-1]), ylim=(-0.04, 1.26), xlabel=COUNTED[task])
        ax.set_title(TITLES[task])
    axes[0].set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes[0].set_ylabel("answers right")
    return fig
