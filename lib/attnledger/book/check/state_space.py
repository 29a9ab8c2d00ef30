"""Checks for the exercises of linear/state-space."""

import math

import torch

from ._answer import compare, exercise

F64 = torch.float64


@exercise
def step_for_half_life(answer) -> str | None:
    """rate A < 0, tokens -> the step Δ at which half of the state is left after `tokens` tokens."""
    for rate, tokens in ((-1.0, 1), (-1.0, 100), (-16.0, 100), (-0.25, 3)):
        on = f"A = {rate:g}, tokens = {tokens}"
        hint = (
            "`tokens` steps multiply the state by e to the power of tokens · Δ · A; that must be ½, and Δ is positive."
        )
        if problem := compare(answer(rate, tokens), -math.log(2) / (rate * tokens), on=on, hint=hint, tolerance=1e-9):
            return problem
    return None


@exercise
def zero_order_hold(answer) -> str | None:
    """delta, A, B -> (Ā, B̄) of the zero-order hold, with A = 0 as its limit."""
    for delta, rate, write in (
        (0.5, -1.0, 1.0),
        (2.0, -3.0, 0.7),
        (0.0, -1.0, 1.0),
        (0.3, 0.0, 2.0),
        (0.001, -1e-9, 5.0),
    ):
        on = f"Δ = {delta:g}, A = {rate:g}, B = {write:g}"
        got = answer(delta, rate, write)
        try:
            keep, put = (None, None) if got is None else got
        except (TypeError, ValueError):
            return f"for {on} two numbers are wanted, what is kept and what is written, but the answer is {got!r}."
        hint = "The state is multiplied by the exponential of Δ A."
        if problem := compare(keep, math.exp(delta * rate), on=f"{on}, Ā", hint=hint, tolerance=1e-9):
            return problem
        want = delta * write if rate == 0 else math.expm1(delta * rate) / rate * write
        hint = (
            "B̄ is (e^{ΔA} − 1)/A times B. Where A is 0 its limit is wanted, and near 0 `math.expm1` keeps the digits."
        )
        if problem := compare(put, want, on=f"{on}, B̄", hint=hint, tolerance=1e-9):
            return problem
    return None


@exercise
def state_pays_after(answer) -> str | None:
    """d_model, rows, width, kv_numbers, state_bytes, cache_bytes -> tokens at which layer and cache hold as much."""
    for case in (
        (4096, 16, 4, 2048, 2, 2),
        (4096, 16, 4, 2048, 4, 2),
        (4096, 256, 4, 2048, 2, 2),
        (1024, 16, 2, 512, 2, 1),
    ):
        d_model, rows, width, kv, state_bytes, cache_bytes = case
        on = (
            f"d_model = {d_model}, rows = {rows}, width = {width}, kv_numbers = {kv}, "
            f"state_bytes = {state_bytes}, cache_bytes = {cache_bytes}"
        )
        inner = 2 * d_model
        want = (inner * rows * state_bytes + inner * (width - 1) * cache_bytes) / (kv * cache_bytes)
        hint = (
            "The layer holds two things, its states and past inputs of the convolution. How wide is it inside, how "
            "many inputs are past, and how many bytes has a number of each?"
        )
        if problem := compare(answer(*case), want, on=on, hint=hint):
            return problem
    return None


@exercise
def combine_steps(answer) -> str | None:
    """(a, b) and a later (a, b) -> the one step that does both."""

    def random(*shape: int, seed: int) -> torch.Tensor:
        return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64) + 0.1

    cases = [
        ("first = (½, 8), second = (½, 4)", [torch.tensor(x, dtype=F64) for x in (0.5, 8.0, 0.5, 4.0)]),
        ("states of 3 × 2", [random(3, 2, seed=s) for s in range(4)]),
        (
            "a second step that resets",
            [random(4, seed=5), random(4, seed=6), torch.zeros(4, dtype=F64), random(4, seed=7)],
        ),
    ]
    for on, (a1, b1, a2, b2) in cases:
        got = answer((a1.clone(), b1.clone()), (a2.clone(), b2.clone()))
        try:
            a, b = (None, None) if got is None else got
        except (TypeError, ValueError):
            return f"for {on} a pair (a, b) is wanted, but the answer is a {type(got).__name__}."
        hint = "Apply the first step to a state h, then the second to the result, and collect what multiplies h."
        if problem := compare(a, a2 * a1, on=f"{on}, a", hint=hint):
            return problem
        hint = "What the first step wrote is decayed by the second step before the second writes."
        if problem := compare(b, a2 * b1 + b2, on=f"{on}, b", hint=hint):
            return problem
    return None
