"""The checks of cost/crossover: right answers pass, typical mistakes are named, junk survives."""

import pytest
import torch

from attnledger.book import check
from attnledger.book.check import crossover


def share(s, d, causal):
    return s / (1 - s) * (12 if causal else 6) * d


def tie(d, h, h_kv, d_h, d_ff, matrices):
    return (2 * d * d_h * (h + h_kv) + matrices * d * d_ff) / (h * d_h)


RIGHT = [
    ("tokens_for_share", share),
    ("tokens_for_share", lambda s, d, causal: (6 + 6 * causal) * d / (1 / s - 1)),
    ("tie_of_layer", tie),
    ("window_share", lambda w, d: w / (w + 6 * d)),
    ("window_share", lambda w, d: 1 - 24 * d * d / (24 * d * d + 4 * w * d)),
    ("attention_cheaper_below", lambda d, gates: max(0, (gates - 2) * d)),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def width_is_d(d, h, h_kv, d_h, d_ff, matrices):
    return (4 * d * d + matrices * d * d_ff) / d


def over_d(d, h, h_kv, d_h, d_ff, matrices):
    return (2 * d * d_h * (h + h_kv) + matrices * d * d_ff) / d


def over_key_heads(d, h, h_kv, d_h, d_ff, matrices):
    return tie(d, h, h_kv, d_h, d_ff, matrices) * h / h_kv


def one_kv(d, h, h_kv, d_h, d_ff, matrices):
    return (d * d_h * (2 * h + h_kv) + matrices * d * d_ff) / (h * d_h)


WRONG = [
    ("tokens_for_share", lambda s, d, causal: s * (12 if causal else 6) * d, "share of the layer"),
    ("tokens_for_share", lambda s, d, causal: share(s, d, not causal), "Twelve widths"),
    ("tokens_for_share", lambda s, d, causal: (1 - s) / s * 12 * d, "leaves 1 − s"),
    ("tie_of_layer", lambda *x: tie(*x) / 2, "bidirectional"),
    ("tie_of_layer", width_is_d, "as wide as their heads"),
    ("tie_of_layer", over_d, "not always d"),
    ("tie_of_layer", over_key_heads, "however few key heads"),
    ("tie_of_layer", one_kv, "both have a projection"),
    ("window_share", lambda w, d: w / (6 * d), "ratio to the weights"),
    ("window_share", lambda w, d: w / (w + 12 * d), "sees all w"),
    ("window_share", lambda w, d: 0.5, "Count for one token"),
    ("attention_cheaper_below", lambda d, gates: (gates - 2) * d, "answer 0"),
    ("attention_cheaper_below", lambda d, gates: gates * d, "projections"),
    ("attention_cheaper_below", lambda d, gates: max(0, 2 * (gates - 2) * d), "not half of them"),
    ("attention_cheaper_below", lambda d, gates: d, "both layers"),
]


@pytest.mark.parametrize("name, answer, says", WRONG)
def test_a_typical_mistake_is_named(name, answer, says):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert any(part in verdict.message for part in says.split("|")), verdict.message


NAMES = ["tokens_for_share", "tie_of_layer", "window_share", "attention_cheaper_below"]


def fails(*_):
    raise RuntimeError("no idea")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "junk", [None, "42", torch.zeros(3, 3, 3), {}, 7, fails, lambda *_: "x", lambda *_: torch.zeros(9)]
)
def test_junk_survives(name, junk):
    assert getattr(check, name)(junk).right is not True


@pytest.mark.parametrize("name", NAMES)
def test_an_unanswered_stub_is_open(name):
    assert getattr(check, name)(lambda *_: None).right is None


def test_every_exercise_is_listed_here(exercises_of):
    assert exercises_of(crossover) == set(NAMES)
