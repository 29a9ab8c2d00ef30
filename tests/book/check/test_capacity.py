"""The checks of linear/capacity: right answers pass, typical wrong ones get a message that helps, junk survives."""

import math

import pytest
import torch

from attnledger.book import check


def pairs_held(numbers, d_k, d_v):
    return d_k if numbers >= d_k * d_v else 0, numbers // (d_k + d_v)


def holding_all(K, V):
    return K.mT @ torch.linalg.solve(K @ K.mT, V)


def sharp_scale(K, w):
    low, high = 0.0, 2.0**20
    for _ in range(80):
        middle = (low + high) / 2
        if (middle * K @ K.mT).softmax(-1).diagonal().min() < w:
            low = middle
        else:
            high = middle
    return high


def by_newton(K, w):
    """From the left, where the least weight is still too small, each step stays on the left: it is concave there."""
    s = torch.zeros((), dtype=K.dtype)
    for _ in range(200):
        s.requires_grad_()
        odds = (s * (K @ K.mT - 1)).exp().sum(-1).max().log()  # -log of the least weight
        (slope,) = torch.autograd.grad(odds, s)
        s = (s - (odds + math.log(w)) / slope).detach().clamp(min=0)
    return s


def decayed_error(a, m, d, alpha):
    return (1 - alpha**a) ** 2 + sum(alpha ** (2 * b) for b in range(m) if b != a) / d


def by_many_passes(K, V):
    """Kaczmarz from zero: the limit is the same state."""
    S = torch.zeros(K.shape[1], V.shape[1], dtype=V.dtype)
    for _ in range(20_000 // len(K)):
        for k, v in zip(K, V, strict=True):
            S = S + torch.outer(k, v - k @ S) / (k @ k)
    return S


def by_closed_form(a, m, d, alpha):
    total = m if alpha == 1 else (1 - alpha ** (2 * m)) / (1 - alpha**2)
    return (1 - alpha**a) ** 2 + (total - alpha ** (2 * a)) / d


RIGHT = [
    ("pairs_held", pairs_held),
    ("pairs_held", lambda n, k, v: [k * (n >= k * v), n // (k + v)]),
    ("holding_all", holding_all),
    ("holding_all", lambda K, V: K.mT @ torch.linalg.inv(K @ K.mT) @ V),
    ("sharp_scale", by_newton),
    ("sharp_scale", sharp_scale),
    ("decayed_error", decayed_error),
    ("decayed_error", by_closed_form),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def test_many_passes_pass_where_the_keys_are_not_close():
    K, V = torch.eye(4, dtype=torch.float64) + 0.1, torch.ones(4, 2, dtype=torch.float64)
    assert torch.allclose(by_many_passes(K, V), holding_all(K, V))


def any_solution(K, V):
    """Holds all pairs, but also answers keys at right angles to them."""
    S = holding_all(K, V)
    free = torch.eye(K.shape[1], dtype=K.dtype) - holding_all(K, K)
    return S + free @ torch.ones_like(S)


def worst_case(K, w):
    """Enough for any keys whose largest overlap is this, and more than these need."""
    c = (K @ K.mT).fill_diagonal_(-math.inf).max().item()
    return max(0.0, math.log(w * (len(K) - 1) / (1 - w)) / (1 - c))


def first_key_only(K, w):
    return next(s for s in map(lambda n: n / 1000, range(10**6)) if (s * K[0] @ K.mT).softmax(-1)[0] >= w)


def unclamped(K, w):
    """Searches below 0 as well, where the own key is the one that scores least."""
    low, high = -(2.0**10), 2.0**10
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if (middle * K @ K.mT).softmax(-1).diagonal().min() < w else (low, middle)
    return high


WRONG = [
    ("pairs_held", lambda n, k, v: (n // (k * v), n // (k + v)), "d_k keys"),
    ("pairs_held", lambda n, k, v: (k, n // (k + v)), "the state"),
    ("pairs_held", lambda n, k, v: (k if n >= k * v else 0, n // (2 * k)), "d_k + d_v"),
    ("pairs_held", lambda n, k, v: k, "two numbers"),
    ("holding_all", lambda K, V: K.mT @ V, "Crosstalk"),
    ("holding_all", lambda K, V: K.mT @ (V / K.square().sum(-1, keepdim=True)), "Crosstalk"),
    ("holding_all", any_solution, "right angle"),
    ("holding_all", lambda K, V: torch.linalg.solve(K @ K.mT, V), "shape"),
    ("holding_all", lambda K, V: torch.linalg.pinv(K) @ V, "`linalg_pinv` found it"),
    ("holding_all", lambda K, V: torch.linalg.lstsq(K, V, driver="gelsd").solution, "found it"),
    ("sharp_scale", worst_case, "as near as the nearest two"),
    ("sharp_scale", first_key_only, "worst off"),
    ("sharp_scale", unclamped, "no scale below 0"),
    ("sharp_scale", lambda K, w: math.log(w / (1 - w)), "has the weight 0.818, wanted is 0.9"),
    ("sharp_scale", lambda K, w: (K @ K.mT).softmax(-1), "single number"),
    ("decayed_error", lambda a, m, d, alpha: (m - 1) / d, "what decay has taken"),
    ("decayed_error", lambda a, m, d, alpha: sum(alpha ** (2 * b) for b in range(m)) / d, "disturb"),
    ("decayed_error", lambda a, m, d, alpha: (1 - alpha**a) ** 2 + (m - 1) * alpha ** (2 * a) / d, "its own age"),
]


@pytest.mark.parametrize("name, answer, words", WRONG)
def test_a_wrong_answer_is_told_what_to_look_at(name, answer, words):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert words in verdict.message, verdict.message


def raises(*_):
    raise RuntimeError("no idea")


@pytest.mark.parametrize("name", ["pairs_held", "holding_all", "sharp_scale", "decayed_error"])
@pytest.mark.parametrize("junk", [lambda *_: "what?", lambda *_: torch.zeros(7), lambda *_: [[]], raises, 3])
def test_junk_is_wrong_and_nothing_breaks(name, junk):
    assert getattr(check, name)(junk).right is False


@pytest.mark.parametrize("name", ["pairs_held", "holding_all", "sharp_scale", "decayed_error"])
@pytest.mark.parametrize("blank", [None, lambda *_: None])
def test_no_answer_yet(name, blank):
    assert getattr(check, name)(blank).right is None
