"""Checks for the exercises of cost/limits."""

import math

import torch

from attnledger.ops.softmax import attention

from ._answer import NotAnswered, compare, exercise

F64 = torch.float64


@exercise
def lead_needed(answer) -> str | None:
    """w, n -> the lead that gives weight w among n candidates."""
    hint = "Divide what the key holds by what all others hold; one of the n candidates is the key itself."
    for w, n in ((0.5, 2), (0.75, 4), (0.25, 10), (0.5, 131_072), (0.9, 512)):
        want = math.log((n - 1) * w / (1 - w))
        if problem := compare(answer(w, n), want, on=f"w = {w:g}, n = {n:,}", hint=hint):
            return problem
    return None


@exercise
def softmax_with_a_way_out(answer) -> str | None:
    """scores (..., n) -> weights with one more key of score 0 that takes the rest."""
    source = torch.Generator().manual_seed(0)
    cases = [
        ("one score of 0", torch.zeros(1, dtype=F64), "One key of score 0 shares with the one that is not there."),
        ("scores ln 3, 0, 0", torch.tensor([math.log(3), 0, 0], dtype=F64), "The sum below is 3 + 1 + 1, plus 1."),
        (
            "two rows",
            torch.randn(2, 5, generator=source, dtype=F64),
            "Each row has its own sum, over the last axis.",
        ),
        ("scores of −1000", torch.full((3,), -1000.0, dtype=F64), "All weight takes the way out: the row sums to 0."),
        (
            "scores of 1000",
            torch.tensor([1000.0, 1000.0, 0], dtype=F64),
            "e to the 1000 overflows: subtract the maximum, from the extra score as well.",
        ),
    ]
    for on, scores, hint in cases:
        want = torch.cat([scores, torch.zeros_like(scores[..., :1])], -1).softmax(-1)[..., :-1]
        if problem := compare(answer(scores.clone()), want, on=on, hint=hint):
            return problem
    return None


@exercise
def stream_mask(answer) -> str | None:
    """T, window, sinks -> boolean (T, T) of what a stream with sinks may see."""
    hints = {
        "future": "no token sees the future, not even a sink that is still to come.",
        "window": "a window of w counts the query itself: with window = 1 a token sees itself.",
        "sinks": "the first tokens stay visible to all later ones, however far away.",
    }
    for T, window, sinks in ((5, 5, 0), (6, 1, 0), (6, 3, 0), (8, 2, 1), (8, 3, 4), (4, 2, 9)):
        got = answer(T, window, sinks)
        if got is None:
            raise NotAnswered
        i, j = torch.arange(T)[:, None], torch.arange(T)
        want = (j <= i) & ((i - j < window) | (j < sinks))
        on = f"T = {T}, window = {window}, sinks = {sinks}"
        if not isinstance(got, torch.Tensor) or got.dtype != torch.bool:
            return f"for {on} a boolean tensor is wanted, as attention takes it for a mask."
        if got.shape == want.shape and not torch.equal(got, want):
            row, column = (got != want).nonzero()[0].tolist()
            kind = "future" if column > row else "sinks" if column < sinks and row - column >= window else "window"
            seen = "is" if got[row, column] else "is not"
            return f"for {on}, key {column} {seen} visible to query {row}; {hints[kind]}"
        if problem := compare(got, want, on=on):
            return problem
    return None


def _layer(causal: bool, positions: bool = False, mask: torch.Tensor | None = None):
    source = torch.Generator().manual_seed(1)
    W = torch.randn(3, 4, 4, generator=source, dtype=F64)
    place = torch.randn(6, 4, generator=source, dtype=F64) if positions else 0.0

    def f(x):
        h = x.to(F64) + place
        return attention(h @ W[0], h @ W[1], h @ W[2], causal=causal, mask=mask).to(x.dtype)

    return f


def _keeps_last(x):
    return torch.cat([x[:-1] * 2, x[-1:]])


@exercise
def is_equivariant(answer) -> str | None:
    """f, T, d -> whether f(x[order]) = f(x)[order] for all orders."""
    same_place = torch.eye(6, dtype=torch.bool)
    cases = [
        ("attention without a mask", _layer(False), True, "Compare f(x[order]) with f(x)[order], up to rounding."),
        ("a function of each token alone", torch.tanh, True, "What every token does alone does not depend on order."),
        ("attention with a causal mask", _layer(True), False, "The first token sees one key, the last sees all."),
        ("attention with positions added", _layer(False, True), False, "The positions stay where they are."),
        ("attention of each token to itself", _layer(False, mask=same_place), True, "This mask moves with the tokens."),
        (
            "a function that doubles all tokens but the last",
            _keeps_last,
            False,
            "An order that leaves the last place alone cannot see it: use orders that move every place.",
        ),
        ("a function that reverses the tokens", lambda x: x.flip(0), False, "Compare with f(x)[order], not with f(x)."),
        (
            "the mean of all tokens, in every row",
            lambda x: x.to(F64).mean(0, keepdim=True).to(x.dtype).expand_as(x),
            True,
            "Equal rows may be permuted as you like.",
        ),
    ]
    for on, f, want, hint in cases:
        got = answer(f, 6, 4)
        if got is None:
            raise NotAnswered
        if isinstance(got, torch.Tensor) and got.numel() == 1:
            got = bool(got)
        if not isinstance(got, bool):
            return f"for {on} True or False is wanted, but the answer is a {type(got).__name__}."
        if got != want:
            return f"{on} {'is' if want else 'is not'} equivariant, but the answer says {got}. {hint}"
    return None
