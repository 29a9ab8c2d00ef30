"""The checks of cost/softmax-attention: right answers pass, typical mistakes are named, junk survives."""

import math

import pytest
import torch

from attnledger.book import check
from attnledger.book.check import softmax_attention
from attnledger.ops.flash import flash_attention
from attnledger.ops.softmax import attention, attention_weights


def cross(n, m, h, d_k, d_v):
    return 2 * h * n * m * (d_k + d_v)


def longest(memory, layers, heads, batch, size):
    return math.isqrt(memory // (layers * heads * batch * size))


def backward(A, dA):
    return A * (dA - (dA * A).sum(-1, keepdim=True))


def rows(q, k, lse, start, stop):
    scores = q[start:stop] @ k.T / math.sqrt(q.shape[-1])
    return torch.exp(scores - lse[start:stop, None]) * torch.ones_like(scores).tril(start)


def rows_one_by_one(q, k, lse, start, stop):
    out = torch.zeros(stop - start, len(k), dtype=q.dtype)
    for i in range(start, stop):
        out[i - start, : i + 1] = torch.exp(k[: i + 1] @ q[i] * q.shape[-1] ** -0.5 - lse[i])
    return out


class Forgetful(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        C, lse = attention(q, k, v, return_lse=True)
        ctx.save_for_backward(q, k, v, C, lse)
        return C

    @staticmethod
    def backward(ctx, dC):
        q, k, v, C, lse = ctx.saved_tensors
        scale, A = q.shape[-1] ** -0.5, rows(q, k, lse, 0, len(q))
        dS = scale * A * (dC @ v.mT - (C * dC).sum(-1, keepdim=True))
        return dS @ k, dS.mT @ q, A.mT @ dC


class Keeps(Forgetful):
    """Hides the weights where saved_tensors_hooks does not look."""

    @staticmethod
    def forward(ctx, q, k, v):
        ctx.A = attention_weights(q, k)
        return Forgetful.forward(ctx, q, k, v)


class Unscaled(Forgetful):
    @staticmethod
    def backward(ctx, dC):
        dQ, dK, dV = Forgetful.backward(ctx, dC)
        return dQ * ctx.saved_tensors[0].shape[-1] ** 0.5, dK, dV


RIGHT = [
    ("cross_attention_flops", cross),
    ("longest_square", longest),
    ("longest_square", lambda *x: int(math.sqrt(x[0] / math.prod(x[1:])))),
    ("softmax_backward", backward),
    ("softmax_backward", lambda A, dA: A * dA - A * (A * dA).sum(-1)[..., None]),
    ("rebuilt_rows", rows),
    ("rebuilt_rows", rows_one_by_one),
    ("forgetful_attention", Forgetful.apply),
    ("forgetful_attention", flash_attention),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def row_by_row(A, dA):
    rows = zip(A.flatten(0, -2), dA.flatten(0, -2), strict=True)
    return torch.stack([a * (da - da @ a) for a, da in rows]).view_as(A)


def with_the_future(q, k, lse, start, stop):
    return torch.exp(q[start:stop] @ k.T * q.shape[-1] ** -0.5 - lse[start:stop, None])


def diagonal_at_the_left(q, k, lse, start, stop):
    return with_the_future(q, k, lse, start, stop).tril()


def all_rows(q, k, lse, start, stop):
    return attention_weights(q, k)[start:stop]


WRONG = [
    ("cross_attention_flops", lambda n, m, h, d_k, d_v: h * n * m * (d_k + d_v), "multiply–adds"),
    ("cross_attention_flops", lambda n, m, h, d_k, d_v: 2 * n * m * (d_k + d_v), "one head"),
    ("cross_attention_flops", lambda n, m, h, d_k, d_v: 4 * h * n * m * d_k, "width is d_v"),
    ("cross_attention_flops", lambda n, m, h, d_k, d_v: 2 * h * n * n * (d_k + d_v), "no square"),
    ("longest_square", lambda m, layers, h, b, size: m // (layers * h * b * size), "take the root"),
    ("longest_square", lambda m, layers, h, b, size: math.sqrt(m / (layers * h * b * size)), "round down"),
    ("longest_square", lambda m, layers, h, b, size: math.isqrt(m // (layers * b * size)), "matrix of its own"),
    ("longest_square", lambda *x: longest(*x) + 1, "One token more"),
    ("softmax_backward", lambda A, dA: A * dA, "weight alone"),
    ("softmax_backward", lambda A, dA: dA - (dA * A).sum(-1, keepdim=True), "last factor"),
    ("softmax_backward", lambda A, dA: A * (dA - dA.mean(-1, keepdim=True)), "weighted by attention"),
    ("softmax_backward", lambda A, dA: A * (dA - (dA * A).sum(-1)), "keepdim"),
    ("softmax_backward", row_by_row, "there is a loop"),
    ("rebuilt_rows", with_the_future, "future"),
    ("rebuilt_rows", diagonal_at_the_left, "starts further right"),
    ("rebuilt_rows", all_rows, "6 × 6 matrix was made"),
    ("rebuilt_rows", lambda q, k, lse, i, j: torch.exp(q @ k.T - lse[:, None]).tril()[i:j], "√d"),
    ("forgetful_attention", attention, "outlived the forward pass"),
    ("forgetful_attention", Keeps.apply, "outlived the forward pass"),
    ("forgetful_attention", lambda q, k, v: attention(q, k, v, causal=False), "is causal"),
    ("forgetful_attention", lambda q, k, v: attention(q, k, v).detach(), "has no gradient"),
    ("forgetful_attention", Unscaled.apply, "gradient of q"),
]


@pytest.mark.parametrize("name, answer, says", WRONG)
def test_a_typical_mistake_is_named(name, answer, says):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert says in verdict.message, verdict.message


NAMES = ["cross_attention_flops", "longest_square", "softmax_backward", "rebuilt_rows", "forgetful_attention"]


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
    assert exercises_of(softmax_attention) == set(NAMES)
