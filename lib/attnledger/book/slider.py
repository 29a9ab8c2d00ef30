"""Sliders that work in the saved page: every frame is computed, the page shows one, and a kernel recomputes.

The saved output is ``text/html`` with native range inputs, all frames and a few lines of script; without script (an
untrusted notebook) the first frame, its values and disabled sliders remain. With a kernel the same output carries an
ipywidgets box whose sliders call ``draw`` anew.
"""

import hashlib
import html
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence

from ._names import unknown
from .drawing import Drawing, Figure, load, render

MAX_FRAMES = 64

_SCRIPT = (
    # VS Code runs a script beside the output that it stood in
    "(s=>{const box=s.closest('.explore')||s.parentNode.querySelector('.explore'),"
    "inputs=[...box.querySelectorAll('input')],"
    "frames=[...box.querySelectorAll('.frame')];"
    "const show=()=>{let k=0;inputs.forEach(i=>{const v=JSON.parse(i.dataset.values),t=v[i.value];"
    "k=k*v.length+Number(i.value);i.setAttribute('aria-valuetext',t);i.nextElementSibling.textContent=t});"
    "frames.forEach((f,j)=>{f.style.display=j===k?'':'none'})};"
    "inputs.forEach(i=>{i.disabled=false;i.addEventListener('input',show);"
    "i.addEventListener('keydown',e=>e.stopPropagation())});show()})(document.currentScript)"
)


class Explorer:
    """A set of sliders over the frames that `draw` gives for every combination of the values."""

    def __init__(self, draw: Callable[..., Figure], values: dict[str, list], labels: Mapping[str, str], name: str):
        self.draw, self.values, self.labels, self.name = draw, values, labels, name
        self.frames = [self._frame(combination) for combination in itertools.product(*values.values())]

    def _frame(self, combination: Sequence) -> Drawing:
        # the values are part of the salt: two sets of sliders over one figure must not share ids
        return render(self.draw, dict(zip(self.values, combination, strict=True)), salt=f"{self.name} {self.values}")

    def saved(self) -> str:
        """All frames with native sliders, for a page without a kernel."""
        sliders = "\n".join(self._slider(name, [_text(v) for v in values]) for name, values in self.values.items())
        hidden = ' style="display:none"'
        frames = "\n".join(
            f'<div class="frame"{hidden if i else ""}>{_picture(frame)}</div>' for i, frame in enumerate(self.frames)
        )
        key = hashlib.sha256(f"{self.name} {self.values}".encode()).hexdigest()[:8]
        return f'<div class="explore" id="explore-{key}">\n{sliders}\n{frames}\n<script>{_SCRIPT}</script>\n</div>'

    def _slider(self, name: str, texts: list[str]) -> str:
        label = html.escape(self.labels.get(name, name))
        values = html.escape(json.dumps(texts, ensure_ascii=False))
        return (
            '<label style="display:flex;flex-wrap:wrap;gap:.2em .8em;align-items:center;max-width:40em">'
            f'<span style="min-width:10em">{label}</span> '
            f'<input type="range" min="0" max="{len(texts) - 1}" step="1" value="0" disabled style="flex:1 1 10em" '
            f'aria-valuetext="{html.escape(texts[0])}" data-values="{values}"> '
            f'<output style="min-width:5em">{html.escape(texts[0])}</output></label>'
        )

    def live(self) -> dict | None:
        """The view of an ipywidgets box that recomputes, or None where ipywidgets is not installed."""
        try:
            import ipywidgets
        except ImportError:
            return None
        sliders = [
            ipywidgets.SelectionSlider(
                options=[(_text(value), value) for value in values],
                description=self.labels.get(name, name),
                style={"description_width": "initial"},
                layout={"width": "30em"},
            )
            for name, values in self.values.items()
        ]
        picture = ipywidgets.HTML(_picture(self.frames[0]))

        def redraw(_change) -> None:
            picture.value = _picture(self._frame([slider.value for slider in sliders]))

        for slider in sliders:
            slider.observe(redraw, names="value")
        self._box = ipywidgets.VBox([*sliders, picture])
        return {"version_major": 2, "version_minor": 0, "model_id": self._box.model_id}

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        plain = [", ".join(f"{name} in {[_text(v) for v in values]}" for name, values in self.values.items())]
        for combination, frame in zip(itertools.product(*self.values.values()), self.frames, strict=True):
            plain.append(", ".join(_text(value) for value in combination) + f": {frame.reading}\n{frame.data}")
        bundle = {"text/html": self.saved(), "text/plain": "\n".join(plain)}
        view = self.live()
        return bundle | ({"application/vnd.jupyter.widget-view+json": view} if view else {})


def explore(draw: str | Callable[..., Figure], *, labels: Mapping[str, str] | None = None, **values) -> Explorer:
    """Sliders over a figure: ``explore("linear.crossover", n=[256, 4096], h_kv=[1, 8])``.

    `draw` is the name of a figure of the book or a function returning a matplotlib figure; each further keyword lists
    the values of one of its parameters, the first being shown first. `labels` names the sliders, with units. Raises
    ValueError without values, for an empty list and beyond 64 frames; LookupError for an unknown figure or slider.
    """
    lists = {name: [v.item() if hasattr(v, "item") else v for v in options] for name, options in values.items()}
    if not lists:
        raise ValueError("explore needs the values of at least one parameter, for example n=[256, 1024, 4096]")
    for name, options in lists.items():
        if not options:
            raise ValueError(f"explore got no values for {name!r}; it needs at least one")
    for name in labels or {}:
        if name not in lists:
            raise LookupError(unknown("slider", name, lists))
    count = math.prod(map(len, lists.values()))
    if count > MAX_FRAMES:
        sizes = " x ".join(f"{len(options)} {name}" for name, options in lists.items())
        raise ValueError(
            f"explore would draw {count} frames ({sizes}); the limit is {MAX_FRAMES}. "
            "Move a parameter to an axis or draw it as labelled lines."
        )
    name = draw if isinstance(draw, str) else getattr(draw, "__qualname__", "draw")
    return Explorer(load(draw).draw if isinstance(draw, str) else draw, lists, labels or {}, name)


def _text(value) -> str:
    if isinstance(value, (bool, str)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else format(value, ",.4g")


def _picture(frame: Drawing) -> str:
    spoken = f'\n<p class="reading">{html.escape(frame.reading)}</p>' if frame.reading else ""
    return frame.image + spoken
