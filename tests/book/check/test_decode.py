"""The checks of cost/decode: right answers pass, the usual wrong ones get a message that helps."""

import math

import pytest
import torch

from attnledger.book import check


def count(d, h, g, d_ff, s):
    weights, cache = 2 * d * d + 2 * d * g * (d // h) + 3 * d * d_ff, 2 * s * g * (d // h)
    return weights + cache, 2 * weights + 2 * cache * (h // g)


def count_as_mha(d, h, g, d_ff, s):
    weights, cache = 4 * d * d + 3 * d * d_ff, 2 * s * d
    return weights + cache, 2 * weights + 2 * cache


def count_saved_flop(d, h, g, d_ff, s):
    numbers, _ = count(d, h, g, d_ff, s)
    return numbers, 2 * numbers


def two_matrices(d, h, g, d_ff, s):
    numbers, flops = count(d, h, g, d_ff, s)
    return numbers - d * d_ff, flops - 2 * d * d_ff


def floor(weights, per_token, lengths, bandwidth):
    seconds = (weights + per_token * sum(lengths)) / bandwidth
    return seconds, len(lengths) / seconds


def weights_for_each(weights, per_token, lengths, bandwidth):
    seconds = sum(weights + per_token * n for n in lengths) / bandwidth
    return seconds, len(lengths) / seconds


def longest_only(weights, per_token, lengths, bandwidth):
    seconds = (weights + per_token * max(lengths)) / bandwidth
    return seconds, len(lengths) / seconds


def one_token(weights, per_token, lengths, bandwidth):
    seconds, _ = floor(weights, per_token, lengths, bandwidth)
    return seconds, 1 / seconds


def fill(parameters, f, kappa, s, ridge):
    gain = 2 * parameters + s * f - ridge * s * kappa
    return math.ceil(2 * parameters * ridge / gain) if gain > 0 else math.inf


def fill_without_infinity(parameters, f, kappa, s, ridge):
    gain = 2 * parameters + s * f - ridge * s * kappa
    return math.ceil(2 * parameters * ridge / gain) if gain else math.inf


RIGHT = [
    ("count_a_step", count),
    ("batch_floor", floor),
    ("conversations_to_fill", fill),
    ("tokens_per_step", lambda a, gamma: sum(a**j for j in range(gamma + 1))),
    ("share_of_floor", lambda ms, fetched, copied: 1e3 * fetched / copied / ms),
]

WRONG = [
    ("count_a_step", count_as_mha, "depend on g"),
    ("count_a_step", count_saved_flop, "h/g query heads"),
    ("count_a_step", two_matrices, "which on d_ff"),
    ("count_a_step", lambda *a: count(*a)[0], "two things"),
    ("batch_floor", weights_for_each, "weights are read once"),
    ("batch_floor", longest_only, "its own length"),
    ("batch_floor", one_token, "one token to each conversation"),
    ("batch_floor", lambda *a: floor(*a)[0], "two things"),
    ("conversations_to_fill", lambda p, f, kappa, s, ridge: math.ceil(ridge), "reach R"),
    ("conversations_to_fill", fill_without_infinity, "factor of b"),
    ("conversations_to_fill", lambda *a: fill(*a) - 0.5, "is whole"),
    ("tokens_per_step", lambda a, gamma: 1 + a * gamma, "in a row"),
    ("tokens_per_step", lambda a, gamma: sum(a**j for j in range(1, gamma + 1)), "own token counts"),
    ("tokens_per_step", lambda a, gamma: sum(a**j for j in range(gamma)), "at least 0, 1, 2"),
    ("share_of_floor", lambda ms, fetched, copied: fetched / copied / ms, "milliseconds"),
    ("share_of_floor", lambda ms, fetched, copied: ms / 1e3 / (fetched / copied), "Floor = bytes"),
    ("share_of_floor", lambda ms, fetched, copied: 1e3 * fetched / ms, "bytes per second"),
]

NAMES = [name for name, _ in RIGHT]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_the_solution_passes(name, answer):
    assert getattr(check, name)(answer).right is True


@pytest.mark.parametrize(("name", "answer", "advice"), WRONG)
def test_a_usual_mistake_is_told_what_to_look_at(name, answer, advice):
    result = getattr(check, name)(answer)
    assert result.right is False
    assert advice in result.message


@pytest.mark.parametrize("name", NAMES)
def test_an_open_exercise_is_open(name):
    assert getattr(check, name)(None).right is None
    assert getattr(check, name)(lambda *arguments: None).right is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "answer", [lambda *a: "many", lambda *a: torch.zeros(2, 3), lambda *a: [1, 2, 3], lambda *a: 1 / 0, lambda: 1, 7]
)
def test_anything_else_becomes_a_message(name, answer):
    result = getattr(check, name)(answer)
    assert result.right is False
    assert result.message.startswith("Not yet")
