"""Released models mix layers in regular stripes and end with a layer that sees everything. Used on hybrid/layer-mix."""

from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from attnledger import style
from attnledger.costs.models import KIMI_K3, KIMI_LINEAR_48B, LLAMA_3_8B, MINIMAX_M3, QWEN3_5_397B, ModelConfig

ALT = (
    "One strip per model, one cell per layer, coloured by what the layer keeps. Llama 3 8B: thirty-two caches. Kimi "
    "Linear, Kimi K3 and Qwen3.5: three states and a cache in turn, and a cache as the last layer. MiniMax-M3: three "
    "caches, then block selection. DeepSeek-V4-Flash: two windows, then mild and heavy compression in turn."
)

COLORS = {
    "state": style.COLORS["delta"],
    "cache, GQA": style.COLORS["grouped"],
    "cache, MLA": style.COLORS["latent"],
    "cache, blocks selected": style.COLORS["sparse"],
    "window": style.COLORS["window"],
    "compressed 4:1, selected": style.COLORS["gated"],
    "compressed 128:1": style.COLORS["muted"],
}
# DeepSeek-V4 report (arXiv 2606.19348), sec. 4.2.1: 43 layers, two of windows, then CSA and HCA in turn; that CSA comes
# first is in the released configuration (compress_ratios 0, 0, 4, 128, ..., 4), as tests of engines quote it
V4_FLASH = ["window"] * 2 + ["compressed 4:1, selected", "compressed 128:1"] * 20 + ["compressed 4:1, selected"]


def kinds(model: ModelConfig) -> list[str]:
    """What each layer of a model keeps."""
    cache = "cache, MLA" if model.attention == "mla" else "cache, GQA"
    names = [cache] * model.layers
    for layer in model.linear_layers:
        names[layer] = "state"
    for layer in model.sparse_layers:
        names[layer] = "cache, blocks selected"
    return names


ROWS = [(m.name, kinds(m)) for m in (LLAMA_3_8B, KIMI_LINEAR_48B, QWEN3_5_397B, KIMI_K3, MINIMAX_M3)]
ROWS.append(("DeepSeek-V4-Flash", V4_FLASH))


def cell(layer: int, row: int) -> Path:
    left, right, top, bottom = layer, layer + 0.82, row, row + 0.46
    return Path([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], closed=True)


def draw() -> Figure:
    fig, ax = style.subplots(width=5.2, height=4.5)
    for row, (name, layers) in enumerate(ROWS):
        ax.text(0, row - 0.12, f"{name}, {len(layers)} layers", fontsize=9.5, va="bottom")
        for kind, color in COLORS.items():
            cells = [cell(index, row) for index, layer in enumerate(layers) if layer == kind]
            if cells:
                ax.add_patch(PathPatch(Path.make_compound_path(*cells), facecolor=color, linewidth=0))
    for place, (kind, color) in enumerate(COLORS.items()):
        column, line = divmod(place, 4)
        x, y = 46 * column, len(ROWS) + 0.2 + 0.46 * line
        ax.add_patch(Rectangle((x, y - 0.15), 2.6, 0.3, facecolor=color, linewidth=0))
        ax.text(x + 4, y, kind, fontsize=9.5, va="center")
    ax.set(xlim=(0, 93), ylim=(len(ROWS) + 1.9, -0.6))
    ax.axis("off")
    return fig
