"""How many layers or steps lie between the first token and the last output: what attention's square buys.
Used on cost/crossover."""

from matplotlib.figure import Figure

from attnledger import style

ALT = (
    "Steps from the first input to the last output against the number of tokens, both axes logarithmic. The recurrent "
    "layer is highest and in proportion to n; a convolution over {k} neighbours and a window of {r} tokens rise as "
    "steeply below it; the dilated convolution gains one step each time n grows fourfold; self-attention is level at "
    "one."
)


def steps(n: int, offsets) -> int:
    """Layers until the last of n outputs depends on the first input; `offsets(layer)` are the distances looked back."""
    seen, layers = {n - 1}, 0
    while 0 not in seen:
        seen = {i - back for i in seen for back in offsets(layers) if back <= i}
        layers += 1
    return layers


def draw(*, k: int = 4, r: int = 16) -> Figure:
    fig, ax = style.subplots(width=5.2, height=3.7)
    lengths = [16, 64, 256, 1024]
    kinds = [
        ("recurrent", lambda layer: (0, 1), "linear", "-"),
        (f"convolution, k = {k}", lambda layer: range(k), "weights", "-"),
        (f"window, r = {r}", lambda layer: range(r), "window", "-"),
        (f"dilated, k = {k}", lambda layer: [j * k**layer for j in range(k)], "weights", "--"),
        ("self-attention", None, "softmax", "-"),
    ]
    for name, offsets, color, dash in kinds:
        values = [1 if offsets is None else steps(n, offsets) for n in lengths]
        ax.loglog(lengths, values, "o", linestyle=dash, color=style.COLORS[color], clip_on=False)
        style.direct_label(ax, lengths[-1], values[-1], f"{values[-1]:,}  {name}", style.COLORS[color], fontsize=10)
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [f"{n:,}" for n in lengths])
    ax.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    ax.minorticks_off()
    ax.set(xlim=(16, 1024), ylim=(0.8, 1300), xlabel="tokens n", ylabel="steps from first to last")
    ax.grid(True, axis="y")
    return fig
