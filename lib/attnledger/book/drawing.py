"""Figures as pages show them: deterministic SVG in an image that every notebook front end displays, with alt text.

The output's ``text/html`` is ``<img class="drawing" alt=… src="data:image/svg+xml,…">``, which untrusted notebooks
show as well; the site turns it into inline SVG. Its ``text/plain`` is the drawn data to three significant digits, so
that a comparison of outputs sees a changed number even where another matplotlib writes another SVG.
"""

import html
import importlib
import inspect
import io
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from .. import style
from ._names import unknown

_PIXELS_PER_INCH = 120  # a quarter larger than drawn


class Drawing:
    """One drawn figure: its SVG, its alt text, the numbers drawn."""

    def __init__(self, svg: str, alt: str, data: str, width: int, reading: str = ""):
        self.svg, self.alt, self.data, self.width, self.reading = svg, alt, data, width, reading

    @property
    def image(self) -> str:
        """The drawing as an `<img>` element."""
        alt = html.escape(" ".join(filter(None, [self.alt, self.reading])))
        source = quote(self.svg, safe=" /:=;,()!*'@?$+~[]{}|^`")
        return (
            f'<img class="drawing" alt="{alt}" width="{self.width}" '
            f'src="data:image/svg+xml,{source}" style="background:#fff;max-width:100%;height:auto">'
        )

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/html": self.image, "text/plain": self.data}


def figure(name: str, **params) -> Drawing:
    """Draw ``figures_src/<part>/<figure>.py``, named ``"<part>.<figure>"``, with `params` handed to its ``draw``.

    Raises LookupError for a name that does not exist, naming the nearest one that does.
    """
    module = load(name)
    return render(module.draw, params, salt=name)


def load(name: str) -> ModuleType:
    """The figure module called `name`."""
    if name not in (names := figure_names()):
        raise LookupError(unknown("figure", name, names))
    return importlib.import_module(f"figures_src.{name}")


def figure_names() -> list[str]:
    """The names of all figures of the book."""
    folders = [Path(folder) for folder in importlib.import_module("figures_src").__path__]
    return sorted({f"{file.parent.name}.{file.stem}" for folder in folders for file in folder.glob("*/*.py")})


def render(draw: Callable[..., Figure], params: dict, *, salt: str) -> Drawing:
    """Call `draw` in the book's look and turn its figure into a `Drawing`; `salt` keeps the SVG's ids apart."""
    with style.look():
        drawn = draw(**params)
    if not isinstance(drawn, Figure):
        raise ValueError(f"draw of {salt!r} must return a matplotlib Figure, not {type(drawn).__name__}")
    # only plain values: the last digits of a list of measured numbers differ between CPUs
    parts = [salt, *(f"{key}={value}" for key, value in params.items() if isinstance(value, (bool, int, float, str)))]
    width = round(drawn.get_figwidth() * _PIXELS_PER_INCH)
    spoken = reading(**params) if (reading := _beside(draw).get("reading")) else ""
    return Drawing(svg_of(drawn, " ".join(parts)), _alt(draw, params), data_of(drawn), width, spoken)


def _beside(draw: Callable[..., Figure]) -> dict:
    """The names of the figure module that `draw` is the drawing function of."""
    return getattr(draw, "__globals__", {}) if getattr(draw, "__name__", "") == "draw" else {}


def _alt(draw: Callable[..., Figure], params: dict) -> str:
    """The figure module's ALT (or the function's docstring), with `{param}` filled in."""
    defaults = {k: p.default for k, p in inspect.signature(draw).parameters.items() if p.default is not p.empty}
    text = _beside(draw).get("ALT") or inspect.getdoc(draw) or ""
    return " ".join(re.sub(r"\{(\w+)\}", lambda m: str((defaults | params).get(m[1], m[0])), text).split())


def svg_of(drawn: Figure, salt: str) -> str:
    """`drawn` as SVG text: no date, no ids but those that are referred to, numbers and names the same on every run."""
    buffer = io.StringIO()
    with style.look(), rc_context({"svg.hashsalt": salt}):
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    # a style sheet inside the SVG would reach the whole page; the same as inherited properties does not
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.S)
    text = text.replace("<svg ", '<svg style="stroke-linejoin:round;stroke-linecap:butt;font-family:sans-serif" ', 1)
    # a hundredth of a point is enough for coordinates; words are left alone
    text = re.sub(r'="[^"]*"', lambda attribute: re.sub(r"(\d\.\d\d)\d+", r"\1", attribute[0]), text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = text.replace("font-family: 'DejaVu Sans', sans-serif; ", "")
    text = re.sub(r'style="[^"]*"', lambda rules: rules[0].replace("; ", ";").replace(": ", ":"), text)
    text = re.sub(r'<path d="[^"]*" style="fill:none"/>', "", text)  # invisible backgrounds
    return _without_bare_groups(re.sub(r"\s*\n\s*", "\n", text).replace(">\n<", "><").strip())


def _without_bare_groups(svg: str) -> str:
    """Groups without attributes change nothing; most of matplotlib's are such."""
    kept, bare = [], []
    for part in re.split(r"(<g(?: [^>]*)?>|</g>)", svg):
        if part == "</g>":
            kept += [] if bare.pop() else [part]
        elif part.startswith("<g") and part[2:3] in " >":
            bare.append(part == "<g>")
            kept += [] if bare[-1] else [part]
        else:
            kept.append(part)
    return "".join(kept)


def data_of(drawn: Figure) -> str:
    """The numbers and words that `drawn` shows, to three significant digits."""
    lines = []
    for axes in drawn.axes:
        words = [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
        lines.append("axes: " + " | ".join(word.replace("\n", " ") for word in words if word))
        for line in axes.lines:
            x, y = line.get_data(orig=False)
            lines.append(f"  line {_name(line)}x={_numbers(x)} y={_numbers(y)}")
        for patch in axes.patches:
            if hasattr(patch, "get_bbox"):
                corners = patch.get_bbox().bounds
            else:
                corners = patch.get_patch_transform().transform(patch.get_path().vertices)
            lines.append(f"  patch {_name(patch)}{_numbers(corners)}")
        for collection in axes.collections:
            offsets = collection.get_offsets()
            scattered = isinstance(collection, PathCollection) or len(offsets) > 1
            paths = [offsets] if scattered else [path.vertices for path in collection.get_paths()]
            values = [] if collection.get_array() is None else [collection.get_array()]
            lines.append(f"  collection {_name(collection)}" + " ".join(map(_numbers, [*paths, *values])))
        for image in axes.images:
            lines.append(f"  image {_numbers(image.get_array())}")
        for text in axes.texts:
            if getattr(text, "arrow_patch", None):
                lines.append(f"  arrow {_numbers(text.xyann)} to {_numbers(text.xy)}")
            if text.get_text():
                lines.append(f"  text {text.get_text()!r}")
    return "\n".join(lines)


def _name(artist) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else f"{label!r} "


def _numbers(values: Iterable) -> str:
    array = np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan)
    return "[" + " ".join(format(value + 0.0, ".3g") for value in array.ravel()) + "]"
