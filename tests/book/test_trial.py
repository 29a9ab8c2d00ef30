"""Trying answers of a problem set: what is compared, what is said, and that no answer stops the notebook."""

import sys
import time

import numpy as np
import pytest
import torch

from attnledger.book import fresh, trial
from attnledger.book.check import _answer
from attnledger.costs import hardware, kv_bytes_per_token, models

HINT = "Look at the sign."


def double(n):
    return 2 * n


def message(verdict, right) -> str:
    assert verdict.right is right, verdict.message
    return verdict.message


def test_a_right_answer_is_right():
    assert message(trial(double, [((1,), 2), ({"n": 3}, 6)]), True) == "Right."


def test_a_wrong_one_is_told_on_which_input_and_where_to_look():
    verdict = trial(lambda n: n + 1, [((1,), 2), ((30_000,), 60_000)], hint=HINT)
    assert message(verdict, False) == f"Not yet: for n = 30,000 the answer gives 30,001, expected 60,000. {HINT}"


@pytest.mark.parametrize("answer", [None, lambda n: None, {1: 2}.get])
def test_none_is_not_answered_yet(answer):
    assert message(trial(answer, [((1,), 2), ((3,), 6)]), None).startswith("Not answered yet")


@pytest.mark.parametrize("answer", [3, "double", torch.ones(2)])
def test_a_name_that_is_no_function_any_more_is_told(answer):
    assert "a function is wanted" in message(trial(answer, [((1,), 2)]), False)


def test_whatever_an_answer_raises_becomes_a_message():
    for error in (ValueError("no"), SystemExit(3), RecursionError()):

        def raising(n, error=error):
            raise error

        assert type(error).__name__ in message(trial(raising, [((1,), 2)]), False)
    assert "TypeError" in message(trial(lambda: 2, [((1,), 2)]), False)


def test_an_endless_answer_is_stopped(monkeypatch):
    monkeypatch.setattr(_answer, "SECONDS", 0.2)

    def endless(n):
        while True:
            pass

    begin = time.monotonic()
    assert "still running" in message(trial(endless, [((1,), 2)]), False)
    assert time.monotonic() - begin < 5


def test_an_answer_may_change_what_it_is_given():
    x, y, rest = torch.ones(3), np.ones(3), [torch.ones(2), {"a": torch.ones(1)}]

    def spoiling(x, y, rest):
        x.add_(1), np.add(y, 1, out=y), rest[0].add_(1), rest[1]["a"].add_(1), rest.append(0)
        return x

    wanted = torch.full((3,), 2.0)
    assert trial(spoiling, [((x, y, rest), wanted), ((x, y, rest), wanted)]).right
    assert x.sum() == 3 and y.sum() == 3 and len(rest) == 2 and rest[0].sum() == 2 and rest[1]["a"].sum() == 1


def test_cards_and_models_are_handed_on_as_they_are():
    assert trial(lambda card, model: card is hardware.H100 and model is models.LLAMA_3_8B, [
        ((hardware.H100, models.LLAMA_3_8B), True)
    ]).right  # fmt: skip
    assert "for card = H100 SXM the" in trial(lambda card: 0, [((hardware.H100,), 1)]).message


def test_an_answer_in_parts_is_compared_part_by_part():
    wanted = (torch.tensor([1.0, 2.0]), 3, "memory")
    assert trial(lambda: ([1, 2], 3.0, " Memory "), [((), wanted)]).right
    said = message(trial(lambda: ([1, 2], 4, "memory"), [((), wanted, "the example")], hint=HINT), False)
    assert said == f"Not yet: for the example, value 2 of 3, the answer gives 4, expected 3. {HINT}"
    assert "3 values are wanted, but the answer is 2 of them" in trial(lambda: (1, 2), [((), wanted)]).message
    assert "3 values are wanted, but the answer is a int" in trial(lambda: 1, [((), wanted)]).message
    assert "value 2 of 3 is None" in message(trial(lambda: ([1, 2], None, 1), [((), wanted)]), False)
    assert trial(lambda: (None, None, None), [((), wanted)]).right is None


def test_what_is_wanted_may_be_a_function_of_the_answer():
    def sums_to_one(got):
        return None if abs(sum(got) - 1) < 1e-9 else f"the weights sum to {sum(got):g}"

    assert trial(lambda n: [1 / n] * n, [((4,), sums_to_one)]).right
    said = message(trial(lambda n: [1.0] * n, [((4,), sums_to_one)], hint=HINT), False)
    assert said == f"Not yet: for n = 4: the weights sum to 4. {HINT}"
    assert trial(lambda n: None, [((4,), sums_to_one)]).right is None


def test_the_tolerance_is_the_exercises():
    assert trial(lambda: 1.0005, [((), 1.0)], tolerance=1e-3).right
    assert trial(lambda: 1.0005, [((), 1.0)]).right is False


def test_inputs_are_named_by_the_answers_own_parameters():
    def answer(q, share, words, flag):
        return 0

    given = (torch.zeros(2, 3), 0.25, ["x"] * 40, True)
    said = trial(answer, [(given, 1)]).message
    assert "for q of shape (2, 3), share = 0.25, words = ['x', 'x'" in said and "flag = True the answer" in said
    assert len(said) < 200


# reference values


def test_a_fresh_module_is_right_whatever_was_assigned_to_the_one_in_use(monkeypatch):
    import attnledger.costs as costs

    before = {name: module for name, module in sys.modules.items() if name.startswith("attnledger")}
    monkeypatch.setattr(costs, "attention_flops", lambda *_, **__: 0)
    monkeypatch.setattr(costs.attention, "visible_pairs", lambda *_, **__: 0)
    shape = {"heads": 2, "head_dim": 8, "causal": True, "exact": True}
    assert costs.attention_flops(10, **shape) == 0
    assert fresh("attnledger.costs").attention_flops(10, **shape) == 2 * 2 * 16 * 55
    assert costs.attention_flops(10, **shape) == 0, "the module in use stays as the notebook left it"
    assert {name: module for name, module in sys.modules.items() if name.startswith("attnledger")} == before


def test_objects_of_the_two_copies_do_not_mix():
    costs = fresh("attnledger.costs")
    with pytest.raises(ValueError, match="model wants a ModelConfig"):
        costs.kv_bytes_per_token(models.LLAMA_3_8B)
    assert costs.kv_bytes_per_token(costs.models.LLAMA_3_8B) == kv_bytes_per_token(models.LLAMA_3_8B)


def test_a_missing_module_leaves_everything_in_place():
    before = {name: module for name, module in sys.modules.items() if name.startswith("attnledger")}
    with pytest.raises(ModuleNotFoundError):
        fresh("attnledger.nothing")
    assert {name: module for name, module in sys.modules.items() if name.startswith("attnledger")} == before
