"""Checks for the exercises of cost/softmax-attention."""

import gc
import math

import torch

from attnledger.ops.softmax import attention, attention_weights

from ._answer import NotAnswered, compare, exercise
from ._watch import Watch

F64 = torch.float64


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def _same(got, want) -> bool:
    return compare(got, want, on="") is None


@exercise
def cross_attention_flops(answer) -> str | None:
    """n, m, h, d_k, d_v -> FLOP of scores and read."""
    for n, m, h, d_k, d_v in ((3, 3, 1, 2, 2), (10, 50, 1, 8, 8), (10, 50, 4, 8, 8), (128, 1000, 16, 192, 128)):
        want, got = 2 * h * n * m * (d_k + d_v), answer(n, m, h, d_k, d_v)
        hint = "Scores: [n, d_k] × [d_k, m]. Read: [n, m] × [m, d_v]. Each is 2abc, in every head."
        if _same(got, want / 2):
            hint = "That is multiply–adds; each counts as 2 FLOP."
        elif _same(got, want / h):
            hint = "That is one head; there are h of them, each of the widths given."
        elif _same(got, 2 * h * n * m * 2 * d_k):
            hint = "The read multiplies with values, whose width is d_v."
        elif _same(got, 2 * h * n * n * (d_k + d_v)) or _same(got, 2 * h * m * m * (d_k + d_v)):
            hint = "The scores are no square here: n queries meet m keys."
        on = f"n = {n}, m = {m}, h = {h}, d_k = {d_k}, d_v = {d_v}"
        if problem := compare(got, want, on=on, hint=hint):
            return problem
    return None


@exercise
def longest_square(answer) -> str | None:
    """memory, layers, heads, batch, bytes_per_number -> the largest n with n² numbers per matrix in memory."""
    cases = [
        (2**30, 1, 32, 1, 2),
        (2**35, 32, 32, 1, 2),
        (80 * 10**9, 96, 96, 1, 2),
        (10**10, 12, 12, 8, 4),
        (1000, 1, 1, 1, 1),
    ]
    for memory, layers, heads, batch, size in cases:
        copies = layers * heads * batch * size
        want, got = math.isqrt(memory // copies), answer(memory, layers, heads, batch, size)
        hint = "n² numbers for every layer, head and sequence, each of bytes_per_number bytes: solve for n."
        if _same(got, memory // copies):
            hint = "That is n²; take the root."
        elif _same(got, math.sqrt(memory / copies)):
            hint = "That many tokens, but a sequence has whole tokens: round down."
        elif _same(got, want + 1):
            hint = "One token more than fits: round down."
        elif _same(got, math.isqrt(memory // (layers * batch * size))):
            hint = "Every head has a matrix of its own."
        on = f"{memory:,} bytes, {layers} layers, {heads} heads, batch {batch}, {size} bytes per number"
        if problem := compare(got, want, on=on, hint=hint):
            return problem
    return None


@exercise
def softmax_backward(answer) -> str | None:
    """A, dL/dA -> dL/dS, row by row, for any leading axes."""
    cases = [
        ("the page's third row", torch.tensor([[1 / 6, 1 / 3, 1 / 2]], dtype=F64), torch.tensor([[6.0, 0, 2]]).to(F64)),
        ("5 × 5", torch.softmax(_random(5, 5, seed=1), -1), _random(5, 5, seed=2)),
        ("4 × 7", torch.softmax(_random(4, 7, seed=3), -1), _random(4, 7, seed=4)),
        ("two heads, 3 × 6", torch.softmax(_random(2, 3, 6, seed=5), -1), _random(2, 3, 6, seed=6)),
    ]
    for on, A, dA in cases:
        want = A * (dA - (dA * A).sum(-1, keepdim=True))
        got = answer(A.clone(), dA.clone())
        hint = "Per row: the weighted mean of dL/dA with the weights A, subtracted from dL/dA, times A."
        if _same(got, A * dA):
            hint = "That treats every weight alone; the weights of a row share one sum, so subtract the row sum first."
        elif _same(got, dA - (dA * A).sum(-1, keepdim=True)):
            hint = "The last factor A is missing: a score counts as much as its weight."
        elif _same(got, A * (dA - dA.sum(-1, keepdim=True))) or _same(got, A * (dA - dA.mean(-1, keepdim=True))):
            hint = "The row sum is that of dL/dA times A: a mean weighted by attention."
        elif A.shape[-1] == A.shape[-2] and _same(got, A * (dA - (dA * A).sum(-1))):
            hint = "The row sums line up with the columns; keep their axis with keepdim=True."
        if problem := compare(got, want, on=on, hint=hint):
            return problem
    steps = []
    for rows in (4, 9):
        A = torch.softmax(_random(2, rows, 6, seed=7), -1)
        with Watch() as seen:
            answer(A, A.clone())
        steps.append(len(seen.calls))
    if steps[0] != steps[1]:
        return (
            "the numbers are right, but more rows take more operations: there is a loop. One expression does all rows."
        )
    return None


@exercise
def rebuilt_rows(answer) -> str | None:
    """q, k, lse, start, stop -> rows start to stop - 1 of the causal weights."""
    for T, d, start, stop in ((6, 4, 0, 6), (6, 4, 0, 2), (6, 4, 3, 5), (9, 16, 8, 9), (9, 16, 2, 7)):
        q, k = _random(T, d, seed=T + start), _random(T, d, seed=T + stop + 50)
        _, lse = attention(q, k, k, return_lse=True)
        want = attention_weights(q, k)[start:stop]
        with Watch() as made:
            got = answer(q.clone(), k.clone(), lse.clone(), start, stop)
        on = f"{T} tokens of width {d}, start = {start}, stop = {stop}"
        if got is None:
            raise NotAnswered
        hint = "A row is exp(scores − lse), the scores being q · k / √d, and 0 where the token does not see."
        unseen = torch.exp(q @ k.mT * d**-0.5 - lse[:, None])[start:stop]
        if _same(got, unseen) and not _same(want, unseen):
            hint = "Those rows see their future; token start + i sees keys 0 to start + i."
        elif _same(got, unseen.tril()) and not _same(want, unseen.tril()):
            hint = "Row i of the block is token start + i: the diagonal starts further right."
        elif _same(got, torch.exp(q @ k.mT - lse[:, None]).tril()[start:stop]):
            hint = "The lse belongs to scores divided by √d."
        if problem := compare(got, want, on=on, hint=hint):
            return problem
        if stop - start < T and made.shape_made(T, T):
            return (
                f"for {on} the weights are right, but a {T} × {T} matrix was made; cut q and lse before you multiply."
            )
    return None


@exercise
def forgetful_attention(answer) -> str | None:
    """q, k, v -> causal attention whose forward pass leaves nothing of n² numbers behind."""
    for T, d in ((3, 2), (64, 4), (40, 8)):
        q, k, v, dC = (_random(T, d, seed=10 * T + s) for s in range(4))
        mine, theirs = ([x.clone().requires_grad_() for x in (q, k, v)] for _ in range(2))
        with Watch() as made:
            out = answer(*mine)
        if out is None:
            raise NotAnswered
        on, want = f"{T} tokens of width {d}", attention(*theirs)
        hint = "attention(q, k, v) is causal with scale 1/√d; return its first result."
        if problem := compare(out, want, on=f"{on}, the output", hint=hint):
            return problem
        if not out.requires_grad:
            return f"for {on} the output is right but has no gradient; return YourFunction.apply(q, k, v)."
        gc.collect()
        if 4 * T * d < T * T and (left := made.alive(T * T)):
            return (
                f"for {on} {left} tensor{'s' * (left > 1)} of {T * T:,} numbers or more outlived the forward pass; "
                "keep q, k, v, the output and the log-sum-exp only."
            )
        grads = torch.autograd.grad(out, mine, dC, allow_unused=True)
        for name, got, right in zip("qkv", grads, torch.autograd.grad(want, theirs, dC), strict=True):
            if got is None:
                return f"for {on} the gradient of {name} is None; backward returns one gradient per input."
            hint = "Compare with the page's gradients(), row by row; the factor 1/√d belongs to q and k alone."
            if problem := compare(got, right, on=f"{on}, the gradient of {name}", hint=hint):
                return problem
    return None
