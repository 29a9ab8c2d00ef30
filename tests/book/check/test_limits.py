"""The checks of cost/limits: right answers pass, the usual wrong ones get a message that helps."""

import math

import pytest
import torch

from attnledger.book import check


def way_out(scores):
    return torch.cat([scores, torch.zeros_like(scores[..., :1])], -1).softmax(-1)[..., :-1]


def overflows(scores):
    return scores.exp() / (1 + scores.exp().sum(-1, keepdim=True))


def forgets_to_shift_the_one(scores):
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / (1 + e.sum(-1, keepdim=True))


def stream(T, window, sinks):
    i, j = torch.arange(T)[:, None], torch.arange(T)
    return (j <= i) & ((i - j < window) | (j < sinks))


def sees_future_sinks(T, window, sinks):
    i, j = torch.arange(T)[:, None], torch.arange(T)
    return ((j <= i) & (i - j < window)) | (j < sinks)


def window_without_itself(T, window, sinks):
    i, j = torch.arange(T)[:, None], torch.arange(T)
    return (j <= i) & ((i - j <= window) | (j < sinks))


def no_sinks(T, window, sinks):
    return stream(T, window, 0)


def equivariant(f, T, d):
    x = torch.randn(T, d)
    orders = [torch.arange(T).roll(shift) for shift in range(1, T)] + [torch.randperm(T) for _ in range(20)]
    return all(torch.allclose(f(x[order]), f(x)[order]) for order in orders)


def invariant(f, T, d):
    x = torch.randn(T, d)
    return torch.allclose(f(x.flip(0)), f(x))


def one_exchange(f, T, d):
    x, order = torch.randn(T, d), torch.tensor([1, 0, *range(2, T)])
    return torch.allclose(f(x[order]), f(x)[order])


def bitwise(f, T, d):
    x, order = torch.randn(T, d), torch.arange(T).roll(1)
    return torch.equal(f(x[order]), f(x)[order])


RIGHT = [
    ("lead_needed", lambda w, n: math.log(n - 1) + math.log(w / (1 - w))),
    ("softmax_with_a_way_out", way_out),
    ("stream_mask", stream),
    ("is_equivariant", equivariant),
]

WRONG = [
    ("lead_needed", lambda w, n: math.log(n * w / (1 - w)), "the key itself"),
    ("lead_needed", lambda w, n: math.log(n - 1) + math.log(w), "Divide what"),
    ("lead_needed", lambda w, n: (n - 1) * w / (1 - w), "all others hold"),
    ("softmax_with_a_way_out", lambda s: s.softmax(-1), "not there"),
    ("softmax_with_a_way_out", overflows, "subtract the maximum"),
    ("softmax_with_a_way_out", forgets_to_shift_the_one, "plus 1"),
    ("softmax_with_a_way_out", lambda s: s.exp() / (1 + s.exp().sum()), "over the last axis"),
    ("stream_mask", sees_future_sinks, "future"),
    ("stream_mask", window_without_itself, "counts the query itself"),
    ("stream_mask", no_sinks, "first tokens stay visible"),
    ("stream_mask", lambda *a: stream(*a).double(), "boolean tensor"),
    ("is_equivariant", invariant, "equivariant"),
    ("is_equivariant", one_exchange, "move every place"),
    ("is_equivariant", lambda f, T, d: True, "the last sees all"),
    ("is_equivariant", lambda f, T, d: 1.0, "True or False"),
]

NAMES = [name for name, _ in RIGHT]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_the_solution_passes(name, answer):
    assert getattr(check, name)(answer).right is True


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equivariance_may_be_tried_in_either_precision(dtype):
    def close(f, T, d):
        x = torch.randn(T, d, dtype=dtype)
        orders = [torch.arange(T).roll(shift) for shift in range(1, T)]
        return all(torch.allclose(f(x[order]), f(x)[order], atol=1e-5) for order in orders)

    assert check.is_equivariant(close).right is True


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
@pytest.mark.parametrize("answer", [lambda *a: "many", lambda *a: torch.zeros(2, 3), lambda *a: 1 / 0, lambda: 1, 7])
def test_anything_else_becomes_a_message(name, answer):
    result = getattr(check, name)(answer)
    assert result.right is False
    assert result.message.startswith("Not yet")
