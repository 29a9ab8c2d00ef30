"""Checks for the exercises of linear/capacity."""

import torch
from torch.nn.functional import normalize

from ._answer import NotAnswered, compare, exercise
from ._watch import Watch

F64 = torch.float64


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@exercise
def pairs_held(answer) -> str | None:
    """Numbers, d_k, d_v -> (pairs in one state, pairs in a list)."""
    for numbers, d_k, d_v in ((16384, 128, 128), (16383, 128, 128), (100_000, 128, 256), (5, 2, 2), (3, 2, 1)):
        on = f"numbers = {numbers:,}, d_k = {d_k}, d_v = {d_v}"
        want = (d_k if numbers >= d_k * d_v else 0, numbers // (d_k + d_v))
        got = answer(numbers, d_k, d_v)
        hint = "Return two numbers: first the state's, then the list's."
        try:
            state, listed = (None, None) if got is None else got
        except (TypeError, ValueError):
            return f"for {on} two numbers are wanted, but the answer is {got!r}. {hint}"
        hint = (
            "A state of d_k × d_v numbers tells d_k keys apart, however wide the values; too small a budget holds none."
        )
        if problem := compare(state, want[0], on=f"{on}, the state", hint=hint):
            return problem
        hint = "The list keeps keys and values, d_k + d_v numbers a pair, and only whole pairs."
        if problem := compare(listed, want[1], on=f"{on}, the list", hint=hint):
            return problem
    return None


@exercise
def holding_all(answer) -> str | None:
    """K (m, d) independent, V (m, d_v) -> the state with K S = V that reads 0 at right angles to the keys."""
    close = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0]], dtype=F64)
    cases = [
        ("the first two keys of the page", torch.eye(2, dtype=F64), torch.tensor([[4.0], [1.0]], dtype=F64)),
        ("one key of length 2", torch.tensor([[2.0, 0.0, 0.0]], dtype=F64), torch.tensor([[3.0, 1.0]], dtype=F64)),
        ("two keys close to each other", close, torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=F64)),
        ("five random keys of width 8", _random(5, 8, seed=1), _random(5, 3, seed=2)),
        ("eight random keys of width 8", _random(8, 8, seed=3), _random(8, 4, seed=4)),
    ]
    for on, K, V in cases:
        with Watch() as seen:
            S = answer(K.clone(), V.clone())
        want = torch.linalg.pinv(K) @ V
        if getattr(S, "shape", None) == want.shape:
            hint = "That is what the keys read; each must read its own value. Crosstalk is K Kᵀ away from the identity."
            if problem := compare(K @ S.to(F64), V, on=f"{on}, reading K S", hint=hint):
                return problem
        hint = "All keys read right, but a key at a right angle to them does not read 0: build S as Kᵀ times something."
        if problem := compare(S, want, on=on, hint=hint):
            return problem
        if name := seen.called("pinv", "lstsq", "svd", "eig"):
            return f"for {on} the state is right, but `{name}` found it. Solve a square system of m equations instead."
    return None


@exercise
def sharp_scale(answer) -> str | None:
    """K (m, d) unit keys, w -> the smallest scale at which every key, asked with itself, gets weight w."""
    square = torch.eye(3, dtype=F64)
    near = torch.tensor([[1.0, 0.0], [0.8, 0.6]], dtype=F64)
    one_pair = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.8, 0.6, 0.0]], dtype=F64)
    random = normalize(_random(20, 8, seed=5), dim=-1)
    cases = [
        ("three keys at right angles, w = 0.9", square, 0.9, "All others lie at a right angle: this you can solve."),
        ("two keys with overlap 0.8, w = 0.9", near, 0.9, "Keys nearer to each other need a larger scale."),
        (
            "three keys, two of them near, w = 0.9",
            one_pair,
            0.9,
            "Every key is to have the weight, also the worst off.",
        ),
        (
            "20 random keys, w = 0.5",
            random,
            0.5,
            "No formula: try scales and watch the weights.",
        ),
        (
            "two keys with overlap 0.8, w = 0.25",
            near,
            0.25,
            "An equal share is more than that already: no scale below 0.",
        ),
    ]
    for on, K, w, hint in cases:
        got = answer(K.clone(), w)
        if got is None:
            raise NotAnswered
        want = _smallest_scale(K, w)
        if problem := compare(got, want, on=on, hint=f"{_worst_off(got, K, w)}{hint}", tolerance=1e-4):
            return problem
    return None


def _weights(K: torch.Tensor, scale: float) -> torch.Tensor:
    """The weight of each key when it is asked with itself."""
    return (scale * K @ K.mT).softmax(-1).diagonal()


def _smallest_scale(K: torch.Tensor, w: float) -> float:
    low, high = 0.0, 1.0
    while _weights(K, high).min() < w:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _weights(K, middle).min() >= w else (middle, high)
    return high


def _worst_off(scale, K: torch.Tensor, w: float) -> str:
    """What the answer's own scale gives, if it is one."""
    try:
        least = _weights(K, float(scale)).min().item()
    except (TypeError, ValueError, RuntimeError):
        return "A single number is wanted. "
    said = f"At your scale the key that is worst off has the weight {least:.3g}, wanted is {w:g}. "
    return said + "Not all keys lie as near as the nearest two. " * (len(K) > 2 and least > w)


@exercise
def decayed_error(answer) -> str | None:
    """Age a, m pairs, width d, decay alpha -> expected squared error of a decayed sum."""
    cases = [(0, 1, 8, 0.5), (0, 33, 32, 1.0), (0, 3, 2, 0.5), (2, 3, 2, 0.5), (10, 64, 32, 0.97), (63, 64, 32, 0.97)]
    for a, m, d, alpha in cases:
        want = (1 - alpha**a) ** 2 + sum(alpha ** (2 * b) for b in range(m) if b != a) / d
        hint = (
            "Two errors add up: what decay has taken from the pair's own value, and the crosstalk of every other pair, "
            "each as faded as its own age says."
        )
        if m == 1:
            hint = "One pair, just written: nothing has faded, and nobody disturbs it."
        elif alpha == 1.0:
            hint = "Without decay this is the additive state of the page; how large was its crosstalk?"
        on = f"a = {a}, m = {m}, d = {d}, alpha = {alpha}"
        if problem := compare(answer(a, m, d, alpha), want, on=on, hint=hint):
            return problem
    return None
