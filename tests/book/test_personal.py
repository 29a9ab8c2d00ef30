"""Each student's numbers: the same everywhere, their own, and the grader's id counts."""

import pytest

from attnledger.book import personal as personal_numbers

STUDENT = "ATTNLEDGER_STUDENT"

CHOICES = {"d": [4608, 5376, 6656, 7168], "heads": [36, 42, 52, 56], "page": [1700, 2300, 2900]}


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    monkeypatch.delenv(STUDENT, raising=False)


def test_without_an_id_the_first_of_each_list_is_taken_and_said_so(capsys):
    assert personal_numbers("cost", "", **CHOICES) == {"d": 4608, "heads": 36, "page": 1700}
    assert personal_numbers("cost", "  ", **CHOICES) == personal_numbers("cost", "", **CHOICES)
    assert "example numbers" in capsys.readouterr().out


def test_the_same_id_has_the_same_numbers_on_every_machine():
    """Fixed values: another Python, another order of the lists' names, must not change what a student works with."""
    assert personal_numbers("cost", "ada", **CHOICES) == {"d": 7168, "heads": 56, "page": 2300}
    backwards = dict(reversed(CHOICES.items()))
    assert personal_numbers("cost", "ada", **backwards) == personal_numbers("cost", "ada", **CHOICES)


def test_case_and_blanks_of_an_id_do_not_matter():
    assert personal_numbers("cost", " Ada ", **CHOICES) == personal_numbers("cost", "ada", **CHOICES)


def test_students_and_sets_differ_and_every_choice_is_used():
    many = [personal_numbers("cost", f"student-{i}", **CHOICES) for i in range(60)]
    assert {n["d"] for n in many} == set(CHOICES["d"]) and {n["page"] for n in many} == set(CHOICES["page"])
    assert len({tuple(n.values()) for n in many}) > 20
    other = [personal_numbers("linear", f"student-{i}", **CHOICES) for i in range(60)]
    assert sum(a == b for a, b in zip(many, other, strict=True)) < 20


def test_asked_again_without_choices_it_gives_the_numbers_anew():
    numbers = personal_numbers("cost", "ada", **CHOICES)
    kept = dict(numbers)
    numbers["d"] = 1
    assert personal_numbers("cost") == kept and personal_numbers("cost") is not personal_numbers("cost")


def test_while_grading_the_id_of_the_folder_counts(monkeypatch, capsys):
    monkeypatch.setenv(STUDENT, "Grace")
    assert personal_numbers("cost", "ada", **CHOICES) == personal_numbers("cost", "grace", **CHOICES)
    assert personal_numbers("cost") == personal_numbers("cost", "grace", **CHOICES)
    said = capsys.readouterr().out
    assert said == "Graded with the numbers of 'grace', who handed this in; the notebook says 'ada'.\n"


def test_while_grading_nothing_is_said_to_the_owner(monkeypatch, capsys):
    monkeypatch.setenv(STUDENT, "ada")
    personal_numbers("cost", "Ada", **CHOICES)
    assert capsys.readouterr().out == ""


def test_a_set_that_was_not_asked_for_and_an_empty_list_are_errors():
    with pytest.raises(ValueError, match="got 'never'"):
        personal_numbers("never")
    with pytest.raises(ValueError, match="d wants a list of values"):
        personal_numbers("cost", "ada", d=[])
