"""The tables for instructors: computed from the pages, and refused where they would promise what no page has."""

import json

import pytest

import notebooks
import pages
from attnledger.book import course

READ = "cost/softmax-attention"


def test_pages_json_is_what_the_pages_say():
    written = json.loads((notebooks.DATA / "pages.json").read_text(encoding="utf8"))
    assert written == json.loads(json.dumps(notebooks.course())), "run make notebooks"


def test_every_page_is_known_in_reading_order():
    assert list(course.pages()) == [page.short for page in pages.pages()]


def test_every_exercise_says_how_hard_it_is_and_how_long_it_takes():
    for page in pages.pages():
        found = notebooks.exercises(page)
        assert len(found) == page.source.read_text(encoding="utf8").count("{exercise}")
        assert all(exercise["minutes"] > 0 for exercise in found)


def test_minutes_are_sums_over_the_pages():
    table = course.plan(
        [{"session": "a", "pages": [READ, "cost/crossover"], "exercises": ["ex-sm-cross", "ex-xo-share"]}]
    )
    front = {page.short: page.front["minutes"] for page in pages.pages()}
    _, _, reads, practise, works = table.rows[0]
    assert reads == front[READ] + front["cost/crossover"]
    text = pages.Page(f"chapters/{READ}").source.read_text(encoding="utf8")
    assert ":label: ex-sm-cross\n*Easy, 5 minutes.*" in text and works == 10
    assert practise[0] == ("Two lengths, two widths", f"../{READ}.html#ex-sm-cross")
    assert table.rows[1][1] == f"together {course.hours(reads + works)}"


def test_all_stands_for_every_exercise_and_a_set_adds_its_minutes():
    every = course.plan([{"session": "a", "pages": [READ], "exercises": "all"}]).rows[0][4]
    assert every == course.exercise_minutes([READ]) > 0
    for each in notebooks.course()["sets"]:
        row = course.plan([{"session": "a", "pages": [READ], "set": each["part"]}]).rows[0]
        assert row[4] == each["minutes"]


@pytest.mark.parametrize(("minutes", "words"), [(0, "0 min"), (59, "59 min"), (60, "1 h"), (200, "3 h 20 min")])
def test_minutes_in_words(minutes, words):
    assert course.hours(minutes) == words


def test_a_page_that_a_plan_leans_on_is_named():
    rows = course.plan([{"session": "a", "pages": ["hybrid/layer-mix"]}]).rows
    assert rows[-1][0] == "left out, but leaned on"
    assert "../linear/delta-rule.html" in [address for _, address in rows[-1][1]]


@pytest.mark.parametrize(
    ("sessions", "error", "word"),
    [
        ([{"session": "a", "pages": ["cost/crosover"]}], LookupError, "cost/crossover"),
        ([{"session": "a", "pages": [READ], "exercises": ["ex-xo-share"]}], LookupError, "ex-xo-share"),
        ([{"session": "a", "pages": [READ], "set": "nothing"}], LookupError, "nothing"),
        ([{"session": "a", "pages": ["cost/crossover"]}, {"session": "b", "pages": [READ]}], ValueError, READ),
    ],
)
def test_a_plan_that_cannot_be_kept_is_refused(sessions, error, word):
    with pytest.raises(error, match=word):
        course.plan(sessions)


def test_a_page_with_exercises_and_no_goal_is_named():
    with pytest.raises(ValueError, match="cost/crossover"):
        course.syllabus({READ: "count"})
    with pytest.raises(LookupError, match="cost/decod"):
        course.syllabus({"cost/decod": "count"})


SLIDERS = {"beta": 1.0, "angle": 60}


def test_a_setting_leads_to_the_places_of_its_values():
    (row,) = course.settings([("so", "linear.interference", SLIDERS)]).rows
    box = next(b for b in course.page("linear/delta-rule")["sliders"] if b["figure"] == "linear.interference")
    assert [slider["name"] for slider in box["sliders"]] == ["beta", "angle"], "in the page's order"
    assert row[1][1] == f"../linear/delta-rule.html#{box['id']}=1,4"
    assert "60°" in row[2]


@pytest.mark.parametrize(
    ("figure", "values", "error", "word"),
    [
        ("linear.interferenc", SLIDERS, LookupError, "linear.interference"),
        ("linear.interference", {"beta": 1.0}, ValueError, "angle"),
        ("linear.interference", SLIDERS | {"angle": 61}, ValueError, "61"),
    ],
)
def test_a_setting_that_no_slider_has_is_refused(figure, values, error, word):
    with pytest.raises(error, match=word):
        course.settings([("so", figure, values)])


def test_a_misconception_is_answered_with_what_the_page_speaks():
    table = course.misconceptions([("Small.", "From {intro-meet} tokens on.")])
    assert table.rows[-1] == ["Small.", "From 256 tokens on.", ("intro", "../../intro.html")]


@pytest.mark.parametrize(
    ("answer", "error", "word"),
    [
        ("{intro-met}", LookupError, "intro-meet"),
        ("no number", ValueError, "none"),
        ("{intro-meet} {xo-tie-causal}", ValueError, "cost/crossover"),
    ],
)
def test_an_answer_without_a_number_of_one_page_is_refused(answer, error, word):
    with pytest.raises(error, match=word):
        course.misconceptions([("Small.", answer)])


def test_tables_escape_and_link():
    made = course.Linked("a label", ["a", "b"], ["Part & parcel", ["<x>", [("to", "../p.html#explore-1=2"), "plain"]]])
    text = made._repr_html_()
    assert "&lt;x&gt;" in text and '<a class="disabled" href="../p.html#explore-1=2">to</a><br>\nplain' in text
    assert 'colspan="2">Part &amp; parcel</th>' in text
    assert repr(made) == "a | b\nPart & parcel\n<x> | to <../p.html#explore-1=2>; plain"
