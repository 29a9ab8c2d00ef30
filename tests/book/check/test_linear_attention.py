"""The checks of linear/linear-attention: right answers pass, typical mistakes are named, junk survives."""

import pytest
import torch

from attnledger.book import check
from attnledger.book.check import linear_attention


def tie(r, d_v):
    return 2 * r * d_v / (r + d_v)


def tokens(h, h_kv, d_h, r, state_bytes, cache_bytes):
    return h * r * (d_h + 1) * state_bytes / (2 * h_kv * d_h * cache_bytes)


def prefix_sums(q, k, v):
    S = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(-3)
    z = k.cumsum(-2)
    below = (q * z).sum(-1, keepdim=True)
    above = (q.unsqueeze(-2) @ S).squeeze(-2)
    return torch.where(below == 0, 0.0, above / below.masked_fill(below == 0, 1.0))


def masked_scores(q, k, v):
    scores = (q @ k.mT).tril()
    below = scores.sum(-1, keepdim=True)
    return (scores @ v / below).nan_to_num(0.0)


def by_einsum(q, k, v):
    above = torch.einsum("...tr,...trv->...tv", q, torch.einsum("...tr,...tv->...trv", k, v).cumsum(-3))
    below = torch.einsum("...tr,...tr->...t", q, k.cumsum(-2)).unsqueeze(-1)
    return torch.where(below == 0, 0.0, above / below.masked_fill(below == 0, 1.0))


def token_by_token(q, k, v):
    S, z, rows = 0.0, 0.0, []
    for t in range(q.shape[-2]):
        S = S + k[..., t, :, None] * v[..., t, None, :]
        z = z + k[..., t, :]
        below = (q[..., t, :] * z).sum(-1, keepdim=True)
        above = (q[..., t, None, :] @ S).squeeze(-2)
        rows.append(torch.where(below == 0, 0.0, above / below.masked_fill(below == 0, 1.0)))
    return torch.stack(rows, -2)


def pairs(x):
    return (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2)


def half_of_the_pairs(x):
    i, j = torch.triu_indices(x.shape[-1], x.shape[-1])
    return x[..., i] * x[..., j] * torch.where(i == j, 1.0, 2.0**0.5).to(x)


RIGHT = [
    ("fourth_write", (3, 3.5)),
    ("fourth_write", torch.tensor([3.0, 3.5])),
    ("bracket_tie", tie),
    ("bracket_tie", lambda r, d_v: 2 / (1 / r + 1 / d_v)),
    ("tokens_until_state_pays", tokens),
    ("prefix_sum_attention", prefix_sums),
    ("prefix_sum_attention", by_einsum),
    ("squared_kernel_features", pairs),
    ("squared_kernel_features", half_of_the_pairs),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def without_z(h, h_kv, d_h, r, state_bytes, cache_bytes):
    return h * r * d_h * state_bytes / (2 * h_kv * d_h * cache_bytes)


def only_keys(*inputs):
    return 2 * tokens(*inputs)


def in_numbers(h, h_kv, d_h, r, state_bytes, cache_bytes):
    return h * r * (d_h + 1) / (2 * h_kv * d_h)


def with_the_future(q, k, v):
    return q @ (k.mT @ v) / (q @ k.sum(-2).unsqueeze(-1))


def numerator(q, k, v):
    return (q @ k.mT).tril() @ v


def not_a_number(q, k, v):
    scores = (q @ k.mT).tril()
    return scores @ v / scores.sum(-1, keepdim=True)


WRONG = [
    ("fourth_write", (6, 7), "numerator"),
    ("fourth_write", (1.5, 1.75), "number of writes"),
    ("fourth_write", (1, 5 / 3), "first row|second row"),
    ("fourth_write", (5, 5), "before the fourth write"),
    ("fourth_write", (0, 3), "which rows of the state"),
    ("bracket_tie", lambda r, d_v: r, "the same part"),
    ("bracket_tie", lambda r, d_v: (r + d_v) / 2, "all four"),
    ("bracket_tie", lambda r, d_v: (r * d_v) ** 0.5, "two matrix products"),
    ("tokens_until_state_pays", without_z, "without z"),
    ("tokens_until_state_pays", only_keys, "a key and a value"),
    ("tokens_until_state_pays", in_numbers, "compare bytes"),
    ("prefix_sum_attention", with_the_future, "future"),
    ("prefix_sum_attention", numerator, "numerator"),
    ("prefix_sum_attention", not_a_number, "denominator is 0"),
    ("prefix_sum_attention", masked_scores, "6 × 6 matrix"),
    ("prefix_sum_attention", token_by_token, "there is a loop"),
    ("prefix_sum_attention", lambda q, k, v: v, "up to which token"),
    ("squared_kernel_features", lambda x: x.square(), "mixed products"),
    ("squared_kernel_features", lambda x: x, "one feature"),
    ("squared_kernel_features", lambda x: x.sum(-1), "one row of features"),
    ("squared_kernel_features", lambda x: x.unsqueeze(-1) * x.unsqueeze(-2), "one row of features"),
]


@pytest.mark.parametrize("name, answer, says", WRONG)
def test_a_typical_mistake_is_named(name, answer, says):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert any(part in verdict.message for part in says.split("|")), verdict.message


@pytest.mark.parametrize("answer", [(0, 3), (3, 3), (0, 3.5), 3, "3, 3.5", (6, 7), (5, 5)])
def test_a_wrong_value_is_not_answered_with_the_right_one(answer):
    message = check.fourth_write(answer).message.replace(f"{answer}", "")
    assert "expected" not in message and "3.5" not in message


NAMES = ["fourth_write", "bracket_tie", "tokens_until_state_pays", "prefix_sum_attention", "squared_kernel_features"]


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
    verdict = getattr(check, name)(None if name == "fourth_write" else lambda *_: None)
    assert verdict.right is None


def test_every_exercise_is_listed_here(exercises_of):
    assert exercises_of(linear_attention) == set(NAMES)
