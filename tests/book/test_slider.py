"""Sliders work in the saved page without a kernel, and recompute with one."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from attnledger import style
from attnledger.book import explore, slider
from attnledger.book.drawing import render

SAMPLE = Path(__file__).parents[1] / "sample"
WIDGET = "application/vnd.jupyter.widget-view+json"
VOID = {"img", "input"}


@pytest.fixture(autouse=True)
def sample_figures(monkeypatch):
    """The sample book's figure ``part.slope`` beside the figures of the book."""
    monkeypatch.syspath_prepend(str(SAMPLE))
    yield
    for name in [name for name in sys.modules if name.startswith("figures_src.part")]:
        del sys.modules[name]


def points(*, n=1, kind="dots"):
    """A picture of n points."""
    drawn, axes = style.subplots()
    axes.plot(range(n), range(n), "o")
    axes.set_title(kind)
    return drawn


class Page(HTMLParser):
    """The elements of a saved slider: (tag, attributes, tags around it, words inside it); every tag is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[dict] = []
        self.elements: list[dict] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {[element['tag'] for element in self.open]}"

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "around": [e["tag"] for e in self.open], "words": "", **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1]["tag"] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["words"] += data

    def all(self, tag: str) -> list[dict]:
        return [element for element in self.elements if element["tag"] == tag]

    @property
    def frames(self) -> list[dict]:
        return [element for element in self.all("div") if element.get("class") == "frame"]


def saved(*arguments, **values) -> Page:
    return Page(explore(*arguments, **values).saved())


# what is refused


def test_without_values_there_is_nothing_to_slide():
    with pytest.raises(ValueError, match="at least one parameter"):
        explore("part.slope")


def test_an_empty_list_is_refused_by_name():
    with pytest.raises(ValueError, match="no values for 'kind'"):
        explore(points, n=[1, 2], kind=[])


def test_sixty_four_frames_are_drawn_and_no_more(monkeypatch):
    monkeypatch.setattr(slider, "render", lambda draw, params, salt: params)
    with pytest.raises(ValueError, match=r"65 frames \(13 n x 5 kind\); the limit is 64"):
        explore(points, n=range(13), kind=list("abcde"))
    assert len(explore(points, n=range(8), kind=list("abcdefgh")).frames) == 64


blank = style.subplots(width=0.5, height=0.5)[0]


def test_an_unknown_figure_names_the_nearest_one():
    with pytest.raises(LookupError, match=r"no figure 'part\.slop'; did you mean 'part\.slope'"):
        explore("part.slop", slope=[1.0])


def test_a_label_of_no_slider_names_the_nearest_one():
    with pytest.raises(LookupError, match="no slider 'slop'; did you mean 'slope'"):
        explore("part.slope", slope=[1.0], labels={"slop": "steepness"})


# the saved page


def test_the_saved_page_is_well_formed():
    page = saved("part.slope", slope=[1.0, 2.0, 3.0])
    assert len(page.frames) == len(page.all("img")) == 3
    assert len(page.all("input")) == 1 and len(page.all("script")) == 1


def test_the_first_values_are_shown_first():
    page = saved("part.slope", slope=[3.0, 1.0, 2.0])
    assert page.frames[0]["words"].strip() == "After three steps the line stands at 9."
    (moved,) = page.all("input")
    assert (moved["value"], moved["aria-valuetext"]) == ("0", "3")
    assert [output["words"] for output in page.all("output")] == ["3"]


def test_every_frame_but_the_first_is_hidden():
    first, *others = saved(points, n=[1, 2], kind=["dots", "more"]).frames
    assert "style" not in first
    assert len(others) == 3 and all(frame["style"] == "display:none" for frame in others)


def test_frames_come_in_the_order_in_which_the_script_counts():
    """The last slider turns fastest: frame = index of the first times the length of the second, and so on."""
    page = saved(points, n=[1, 2], kind=["dots", "more", "many"])
    titles = [re.search(r"dots|more|many", unquote(image["src"]))[0] for image in page.all("img")]
    assert titles == ["dots", "more", "many"] * 2
    lengths = [len(json.loads(slider["data-values"])) for slider in page.all("input")]
    assert lengths == [2, 3] and "k=k*v.length+Number(i.value)" in page.all("script")[0]["words"]


def test_sliders_are_native_disabled_without_script_and_reach_every_value():
    (moved,) = saved("part.slope", slope=[1.0, 2.0, 3.0]).all("input")
    assert "disabled" in moved, "without script a slider that does nothing must not look alive"
    assert (moved["type"], moved["min"], moved["max"], moved["step"]) == ("range", "0", "2", "1")
    assert "i.disabled=false" in saved("part.slope", slope=[1.0]).all("script")[0]["words"]


def test_every_slider_is_labelled():
    page = saved(points, n=[1, 2], kind=["a"], labels={"n": "context length n (tokens)"})
    assert all("label" in each["around"] for each in page.all("input"))
    assert [span["words"] for span in page.all("span")] == ["context length n (tokens)", "kind"]


def test_labels_and_values_are_escaped():
    page = saved(points, n=[1], kind=['<b>"bold"</b> & more'], labels={"n": "n < 3 & <i>odd</i>"})
    assert page.all("span")[0]["words"] == "n < 3 & <i>odd</i>"
    moved = page.all("input")[1]
    assert json.loads(moved["data-values"]) == [moved["aria-valuetext"]] == ['<b>"bold"</b> & more']
    assert not page.all("b") and not page.all("i")


@pytest.mark.parametrize(
    "values, texts",
    [
        ([256, 65536], ["256", "65,536"]),
        (np.array([256, 65536]), ["256", "65,536"]),
        ([0.123456, 1.0, 4096.0], ["0.1235", "1", "4,096"]),
        (["bf16", "fp32"], ["bf16", "fp32"]),
        ([True, False], ["True", "False"]),
    ],
)
def test_values_read_as_in_the_book(values, texts):
    (moved,) = saved(lambda *, value: blank, value=values).all("input")
    assert json.loads(moved["data-values"]) == texts


def test_every_frame_has_its_own_alt_text():
    page = saved("part.slope", slope=[1.0, 2.0])
    assert [image["alt"] for image in page.all("img")] == [
        "A line through the origin with slope 1.0 After three steps the line stands at 3.",
        "A line through the origin with slope 2.0 After three steps the line stands at 6.",
    ]


# ids: on the site the frames are inline SVG of one page


def ids(svg: str) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', svg))


def on_equal_axes(*, n):
    drawn = points(n=n)
    drawn.axes[0].set(xlim=(0, 9), ylim=(0, 9))
    return drawn


def test_no_frame_is_clipped_by_another():
    """A browser ignores the clip path of a hidden frame, so a shown frame must never refer to one."""
    frames = [frame.svg for frame in explore(on_equal_axes, n=[1, 2, 3]).frames]
    for i, svg in enumerate(frames):
        references = set(re.findall(r"[(\"]#([^)\"]+)", svg))
        assert "<clipPath" in svg and references <= ids(svg), "a frame refers to nothing outside itself"
        for other in frames[i + 1 :]:
            assert not ids(svg) & ids(other)


def test_no_frame_is_clipped_by_another_set_or_a_figure():
    sets = [explore(on_equal_axes, n=[1, 2]), explore(on_equal_axes, n=[2, 1])]
    svgs = [frame.svg for explorer in sets for frame in explorer.frames]
    svgs.append(render(on_equal_axes, {"n": 1}, salt="on_equal_axes").svg)
    found = [name for svg in svgs for name in ids(svg)]
    assert len(found) == len(set(found))


def test_two_sets_on_a_page_have_different_ids():
    one, other = saved("part.slope", slope=[1.0]), saved("part.slope", slope=[2.0])
    assert one.all("div")[0]["id"] != other.all("div")[0]["id"]


def test_a_set_is_the_same_bytes_on_repetition():
    assert explore(points, n=[2, 3]).saved() == explore(points, n=[2, 3]).saved()


# the text of the output


def test_the_text_names_every_combination_with_its_data():
    plain = explore("part.slope", slope=[1.0, 3.0])._repr_mimebundle_()["text/plain"]
    assert plain.splitlines() == [
        "slope in ['1', '3']",
        "1: After three steps the line stands at 3.",
        "axes: steps",
        "  line x=[0 1 2 3] y=[0 1 2 3]",
        "3: After three steps the line stands at 9.",
        "axes: steps",
        "  line x=[0 1 2 3] y=[0 3 6 9]",
    ]


# with a kernel


def live(explorer):
    """The widgets of the live view: sliders, picture."""
    view = explorer._repr_mimebundle_()[WIDGET]
    assert view["model_id"] == explorer._box.model_id and view["version_major"] == 2
    *sliders, picture = explorer._box.children
    return sliders, picture


def test_the_live_view_shows_the_first_frame_and_the_same_labels():
    (n, kind), picture = live(explore(points, n=[3, 2000], kind=["a", "b"], labels={"n": "tokens n"}))
    assert (n.description, kind.description) == ("tokens n", "kind")
    assert [text for text, _ in n.options] == ["3", "2,000"] and n.value == 3
    assert render(points, {"n": 3, "kind": "a"}, salt="any").alt in picture.value


def test_moving_a_live_slider_draws_anew():
    calls = []

    def draw(*, n, m):
        """A line to n and m."""
        calls.append((n, m))
        drawn, axes = style.subplots()
        axes.plot([0, 1], [n, m])
        return drawn

    explorer = explore(draw, n=[1, 2], m=[5, 6, 7])
    (n, m), picture = live(explorer)
    before = picture.value
    calls.clear()
    n.value = 2
    m.value = 7
    assert calls == [(2, 5), (2, 7)]
    assert picture.value != before
    assert picture.value == explorer.frames[-1].image, "what is recomputed is what was saved"


def test_a_live_slider_moves_the_reading():
    (slope,), picture = live(explore("part.slope", slope=[1.0, 3.0]))
    assert "stands at 3." in picture.value
    slope.value = 3.0
    assert '<p class="reading">After three steps the line stands at 9.</p>' in picture.value


def test_without_ipywidgets_the_saved_page_remains(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    bundle = explore("part.slope", slope=[1.0, 3.0])._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}


# a function instead of a figure of the book


def test_a_plain_function_is_explored():
    page = saved(points, n=[1, 2])
    assert [image["alt"] for image in page.all("img")] == ["A picture of n points."] * 2


def test_a_function_without_words_is_explored():
    assert len(saved(lambda *, n: blank, n=[1, 2]).frames) == 2


def test_a_function_that_draws_nothing_is_refused():
    with pytest.raises(ValueError, match="must return a matplotlib Figure, not NoneType"):
        explore(lambda *, n: None, n=[1])
