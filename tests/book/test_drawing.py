"""Figures as pages show them: the same bytes everywhere, words for every picture, and the drawn numbers as text."""

import hashlib
import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from attnledger import style
from attnledger.book import drawing, explore, figure

SAMPLE = Path(__file__).parents[1] / "sample"


@pytest.fixture(autouse=True)
def sample_figures(monkeypatch):
    """The sample book's figure ``part.slope`` beside the figures of the book."""
    monkeypatch.syspath_prepend(str(SAMPLE))
    yield
    for name in [name for name in sys.modules if name.startswith("figures_src.part")]:
        del sys.modules[name]


def own_figure(monkeypatch, folder: Path, source: str) -> None:
    """A figure ``own.drawn`` with this source."""
    (folder / "figures_src" / "own").mkdir(parents=True)
    (folder / "figures_src" / "own" / "drawn.py").write_text(source, encoding="utf8")
    monkeypatch.syspath_prepend(str(folder))
    for name in ("figures_src.own", "figures_src.own.drawn"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def rendered(paint, alt: str = "", **params) -> drawing.Drawing:
    """What `paint` puts on empty axes."""

    def picture(**values):
        drawn, axes = style.subplots()
        paint(axes, **values)
        return drawn

    picture.__doc__ = alt
    return drawing.render(picture, params, salt="test")


# names


@pytest.mark.parametrize(
    "wrong, near",
    [
        ("part.slop", "part.slope"),
        ("prat.slope", "part.slope"),
        ("linear.crosover", "linear.crossover"),
        ("part", "part.slope"),
        ("part.slope.draw", "part.slope"),
    ],
)
def test_an_unknown_figure_names_the_nearest_one(wrong, near):
    with pytest.raises(LookupError, match=rf"no figure '{re.escape(wrong)}'; did you mean '{re.escape(near)}'"):
        figure(wrong)


def test_a_figure_that_lacks_a_library_says_which(monkeypatch, tmp_path):
    own_figure(monkeypatch, tmp_path, "import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        figure("own.drawn")


def test_a_wrong_parameter_is_refused_by_name():
    with pytest.raises(TypeError, match="slop"):
        figure("part.slope", slop=2)


def test_draw_must_return_a_figure():
    with pytest.raises(ValueError, match=r"'own\.name' must return a matplotlib Figure, not list"):
        drawing.render(lambda: [1], {}, salt="own.name")


# the same bytes

_DIGESTS = """
import hashlib, json, sys
from attnledger.book import explore, figure
shown = [figure("part.slope").image, figure("linear.crossover").image, explore("part.slope", slope=[1.0, 2.0]).saved()]
print(json.dumps([hashlib.sha256(text.encode()).hexdigest() for text in shown]))
"""


def digests() -> list[str]:
    shown = [figure("part.slope").image, figure("linear.crossover").image]
    shown.append(explore("part.slope", slope=[1.0, 2.0]).saved())
    return [hashlib.sha256(text.encode()).hexdigest() for text in shown]


def test_drawing_again_gives_the_same_bytes():
    first = digests()
    assert digests() == first


def test_drawing_does_not_depend_on_the_readers_settings():
    first = digests()
    with matplotlib.rc_context({"lines.linewidth": 7, "svg.hashsalt": "mine", "font.size": 20, "axes.grid": True}):
        assert digests() == first


def test_drawing_leaves_the_readers_settings_alone():
    before = matplotlib.rcParams.copy()
    digests()
    assert matplotlib.rcParams == before


def test_another_process_draws_the_same_bytes():
    """With another hash seed, so that no order of a set or address of an object reaches a drawing."""
    env = os.environ | {"PYTHONHASHSEED": "4242"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SAMPLE), env.get("PYTHONPATH")]))
    result = subprocess.run([sys.executable, "-c", _DIGESTS], env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == digests()


def test_a_drawing_carries_no_date_and_no_programs_name():
    svg = figure("part.slope").svg
    for trace in ("<metadata", "dc:", "<!--", "matplotlib.org", "<?xml", "<!DOCTYPE"):
        assert trace not in svg


# the SVG


def test_a_drawing_is_well_formed_and_its_text_is_text():
    root = ElementTree.fromstring(figure("part.slope").svg)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "steps" in words


def test_a_drawing_has_no_style_sheet_that_would_reach_the_page():
    assert "<style" not in figure("part.slope").svg


def test_every_id_is_used_and_every_reference_has_its_id():
    for drawn in (figure("part.slope"), figure("linear.crossover")):
        ids, references = set(re.findall(r'\bid="([^"]+)"', drawn.svg)), set(re.findall(r"[(\"]#([^)\"]+)", drawn.svg))
        assert ids and ids == references


def test_two_drawings_share_no_id():
    """Inlined on one page, the second would be clipped by the first, and vanish with it."""

    def on_equal_axes(axes, a):
        axes.plot([0, 1], [0, a])
        axes.set_ylim(0, 10)

    one, other = (set(re.findall(r'\bid="([^"]+)"', rendered(on_equal_axes, a=a).svg)) for a in (1, 2))
    assert one and other and not one & other


def test_ink_can_follow_the_theme_and_the_background_is_transparent():
    svg = figure("part.slope").svg
    assert style.INK in svg, "axes and words are drawn in the ink that the site replaces"
    assert "#ffffff" not in svg and "#000000" not in svg


# the image


class Images(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.found: list[dict] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.found.append(dict(attributes))


def test_the_image_holds_the_svg():
    drawn = figure("part.slope")
    (image,) = Images(drawn.image).found
    assert unquote(image["src"].removeprefix("data:image/svg+xml,")) == drawn.svg
    assert not re.search(r'[#%<>"&](?![0-9A-F]{2})', image["src"]), "what ends or changes an address is escaped"


def test_the_image_is_a_quarter_larger_than_drawn():
    (image,) = Images(figure("part.slope").image).found
    assert int(image["width"]) == 5.0 * 96 * 1.25


def test_the_output_has_the_image_and_the_data():
    drawn = figure("part.slope")
    assert drawn._repr_mimebundle_() == {"text/html": drawn.image, "text/plain": drawn.data}


# alt text


def test_alt_names_the_default_parameters():
    assert figure("part.slope").alt == "A line through the origin with slope 2.0"


def test_alt_names_the_parameters_given():
    assert figure("part.slope", slope=3.5).alt == "A line through the origin with slope 3.5"


def test_the_reading_stands_in_the_image_for_those_who_cannot_see_it():
    (image,) = Images(figure("part.slope", slope=3.0).image).found
    assert image["alt"].endswith("slope 3.0 After three steps the line stands at 9.")


def test_a_brace_that_is_no_parameter_stays():
    assert rendered(lambda axes, n: None, alt="{n} tokens of {other}", n=7).alt == "7 tokens of {other}"


def test_the_lines_of_a_long_alt_are_joined():
    assert rendered(lambda axes: None, alt="One line,\n    and another.").alt == "One line, and another."


def test_alt_is_escaped():
    drawn = rendered(lambda axes: None, alt='f(x) < "y" & <b>z</b>')
    (image,) = Images(drawn.image).found
    assert image["alt"] == 'f(x) < "y" & <b>z</b>'
    assert html.escape(drawn.alt) in drawn.image and "<b>" not in drawn.image


def test_a_plain_function_named_draw_takes_its_words_from_beside_it(monkeypatch, tmp_path):
    source = (
        "from attnledger import style\n"
        "ALT = 'beside'\n"
        "def draw():\n    return style.subplots()[0]\n"
        "def other():\n    'own words'\n    return style.subplots()[0]\n"
    )
    own_figure(monkeypatch, tmp_path, source)
    module = drawing.load("own.drawn")
    assert drawing.render(module.draw, {}, salt="a").alt == "beside"
    assert drawing.render(module.other, {}, salt="a").alt == "own words"


# the data

KINDS = {
    "line": lambda axes, a: axes.plot([0, 1], [a, 2]),
    "line over words": lambda axes, a: axes.plot(["few", "many"], [a, 2]),
    "level line": lambda axes, a: axes.axhline(a),
    "bar": lambda axes, a: axes.bar(["few", "many"], [a, 2]),
    "points": lambda axes, a: axes.scatter([1, 2, 3], [a, 2, 3]),
    "one point": lambda axes, a: axes.scatter([1], [a]),
    "colours of points": lambda axes, a: axes.scatter([1, 2], [1, 2], c=[a, 2]),
    "area": lambda axes, a: axes.fill_between([0, 1], [0, 0], [a, 2]),
    "segments": lambda axes, a: axes.hlines([a, 2], 0, 1),
    "image": lambda axes, a: axes.imshow([[a, 2], [3, 4]]),
    "matrix": lambda axes, a: style.matrix(axes, [[a, 2], [3, 4]], text=False),
    "mesh": lambda axes, a: axes.pcolormesh([[a, 2], [3, 4]]),
    "circle": lambda axes, a: axes.add_patch(matplotlib.patches.Circle((a, 2))),
    "arrow": lambda axes, a: axes.annotate("", (a, 2), (0, 0), arrowprops={"arrowstyle": "->"}),
    "word": lambda axes, a: axes.text(0, 0, f"{a} bytes"),
    "title": lambda axes, a: axes.set_title(f"{a} bytes"),
    "axis": lambda axes, a: axes.set_xlabel(f"in steps of {a}"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_number_changes_the_data(kind):
    one, other = rendered(KINDS[kind], a=1.25).data, rendered(KINDS[kind], a=1.5).data
    assert "1.25" in one and one != other


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("word", "title", "axis")])
def test_the_last_bits_of_a_number_do_not_change_the_data(kind):
    assert rendered(KINDS[kind], a=1.25).data == rendered(KINDS[kind], a=1.25 * (1 + 1e-9)).data


def test_the_data_have_three_significant_digits():
    drawn = rendered(lambda axes: axes.plot([0.00012345, 123456], [-9.8765, 0], label="loss"))
    assert drawn.data == "axes: \n  line 'loss' x=[0.000123 1.23e+05] y=[-9.88 0]"


def test_the_data_name_every_axes_and_word():
    def picture():
        drawn, (left, right) = style.subplots(1, 2)
        left.set(title="left", xlabel="n", ylabel="bytes\nper token")
        right.text(0, 0, "here")
        return drawn

    assert drawing.render(picture, {}, salt="two").data == "axes: left | n | bytes per token\naxes: \n  text 'here'"


def test_data_that_are_masked_or_missing_are_not_numbers():
    values = np.ma.masked_equal([1.0, 2.0, np.nan], 2.0)
    assert "y=[1 nan nan]" in rendered(lambda axes: axes.plot([0, 1, 2], values)).data
    assert "image [1 nan nan]" in rendered(lambda axes: axes.imshow(values[None])).data


def test_there_is_no_negative_zero():
    assert "y=[0 0]" in rendered(lambda axes: axes.plot([0, 1], [0.0, -0.0])).data
