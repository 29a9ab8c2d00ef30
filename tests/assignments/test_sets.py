"""Each problem set, without nbgrader: its solutions pass, stubs do not, and typical mistakes cost what they should."""

import re

import nbformat
import pytest
from paper import points, run_cells, wrong

from assignments import HIDDEN, STUB, answered, hidden_lines, id_of, kind_of, leaks, sets, solutions, stubs
from pages import BookError, pages

SETS = sets()
MISTAKES = [(part, name) for part in SETS for name in wrong(part)]
parts = pytest.mark.parametrize("part", SETS)


def full(part: str) -> dict[str, float]:
    return {test: SETS[part].points[test] for test in SETS[part].ids("test")}


@parts
def test_the_solutions_get_full_points(part):
    raised = run_cells(answered(SETS[part].complete_notebook(), solutions(SETS[part])))
    assert not {name: error for name, error in raised.items() if error}


@parts
@pytest.mark.parametrize("student", ["ada", "grace", "emmy"])
def test_the_solutions_get_full_points_with_anyones_numbers(part, student):
    assert points(SETS[part], answered(SETS[part].complete_notebook(), solutions(SETS[part])), student) == full(part)


@parts
def test_an_empty_submission_gets_nothing_and_says_so_at_every_task(part):
    notebook = answered(SETS[part].complete_notebook(), stubs(SETS[part]))
    raised = run_cells(notebook)
    assert points(SETS[part], notebook) == dict.fromkeys(full(part), 0)
    messages = [str(raised[test]) for test in SETS[part].ids("test")]
    assert all(message.startswith("Not answered yet") for message in messages), messages


@parts
def test_the_release_runs_to_its_end_without_an_answer(part):
    """What stands outside the marks raises nothing: *Run all* gets through."""
    notebook = answered(SETS[part].complete_notebook(), stubs(SETS[part]))
    for cell in notebook.cells:
        cell.source = re.sub(r"^### BEGIN HIDDEN.*?^### END HIDDEN TESTS$", "", cell.source, flags=re.M | re.S)
    assert not {name: error for name, error in run_cells(notebook).items() if error}


@pytest.mark.parametrize("part, name", MISTAKES)
def test_a_typical_mistake_costs_its_points(part, name):
    """That it costs no others is tried with nbgrader, where every test of the set is run."""
    answers, cost = wrong(part)[name]
    notebook = answered(SETS[part].complete_notebook(), solutions(SETS[part]) | answers)
    tried = [test for test in full(part) if SETS[part].answer_of(test) in answers]
    notebook.cells = [cell for cell in notebook.cells if kind_of(cell) != "test" or id_of(cell) in tried]
    assert points(SETS[part], notebook) == {test: cost.get(test, full(part)[test]) for test in tried}
    assert set(cost) <= set(tried)


@parts
def test_a_set_has_three_typical_mistakes_that_cost_something(part):
    mistakes = wrong(part).values()
    assert len(mistakes) >= 3
    assert all(full(part) | cost != full(part) for _, cost in mistakes)


@parts
def test_a_set_is_of_the_promised_size(part):
    problems = SETS[part]
    assert 5 <= len(problems.ids("answer")) <= 8 and len(problems.ids("written")) == 1
    assert 60 <= problems.front["minutes"] <= 120 and problems.front["title"] == problems.title
    tasks = re.findall(r"^\*.*?(\d+) minutes", problems.source.read_text(encoding="utf8"), re.M)
    assert len(tasks) == len(problems.ids("answer")) + 1 and sum(map(int, tasks)) <= problems.front["minutes"] + 10
    worth = re.findall(r"^\*.*?(\d+) points", problems.source.read_text(encoding="utf8"), re.M)
    assert sum(map(int, worth)) == sum(problems.points.values()), "the tasks' headings promise other points"


@parts
def test_every_test_insists_on_what_it_shows(part):
    """Without it a visible case could fail and the points be given all the same."""
    for cell in SETS[part].cells:
        if kind_of(cell) == "test":
            assert "assert verdict.right, verdict.message" in hidden_lines(cell.source)[0], id_of(cell)


@parts
def test_what_students_get_holds_no_line_between_marks_of_any_set_nor_of_a_pages_solutions(part):
    notebook = answered(SETS[part].complete_notebook(), stubs(SETS[part]))
    for cell in notebook.cells:
        cell.source = HIDDEN.sub("", cell.source)
    assert not leaks(notebook, SETS.values())
    outside = {line.strip() for page in pages() for cell in page.notebook.cells for line in lines(cell, solution=False)}
    inside = {line for page in pages() for cell in page.notebook.cells for line in lines(cell, solution=True)}
    shown = {line.strip() for cell in notebook.cells for line in cell.source.splitlines() if len(line) > 20}
    assert not shown & (inside - outside)


def lines(cell, *, solution: bool) -> list[str]:
    tagged = "solution" in cell.metadata.get("tags", [])
    return [line.strip() for line in cell.source.splitlines()] if tagged == solution else []


def test_a_leak_is_found_in_text_in_metadata_and_in_outputs():
    problems = SETS["cost"]
    line = next(line for line in hidden_lines("\n".join(c.source for c in problems.cells)) if len(line) > 20)
    notebook = answered(problems.complete_notebook(), stubs(problems))
    for cell in notebook.cells:
        cell.source = HIDDEN.sub("", cell.source)
    assert not leaks(notebook, [problems])
    for place in (notebook.metadata, notebook.cells[0].metadata):
        place["trace"] = [f"before\n  {line}\nafter"]
        assert leaks(notebook, [problems]) == [line]
        del place["trace"]
    notebook.cells[3].outputs = [nbformat.v4.new_output("stream", text=line)]
    assert leaks(notebook, [problems]) == [line]


# what a set may look like

HEAD = """\
---
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A set

```{code-cell} ipython3
---
nbgrader: {grade_id: tiny-setup, locked: true}
---
from attnledger.book import personal, trial
```

```{code-cell} ipython3
---
nbgrader: {grade_id: tiny-student, solution: true}
---
student = ""
```

```{code-cell} ipython3
---
nbgrader: {grade_id: tiny-numbers, locked: true}
---
numbers = personal("tiny", student, n=[3, 4])
```

```{code-cell} ipython3
---
nbgrader: {grade_id: tiny-1-double, solution: true}
---
def double(n):
    ### BEGIN SOLUTION
    return 2 * n
    ### END SOLUTION
```

```{code-cell} ipython3
---
nbgrader: {grade_id: tiny-1-double-test, grade: true, locked: true, points: 2}
---
verdict = trial(double, [((1,), 2)])
verdict
### BEGIN HIDDEN TESTS
assert verdict.right, verdict.message
### END HIDDEN TESTS
```
"""


def tiny(tmp_path, monkeypatch, *changes: tuple[str, str]):
    import assignments

    text = HEAD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "assignments").mkdir()
    (tmp_path / "assignments" / "tiny.md").write_text(text, encoding="utf8")
    monkeypatch.setattr("pages.ROOT", tmp_path)
    return assignments.ProblemSet("assignments/tiny")


def test_a_well_formed_set_is_read(tmp_path, monkeypatch):
    problems = tiny(tmp_path, monkeypatch)
    assert (problems.ids("answer"), problems.points) == (["tiny-1-double"], {"tiny-1-double-test": 2})
    assert problems.answer_of("tiny-1-double-test") == "tiny-1-double"
    assert stubs(problems) == {"tiny-1-double": f"def double(n):\n    {STUB}"}
    assert solutions(problems) == {"tiny-1-double": "def double(n):\n    return 2 * n"}


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("tiny-1-double-test", "tiny-2-double-test", "no answer cell has a name that it begins with"),
        ("tiny-1-double-test", "tiny-1-double", "stands twice"),
        ("tiny-numbers", "cost-numbers", "does not begin with tiny-"),
        ("tiny-numbers", "tiny-more", "not setup, student, numbers"),
        ("locked: true, points: 2", "locked: true", "no points"),
        ("    ### END SOLUTION\n", "", "solution marks belong into an answer cell, one pair each"),
        ("### END HIDDEN TESTS\n", "", "hidden tests belong into a test cell, one pair each"),
        ("### END HIDDEN TESTS\n", "### END HIDDEN TESTS\n### BEGIN HIDDEN TESTS\n", "one pair each"),
        ("from attnledger", "### BEGIN SOLUTION\n### END SOLUTION\nfrom attnledger", "solution marks belong"),
        ("grade_id: tiny-setup, locked", "grade_id: tiny-setup, points: 1, colour: true, locked", "knows no colour"),
        ("---\nnbgrader: {grade_id: tiny-numbers, locked: true}\n---\n", "", "not setup, student, numbers"),
        ("grade: true, locked: true, points: 2", "locked: true", "hidden tests belong into a test cell"),
    ],
)
def test_what_an_author_has_to_mend_is_named(tmp_path, monkeypatch, old, new, problem):
    with pytest.raises(BookError, match=problem):
        assert tiny(tmp_path, monkeypatch, (old, new)).cells
