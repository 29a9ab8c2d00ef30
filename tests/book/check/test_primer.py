"""The checks of appendix/primer: right answers pass, typical wrong ones get a message that helps, junk survives."""

import pytest
import torch

from attnledger.book import check
from attnledger.book.check import primer

EQUATIONS = ["hik,hiv->hkv", "hgid,hjd->hgij", "td,td->t"]


def merged(x):
    return x.transpose(-3, -2).flatten(-2)


def softmax(scores, visible):
    hidden = scores.masked_fill(~visible, float("-inf"))
    return torch.softmax(hidden, dim=-1).nan_to_num(0.0)


def softmax_by_hand(scores, visible):
    hidden = scores.masked_fill(~visible, float("-inf"))
    peak = hidden.amax(-1, keepdim=True).clamp(min=-1e300)
    e = (hidden - peak).exp()
    return e / e.sum(-1, keepdim=True).clamp(min=1e-300)


RIGHT = [
    ("merge_heads", merged),
    ("merge_heads", lambda x: torch.cat([x[..., h, :, :] for h in range(x.shape[-3])], dim=-1)),
    ("merge_heads", lambda x: torch.einsum("...htd->...thd", x).flatten(-2).numpy()),
    ("einsum_equations", EQUATIONS),
    ("einsum_equations", ("aci, acj -> aij", "abcd, aed -> abce", "ij, ij -> i")),
    ("masked_softmax", softmax),
    ("masked_softmax", softmax_by_hand),
    ("first_gap", lambda bits: 2 ** (bits + 1) + 1),
    ("first_gap", lambda bits: 2.0 ** (bits + 1) + 1),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def only_views(x):
    return x.reshape(*x.shape[:-3], x.shape[-2], -1)


def one_batch_only(x):
    return x.transpose(0, 1).flatten(1)


def channels_first(x):
    return torch.einsum("...htd->...tdh", x).flatten(-2)


def zeroed_scores(scores, visible):
    return torch.softmax(scores * visible, dim=-1)


def zeroed_weights(scores, visible):
    return torch.softmax(scores, dim=-1) * visible


def renormalised(scores, visible):
    weights = torch.softmax(scores, dim=-1) * visible
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def no_shift(scores, visible):
    e = scores.exp() * visible
    total = e.sum(-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1.0)


def no_empty_rows(scores, visible):
    return torch.softmax(scores.masked_fill(~visible, float("-inf")), dim=-1)


def first_axis(scores, visible):
    return torch.softmax(scores.masked_fill(~visible, float("-inf")), dim=0).nan_to_num(0.0)


WRONG = [
    ("merge_heads", only_views, "one token"),
    ("merge_heads", channels_first, "one token"),
    ("merge_heads", one_batch_only, "is wanted"),
    ("merge_heads", lambda x: x.transpose(-3, -2), "is wanted"),
    ("einsum_equations", ["hik,hiv->hvk", *EQUATIONS[1:]], "equation (a)"),
    ("einsum_equations", ["hik,hjv->hkv", *EQUATIONS[1:]], "equation (a)"),
    ("einsum_equations", [EQUATIONS[0], "hgid,hgjd->hgij", EQUATIONS[2]], "inside a group"),
    ("einsum_equations", [*EQUATIONS[:2], "td,td->"], "equation (c)"),
    ("einsum_equations", [*EQUATIONS[:2], "td,sd->ts"], "Tokens keep their letter"),
    ("einsum_equations", [*EQUATIONS[:2], 7], "a string is wanted"),
    ("einsum_equations", EQUATIONS[:2], "three equations"),
    ("einsum_equations", EQUATIONS[0], "three equations"),
    ("masked_softmax", zeroed_scores, "below the line"),
    ("masked_softmax", zeroed_weights, "below the line"),
    ("masked_softmax", renormalised, "hidden"),
    ("masked_softmax", no_shift, "Subtract the largest"),
    ("masked_softmax", no_empty_rows, "zeros, not NaN"),
    ("masked_softmax", first_axis, "Nothing is hidden"),
    ("first_gap", lambda bits: 2**bits + 1, "spacing"),
    ("first_gap", lambda bits: 2 ** (bits + 1), "skipped"),
    ("first_gap", lambda bits: 2 ** (bits + 1) + 2, "skipped"),
    ("first_gap", lambda bits: float(torch.tensor(2.0 ** (bits + 1) + 1, dtype=torch.float32)), "fp32"),
]


@pytest.mark.parametrize("name, answer, says", WRONG)
def test_a_wrong_answer_learns_what_to_look_at(name, answer, says):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert verdict.message.startswith("Not yet")
    assert says in verdict.message


FUNCTIONS = ["merge_heads", "masked_softmax", "first_gap"]
NAMES = [*FUNCTIONS, "einsum_equations"]


def raises(*inputs):
    raise RuntimeError("no")


@pytest.mark.parametrize("name", NAMES)
def test_no_answer_yet_is_not_an_error(name):
    assert getattr(check, name)(None).right is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_returns_nothing_is_not_answered(name):
    assert getattr(check, name)(lambda *a: None).right is None


def test_equations_still_missing_are_not_answered():
    assert check.einsum_equations([None, None, None]).right is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "junk",
    [7, "words", raises, lambda: 1, lambda *a: "words", lambda *a: torch.zeros(17, 3), lambda *a: [[1.0], [2.0, 3.0]]],
    ids=["number", "text", "raises", "no-arguments", "returns-text", "shape", "ragged"],
)
def test_junk_gets_a_message(name, junk):
    verdict = getattr(check, name)(junk)
    assert verdict.right is False and verdict.message


def test_every_exercise_of_the_page_is_tested(exercises_of):
    assert exercises_of(primer) == set(NAMES)
