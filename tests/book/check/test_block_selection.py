"""The checks of sparse/block-selection: right answers pass, typical wrong ones get a message, junk survives."""

import math

import pytest
import torch

from attnledger.book import check


def right_select(scores, query, block, k):
    seen = scores[: query + 1]
    best = [max(seen[i : i + block]) for i in range(0, len(seen), block)]
    own = query // block
    return sorted([*sorted(range(own), key=lambda b: -best[b])[: k - 1], own])


def unmasked(scores, query, block, k):
    best = [max(scores[i : i + block]) for i in range(0, len(scores), block)]
    own = query // block
    return sorted([*sorted((b for b in range(len(best)) if b != own), key=lambda b: -best[b])[: k - 1], own])


def local_extra(scores, query, block, k):
    seen = scores[: query + 1]
    best = [max(seen[i : i + block]) for i in range(0, len(seen), block)]
    own = query // block
    return sorted([*sorted(range(own), key=lambda b: -best[b])[:k], own])


def ties_to_the_higher(scores, query, block, k):
    seen = scores[: query + 1]
    best = [max(seen[i : i + block]) for i in range(0, len(seen), block)]
    own = query // block
    return sorted([*sorted(range(own), key=lambda b: (-best[b], -b))[: k - 1], own])


def no_local(scores, query, block, k):
    seen = scores[: query + 1]
    best = [max(seen[i : i + block]) for i in range(0, len(seen), block)]
    return sorted(sorted(range(len(best)), key=lambda b: -best[b])[:k])


def block_means(scores, query, block, k):
    seen = scores[: query + 1]
    parts = [seen[i : i + block] for i in range(0, len(seen), block)]
    best = [sum(p) / len(p) for p in parts]
    own = query // block
    return sorted([*sorted(range(own), key=lambda b: -best[b])[: k - 1], own])


def loss(scores, teacher):
    return -(teacher * scores.log_softmax(-1)).sum()


def by_autograd(scores, teacher):
    scores = scores.clone().requires_grad_()
    return torch.autograd.grad(loss(scores, teacher), scores)[0]


def by_autograd_switched_on(scores, teacher):
    with torch.enable_grad():
        return by_autograd(scores, teacher)


def by_autograd_of_exp(scores, teacher):
    """No operation of this gradient has a name of its own."""
    scores = scores.clone().requires_grad_()
    return torch.autograd.grad(scores.exp().sum(-1).log().sum() - (teacher * scores).sum(), scores)[0]


def by_transform(scores, teacher):
    return torch.func.grad(loss)(scores, teacher)


def raising(*_):
    raise RuntimeError("boom")


RIGHT = {
    "select_one_query": right_select,
    "keys_of_query": lambda t, k, block: min(t // block, k - 1) * block + t % block + 1,
    "break_even_length": lambda h, h_kv, d_h, d_idx, k, block: (
        4 * h * d_h * k * block / (2 * h * d_h - h_kv * d_idx) if 2 * h * d_h > h_kv * d_idx else math.inf
    ),
    "alignment_gradient": lambda scores, teacher: scores.softmax(-1) - teacher,
}
WRONG = {
    "select_one_query": [unmasked, local_extra, ties_to_the_higher, no_local, block_means],
    "keys_of_query": [
        lambda t, k, block: k * block,
        lambda t, k, block: min(t + 1, k * block),
        lambda t, k, block: min(t // block, k) * block + t % block + 1,
        lambda t, k, block: min(t // block, k - 1) * block + t % block,
    ],
    "break_even_length": [
        lambda h, h_kv, d_h, d_idx, k, block: 2 * k * block,
        lambda h, h_kv, d_h, d_idx, k, block: 4 * h * d_h * k * block / (2 * h * d_h - h_kv * d_idx),
        lambda h, h_kv, d_h, d_idx, k, block: 2 * h * d_h * k * block / (h * d_h - h_kv * d_idx),
    ],
    "alignment_gradient": [
        lambda scores, teacher: teacher - scores.softmax(-1),
        lambda scores, teacher: scores - teacher,
        lambda scores, teacher: -teacher / scores.softmax(-1),
        lambda scores, teacher: (scores.softmax(-1) - teacher).mean(),
        by_autograd,
        by_autograd_switched_on,
        by_autograd_of_exp,
        by_transform,
    ],
}
CASES = [(name, wrong) for name, answers in WRONG.items() for wrong in answers]


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_answer_passes(name):
    assert getattr(check, name)(RIGHT[name]).right is True


@pytest.mark.parametrize(("name", "wrong"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)])
def test_a_wrong_answer_gets_a_message(name, wrong):
    answer = getattr(check, name)(wrong)
    assert answer.right is False
    assert len(answer.message) > 40


@pytest.mark.parametrize("answer", [by_autograd, by_autograd_switched_on, by_autograd_of_exp, by_transform])
def test_the_gradient_is_not_to_be_left_to_autograd(answer):
    assert "autograd" in check.alignment_gradient(answer).message


@pytest.mark.parametrize("name", RIGHT)
def test_the_stub_is_not_answered_yet(name):
    assert getattr(check, name)(lambda *_: None).right is None
    assert getattr(check, name)(None).right is None


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize(
    "junk", ["text", 7, torch.zeros(2, 2), lambda: 0, lambda *_: "text", lambda *_: [1, 2, 3, 4, 5], raising]
)
def test_junk_survives(name, junk):
    assert getattr(check, name)(junk).right is False
