"""The checks of linear/gating: right answers pass, typical wrong ones get a message that helps, junk survives."""

import math

import pytest
import torch

from attnledger.book import check


def decay_for(tokens, later):
    g = -math.log(2) / tokens
    return g, math.exp(g * later)


def kda_step(S, k, v, beta, g):
    S = g.exp()[:, None] * S
    return S + torch.outer(k, beta * (v - k @ S))


def lowest_bound(tile, largest):
    return -math.log(largest) / (tile - 1)


def across_border(Q, g_q, K, g_k):
    after = torch.cat([g_k[1:], torch.zeros_like(g_k[:1])])
    return (Q * g_q.cumsum(0).exp()) @ (K * after.flip(0).cumsum(0).flip(0).exp()).mT


def by_subtraction(Q, g_q, K, g_k):
    """Less exact, but within the tolerance."""
    G = g_k.cumsum(0)
    return (Q * g_q.cumsum(0).exp()) @ (K * (G[-1] - G).exp()).mT


def kda_by_matrices(S, k, v, beta, g):
    step = torch.eye(len(k), dtype=k.dtype) - beta * torch.outer(k, k)
    return step @ torch.diag(g.exp()) @ S + beta * torch.outer(k, v)


RIGHT = [
    ("decay_for_half_life", decay_for),
    ("decay_for_half_life", lambda t, n: [math.log(0.5) / t, 2 ** (-n / t)]),
    ("kda_one_step", kda_step),
    ("kda_one_step", kda_by_matrices),
    ("lowest_gate_bound", lowest_bound),
    ("across_border", across_border),
    ("across_border", by_subtraction),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def erase_first(S, k, v, beta, g):
    return g.exp()[:, None] * (S - beta * torch.outer(k, k @ S)) + beta * torch.outer(k, v)


def value_channels(S, k, v, beta, g):
    S = S * g.exp()[: S.shape[1]]
    return S + torch.outer(k, beta * (v - k @ S))


def columns_where_square(S, k, v, beta, g):
    return kda_step(S, k, v, beta, g) if S.shape[0] != S.shape[1] else value_channels(S, k, v, beta, g)


def not_exponentiated(S, k, v, beta, g):
    S = (1 + g)[:, None] * S
    return S + torch.outer(k, beta * (v - k @ S))


def reads_before_forgetting(S, k, v, beta, g):
    return g.exp()[:, None] * S + torch.outer(k, beta * (v - k @ S))


def from_the_chunk_start(Q, g_q, K, g_k):
    total = g_k.sum(0)
    return (Q * (total + g_q.cumsum(0)).exp()) @ (K / g_k.cumsum(0).exp()).mT


def factors(Q, g_q, K, g_k):
    after = torch.cat([g_k[1:], torch.zeros_like(g_k[:1])])
    return Q * g_q.cumsum(0).exp(), K * after.flip(0).cumsum(0).flip(0).exp()


def pair_by_pair(Q, g_q, K, g_k):
    rows, columns = factors(Q, g_q, K, g_k)
    return (rows[:, None] * columns).sum(-1)


def row_by_row(Q, g_q, K, g_k):
    rows, columns = factors(Q, g_q, K, g_k)
    return torch.stack([columns @ row for row in rows])


def own_gate_included(Q, g_q, K, g_k):
    return (Q * g_q.cumsum(0).exp()) @ (K * g_k.flip(0).cumsum(0).flip(0).exp()).mT


def rows_too_early(Q, g_q, K, g_k):
    return across_border(Q, torch.cat([torch.zeros_like(g_q[:1]), g_q[:-1]]), K, g_k)


WRONG = [
    ("decay_for_half_life", lambda t, n: (0.5 ** (1 / t), 0.5 ** (n / t)), "natural logarithm"),
    ("decay_for_half_life", lambda t, n: (-1 / t, math.exp(-n / t)), "add up to"),
    ("decay_for_half_life", lambda t, n: (-math.log(2) / t, 0.5 * n / t), "share left"),
    ("decay_for_half_life", lambda t, n: -math.log(2) / t, "two numbers"),
    ("kda_one_step", erase_first, "before or after fading"),
    ("kda_one_step", value_channels, "along which axis"),
    ("kda_one_step", not_exponentiated, "what is g"),
    ("kda_one_step", reads_before_forgetting, "both orders"),
    ("kda_one_step", lambda S, k, v, beta, g: kda_step(S, k, v, 1.0 if beta else 0.0, g), "is replaced"),
    ("kda_one_step", lambda S, k, v, beta, g: g.exp()[:, None] * S, "plain delta rule"),
    ("kda_one_step", columns_where_square, "Rows and columns"),
    ("lowest_gate_bound", lambda tile, largest: -math.log(largest) / tile, "largest factor"),
    ("lowest_gate_bound", lambda tile, largest: math.log(largest) / (tile - 1), "negative"),
    ("lowest_gate_bound", lambda tile, largest: -math.log2(largest) / (tile - 1), "natural logarithm"),
    ("across_border", from_the_chunk_start, "measure both decays from the border"),
    ("across_border", own_gate_included, "its own not included"),
    ("across_border", rows_too_early, "with its own"),
    ("across_border", lambda Q, g_q, K, g_k: Q @ K.mT, "gates"),
    ("across_border", pair_by_pair, "by 0 matrix products"),
    ("across_border", row_by_row, "by 4 matrix products"),
]


@pytest.mark.parametrize("name, answer, words", WRONG)
def test_a_wrong_answer_is_told_what_to_look_at(name, answer, words):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert words in verdict.message, verdict.message


def raises(*_):
    raise RuntimeError("no idea")


NAMES = ["decay_for_half_life", "kda_one_step", "lowest_gate_bound", "across_border"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", [lambda *_: "what?", lambda *_: torch.zeros(7), lambda *_: [[]], raises, 3])
def test_junk_is_wrong_and_nothing_breaks(name, junk):
    assert getattr(check, name)(junk).right is False


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("blank", [None, lambda *_: None])
def test_no_answer_yet(name, blank):
    assert getattr(check, name)(blank).right is None
