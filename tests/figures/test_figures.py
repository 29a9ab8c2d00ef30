"""Every figure as a picture, every figure with words for those who cannot see it.

The hashes are of the SVG. After a wanted change: make figures, look at the picture, commit the new hash.
"""

import inspect
from pathlib import Path

import pytest

from attnledger import style
from attnledger.book import drawing

NAMES = drawing.figure_names()
HASHES = str(Path(__file__).parent / "hashes.json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.mpl_image_compare(hash_library=HASHES, deterministic=True, savefig_kwargs={"format": "svg"})
def test_figure_is_as_it_was(name):
    with style.look():
        return drawing.load(name).draw()


@pytest.mark.parametrize("name", NAMES)
def test_figure_module_keeps_its_contract(name):
    module = drawing.load(name)
    assert "Used on" in inspect.getdoc(module), "the docstring names the page that uses the figure"
    assert len(module.ALT) >= 40, "ALT says what the picture shows"
    parameters = inspect.signature(module.draw).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in parameters)


@pytest.mark.parametrize("name", NAMES)
def test_figure_text_is_legible(name):
    """A phone shows the drawing 340 pixels wide: no text under eight of them; no mathematics."""
    drawn = drawing.load(name).draw()
    drawn.canvas.draw()
    pixels_per_point = 340 / (72 * drawn.get_figwidth())
    for text in drawn.findobj(lambda artist: hasattr(artist, "get_fontsize")):
        if text.get_text():
            size = text.get_fontsize() * pixels_per_point
            assert size >= 8, f"{text.get_text()!r} has {size:.1f} pixels on a phone"
            assert "$" not in text.get_text(), text.get_text()
