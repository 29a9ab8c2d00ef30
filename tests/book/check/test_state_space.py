"""The checks of linear/state-space: right answers pass, typical wrong ones get a message that helps, junk survives."""

import math

import pytest
import torch

from attnledger.book import check


def hold(delta, A, B):
    return math.exp(delta * A), (delta if A == 0 else math.expm1(delta * A) / A) * B


def pays_after(d_model, rows, width, kv, state_bytes, cache_bytes):
    inner = 2 * d_model
    return inner * (rows * state_bytes + (width - 1) * cache_bytes) / (kv * cache_bytes)


def combine(first, second):
    return second[0] * first[0], second[0] * first[1] + second[1]


RIGHT = [
    ("step_for_half_life", lambda A, n: math.log(2) / (-A * n)),
    ("step_for_half_life", lambda A, n: math.log(0.5) / A / n),
    ("zero_order_hold", hold),
    ("state_pays_after", pays_after),
    ("combine_steps", combine),
    ("combine_steps", lambda f, s: [s[0] * f[0], s[1] + f[1] * s[0]]),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def euler(delta, A, B):
    return 1 + delta * A, delta * B


def divides_by_zero(delta, A, B):
    return math.exp(delta * A), (math.exp(delta * A) - 1) / A * B


WRONG = [
    ("step_for_half_life", lambda A, n: math.log(0.5) / (-A * n), "positive"),
    ("step_for_half_life", lambda A, n: math.log(2) / -A, "must be ½"),
    ("step_for_half_life", lambda A, n: 1 / (-A * n), "e to the power"),
    ("zero_order_hold", euler, "exponential"),
    ("zero_order_hold", lambda d, A, B: (math.exp(d * A), d * B), "(e^{ΔA} − 1)/A"),
    ("zero_order_hold", divides_by_zero, "ZeroDivisionError"),
    ("zero_order_hold", lambda d, A, B: math.exp(d * A), "two numbers"),
    ("state_pays_after", lambda m, r, w, kv, s, c: 2 * m * r / kv, "past inputs of the convolution"),
    (
        "state_pays_after",
        lambda m, r, w, kv, s, c: (2 * m * r * s + 2 * m * w * c) / (kv * c),
        "how many inputs are past",
    ),
    ("state_pays_after", lambda m, r, w, kv, s, c: pays_after(m // 2, r, w, kv, s, c), "How wide is it inside"),
    ("state_pays_after", lambda m, r, w, kv, s, c: pays_after(m, r, w, kv, 2, 2), "how many bytes"),
    ("combine_steps", lambda f, s: (f[0] * s[0], f[1] + s[1]), "decayed by the second"),
    ("combine_steps", lambda f, s: combine(s, f), "decayed by the second"),
    ("combine_steps", lambda f, s: (f[0] + s[0], s[0] * f[1] + s[1]), "multiplies h"),
    ("combine_steps", lambda f, s: s[0] * f[1] + s[1], "pair"),
]


@pytest.mark.parametrize("name, answer, words", WRONG)
def test_a_wrong_answer_is_told_what_to_look_at(name, answer, words):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert words in verdict.message, verdict.message


def raises(*_):
    raise RuntimeError("no idea")


NAMES = ["step_for_half_life", "zero_order_hold", "state_pays_after", "combine_steps"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", [lambda *_: "what?", lambda *_: torch.zeros(7), lambda *_: [[]], raises, 3])
def test_junk_is_wrong_and_nothing_breaks(name, junk):
    assert getattr(check, name)(junk).right is False


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("blank", [None, lambda *_: None])
def test_no_answer_yet(name, blank):
    assert getattr(check, name)(blank).right is None
