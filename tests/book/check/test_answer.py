"""What all exercise checks share: no answer breaks a check, and every check answers with a message that helps."""

import re
import sys
import time
from functools import partial

import numpy as np
import pytest
import torch

from attnledger.book import check
from attnledger.book.check import _answer
from attnledger.book.check._answer import compare, exercise

HINT = "Look at the sign."


@exercise
def doubled(answer):
    """The double of a number."""
    for n in (1, 3):
        if problem := compare(answer(n), 2 * n, on=f"n = {n}", hint=HINT):
            return problem
    return None


@exercise
def the_row(answer):
    """A value, not a function."""
    return compare(answer, [1.0, 2.0, 3.0], on="the first row", hint=HINT)


def message(verdict, right: bool | None) -> str:
    assert verdict.right is right, verdict.message
    return verdict.message


# answers


def test_a_right_answer_is_right():
    assert message(doubled(lambda n: 2 * n), True) == "Right."


@pytest.mark.parametrize("answer", [None, lambda n: None, lambda n: {1: 2}.get(n)])
def test_none_is_not_answered_yet(answer):
    assert message(doubled(answer), None).startswith("Not answered yet")


def test_a_check_called_with_nothing_is_not_answered_yet():
    assert doubled().right is None


def test_a_wrong_answer_names_the_input_and_what_to_look_at():
    assert message(doubled(lambda n: n + 1), False) == f"Not yet: for n = 3 the answer gives 4, expected 6. {HINT}"


def test_a_raising_answer_is_shown_its_own_line():
    def answer(n):
        scale = n - 1
        return 2 * n / scale  # the student's line

    text = message(doubled(answer), False)
    assert text == (
        "Not yet: your answer raised ZeroDivisionError at `return 2 * n / scale  # the student's line`: "
        "division by zero"
    )


def test_the_line_is_the_students_even_where_a_library_raised():
    def answer(n):
        return torch.nn.functional.softmax("scores", dim=0)

    assert "at `return torch.nn.functional.softmax(" in message(doubled(answer), False)

    def deeper(n):
        return np.linalg.inv(np.zeros((2, 2)))

    assert "LinAlgError at `return np.linalg.inv(" in message(doubled(deeper), False)


def test_the_line_is_the_deepest_of_the_students_own():
    def helper(n):
        raise KeyError("rank")

    def answer(n):
        return helper(n)

    assert "KeyError at `raise KeyError(" in message(doubled(answer), False)


def test_an_operator_of_the_book_raises_in_the_students_line():
    from attnledger.ops.softmax import attention

    def answer(n):
        return attention(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, 4))

    assert "ValueError at `return attention(" in message(doubled(answer), False)


@pytest.mark.parametrize("answer", [5, "text", [1, 2], torch.zeros(2), np.zeros(3), object()])
def test_a_value_where_a_function_is_wanted_is_a_message(answer):
    assert "raised TypeError" in message(doubled(answer), False)


def test_a_function_of_other_arguments_is_a_message():
    assert "TypeError" in message(doubled(lambda: 1), False)


def test_a_function_where_a_value_is_wanted_is_a_message():
    assert "is wanted, but the answer is a function" in message(the_row(lambda: [1, 2, 3]), False)


@pytest.mark.parametrize("error", [RecursionError, SystemExit, StopIteration, AssertionError])
def test_whatever_an_answer_raises_becomes_a_message(error):
    def answer(n):
        raise error

    assert f"raised {error.__name__}" in message(doubled(answer), False)


def test_a_reader_can_still_interrupt():
    def answer(n):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        doubled(answer)


# answers that do not end


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(_answer, "SECONDS", 0.2)


def endless(n):
    """For the tests, five seconds are without end."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        n += 1
    return n


def test_an_endless_loop_is_cut_off(short):
    assert "Does every loop end?" in message(doubled(endless), False)


def test_an_endless_loop_that_swallows_errors_is_cut_off(short):
    def answer(n):
        try:
            return endless(n)
        except Exception:
            return 2 * n

    assert "Does every loop end?" in message(doubled(answer), False)


def test_a_busy_machine_cuts_off_no_one(short):
    """Slow by the clock alone: what counts is what the answer computes."""

    def answer(n):
        time.sleep(0.5)
        return 2 * n

    assert doubled(answer).right is True


def test_waiting_for_ever_is_cut_off(short):
    def answer(n):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            time.sleep(0.01)

    begin = time.monotonic()
    assert "Does every loop end?" in message(doubled(answer), False)
    assert time.monotonic() - begin < 10


def test_after_a_cut_off_the_next_answer_is_judged_afresh(short, monkeypatch):
    doubled(endless)
    monkeypatch.setattr(_answer, "SECONDS", 5)  # for a busy machine
    assert doubled(lambda n: 2 * n).right is True
    time.sleep(0.25)  # nothing of the first is left to strike later
    assert doubled(lambda n: 2 * n).right is True


def test_a_quick_answer_leaves_no_timer_behind(short):
    doubled(lambda n: 2 * n)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        pass


# comparing


@pytest.mark.parametrize(
    "got",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        range(1, 4),
        np.array([1, 2, 3]),
        np.array([1, 2, 3], dtype=np.float32),
        np.array([3, 2, 1])[::-1],
        np.broadcast_to(np.array([1.0, 2.0, 3.0]), (3,)),
        torch.tensor([1, 2, 3]),
        torch.tensor([1, 2, 3], dtype=torch.bfloat16),
        torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
        [torch.tensor(1.0), 2, np.float64(3)],
        [np.array(1), torch.tensor(2), 3.0],
    ],
)
def test_a_list_an_array_or_a_tensor_of_any_dtype_is_accepted(got):
    assert compare(got, [1.0, 2.0, 3.0], on="x") is None
    assert compare(got, torch.tensor([1, 2, 3]), on="x") is None


def test_rows_in_a_list_are_accepted():
    want = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert compare([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])], want, on="x") is None
    assert compare([np.array([1, 2]), [3, 4]], want, on="x") is None


@pytest.mark.parametrize(
    "got", [2, 2.0, True + True, np.int8(2), np.float16(2), torch.tensor(2), torch.tensor(2).half()]
)
def test_a_single_number_of_any_kind_is_accepted(got):
    assert compare(got, 2, on="x") is None


def test_booleans_are_compared():
    assert compare(torch.tensor([True, False]), [True, False], on="x") is None
    assert "entry [1] is 1, expected 0" in compare([True, True], [True, False], on="x")


@pytest.mark.parametrize(
    "got, want, problem",
    [
        ([1, 2], 2, "for x a single number is wanted, but the answer is a value of shape (2,)"),
        (torch.tensor([2.0]), 2, "for x a single number is wanted, but the answer is a value of shape (1,)"),
        (2, [2, 2], "for x a value of shape (2,) is wanted, but the answer is a single number"),
        ([[1, 2]], [1, 2], "for x a value of shape (2,) is wanted, but the answer is a value of shape (1, 2)"),
        ([[1, 2], [3]], [1, 2], "for x a value of shape (2,) is wanted, but the answer is a list"),
        ([torch.zeros(2), torch.zeros(3)], [1, 2], "for x a value of shape (2,) is wanted, but the answer is a list"),
        ("2", 2, "for x a single number is wanted, but the answer is a str"),
        ({"a": 1}, 2, "for x a single number is wanted, but the answer is a dict"),
        (2 + 1j, 2, "for x a single number is wanted, but the answer is a complex"),
        (torch.tensor(2 + 1j), 2, "for x a single number is wanted, but the answer is a Tensor"),
        (np.array([2j]), [2], "for x a value of shape (1,) is wanted, but the answer is a ndarray"),
        (print, 2, "for x a single number is wanted, but the answer is a builtin_function_or_method"),
    ],
)
def test_a_wrong_kind_or_shape_is_named_without_the_wanted_value(got, want, problem):
    assert compare(got, want, on="x", hint=HINT) == f"{problem}. {HINT}"


def test_a_wrong_entry_is_named_with_its_place():
    got, want = torch.zeros(2, 3), torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.25, 0.0]])
    assert compare(got, want, on="x") == "for x the entry [1, 1] is 0, expected 0.25."


def test_a_wanted_value_can_be_kept_back():
    assert compare(3, 4, on="x", reveal=False, hint=HINT) == f"for x the answer gives 3, and that is not it. {HINT}"
    assert compare([1, 2], [1, 5], on="x", reveal=False) == "for x the entry [1] is 2, and that is not it."
    assert compare([1, 5], [1, 5], on="x", reveal=False) is None


def test_large_numbers_are_readable():
    assert compare(1048576, 2097152, on="x") == "for x the answer gives 1,048,576, expected 2,097,152."
    assert compare(123456789, 123456790.0, on="x", tolerance=0) == (
        "for x the answer gives 123,456,789, expected 123,456,790."
    )
    assert compare(2**70, 2**71, on="x") == "for x the answer gives 1.18059e+21, expected 2.36118e+21."
    assert compare(1.5e15, 1e15, on="x") == "for x the answer gives 1.5e+15, expected 1e+15."
    assert compare(-0.0, 0.123456789, on="x") == "for x the answer gives 0, expected 0.123457."


@pytest.mark.parametrize("got", [float("nan"), torch.tensor(float("nan")), np.nan])
def test_nan_is_wrong(got):
    assert "gives nan, expected 2" in compare(got, 2, on="x")
    assert "entry [1] is nan" in compare([1.0, got], [1.0, 2.0], on="x")


def test_infinity_is_right_where_it_is_wanted():
    assert compare(float("inf"), float("inf"), on="x") is None
    assert compare(torch.tensor([1.0, -torch.inf]), [1.0, -float("inf")], on="x") is None
    for got in (float("-inf"), 1e300, float("nan")):
        assert compare(got, float("inf"), on="x")


def test_the_tolerance_is_relative_above_one_and_absolute_below():
    assert compare(1e6 * (1 + 5e-7), 1e6, on="x") is None
    assert compare(1e6 * (1 + 5e-6), 1e6, on="x")
    assert compare(1e-3 + 5e-7, 1e-3, on="x") is None
    assert compare(1e-3 + 5e-6, 1e-3, on="x")
    assert compare(1.01, 1.0, on="x", tolerance=0.1) is None


def test_an_empty_value_equals_an_empty_value():
    assert compare([], torch.zeros(0), on="x") is None
    assert "shape (0,)" in compare([], [1.0], on="x")


@pytest.mark.parametrize("got", ["softmax", " Softmax ", "SOFTMAX", np.str_("softmax")])
def test_a_word_is_compared_without_case_and_blanks(got):
    assert compare(got, "softmax", on="x") is None


@pytest.mark.parametrize("got", ["linear", 3, ["softmax"], True])
def test_another_word_is_not_it(got):
    problem = compare(got, "softmax", on="question 2", hint=HINT)
    assert problem == f"for question 2, {got!r} is not it. {HINT}"
    assert "expected" not in problem, "the solution is never shown"


# how it is shown


@pytest.mark.parametrize("right, kind", [(True, "right"), (False, "wrong"), (None, "open")])
def test_an_answer_shows_its_message(right, kind):
    answer = _answer.Answer(right, "a < b\nand more")
    assert repr(answer) == "a < b\nand more"
    assert answer._repr_html_() == f'<div class="answer {kind}">a &lt; b<br>and more</div>'


def test_an_exercise_keeps_its_name_and_words():
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "The double of a number.")


def test_answers_may_be_partials_and_callable_objects():
    class Doubler:
        def __call__(self, n):
            return 2 * n

    assert doubled(Doubler()).right is True
    assert doubled(partial(lambda k, n: k * n, 2)).right is True


# the package


def package(monkeypatch, folder, **modules: str) -> None:
    """A package of checks with these modules in place of the book's."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, encoding="utf8")
    monkeypatch.setattr(check, "files", lambda _: folder)
    check._exercises.cache_clear()
    monkeypatch.setattr(check, "_exercises", check._exercises.__wrapped__)


def test_an_unknown_exercise_names_the_nearest_one(monkeypatch, tmp_path):
    package(monkeypatch, tmp_path, a_page="@exercise\ndef crossover_length(answer):\n    ...\n")
    with pytest.raises(AttributeError, match="no exercise 'crossover_lenght'; did you mean 'crossover_length'"):
        check.crossover_lenght(1)


def test_an_exercise_name_stands_once_in_the_book(monkeypatch, tmp_path):
    source = "@exercise\ndef twice(answer):\n    ...\n"
    package(monkeypatch, tmp_path, one_page=source, other_page=source)
    with pytest.raises(ValueError, match="'twice' stands in one_page and in other_page"):
        dir(check)


def test_helpers_and_unmarked_functions_are_no_exercises(monkeypatch, tmp_path):
    marked = "@exercise\ndef {}(answer):\n    ...\n\n\ndef helper(x):\n    ...\n"
    package(monkeypatch, tmp_path, _answer=marked.format("hidden"), page=marked.format("shown"))
    assert dir(check) == ["shown"]


def test_a_page_loads_only_its_own_checks(monkeypatch):
    exercises = check._exercises()
    modules = {f"{check.__name__}.{module}" for module in exercises.values()}
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(check, name.rpartition(".")[2], raising=False)
    name, module = next(iter(exercises.items()))
    assert callable(getattr(check, name))
    assert modules & set(sys.modules) == {f"{check.__name__}.{module}"}


def test_the_books_exercises_are_found_and_open():
    """Every stub of the book returns None: *Run all* must get through."""
    exercises = check._exercises()
    assert exercises
    assert not set(exercises) & set(exercises.values()), "an exercise with a module's name would be hidden by it"
    for name in exercises:
        assert getattr(check, name)(None).right is None
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
