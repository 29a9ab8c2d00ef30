"""Checks for the exercises of linear/gating."""

import math

import torch
from torch.nn.functional import normalize

from attnledger.ops.delta import recurrent_delta_rule

from ._answer import compare, exercise
from ._watch import Watch

F64 = torch.float64


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@exercise
def decay_for_half_life(answer) -> str | None:
    """tokens, later -> (g per token, share left after `later` tokens)."""
    for tokens, later in ((1, 1), (1, 3), (100, 100), (100, 10), (4096, 1)):
        on = f"tokens = {tokens:,}, later = {later:,}"
        want = (-math.log(2) / tokens, 0.5 ** (later / tokens))
        got = answer(tokens, later)
        try:
            g, share = (None, None) if got is None else got
        except (TypeError, ValueError):
            return f"for {on} two numbers are wanted, g and the share, but the answer is {got!r}."
        hint = "g is the natural logarithm of the decay of one token: at most 0, and `tokens` of them add up to ln ½."
        if problem := compare(g, want[0], on=f"{on}, g", hint=hint, tolerance=1e-9):
            return problem
        hint = "The share left is e to the sum of the g of `later` tokens."
        if problem := compare(share, want[1], on=f"{on}, the share", hint=hint):
            return problem
    return None


@exercise
def kda_one_step(answer) -> str | None:
    """S, k, v, beta, g -> the state after one token of KDA."""
    page = (torch.tensor([[5.0], [0.0]]), torch.tensor([0.6, 0.8]), torch.tensor([10.0]), 1.0)
    unit = normalize(_random(4, seed=1), dim=0)
    two, four, gates = torch.ones(2), torch.ones(4), -_random(4, seed=4).abs()
    axis = (
        "Nothing is written here, so each channel of the keys only fades: along which axis do they lie, and what is g?"
    )
    order = (
        "Compare with both orders of the page's hand calculation: is what the key reads taken before or after fading?"
    )
    square = "Rows and columns are equally many here; which of them belong to the keys?"
    write = "How much of what the key reads is replaced, and is the write along the key?"
    cases = [
        ("a state of 4 × 2 and β = 0, which only forgets", axis, _random(4, 2, seed=2), unit, two, 0.0, gates),
        ("the page's example without decay", "This is a step of the plain delta rule.", *page, torch.zeros(2)),
        ("the page's example, decays ½ and 1", order, *page, torch.tensor([math.log(0.5), 0.0])),
        ("a state of 4 × 2 and β = 0.5", write, _random(4, 2, seed=3), unit, two, 0.5, gates),
        ("a state of 4 × 4", square, _random(4, 4, seed=5), unit, four, 1.0, -_random(4, seed=6).abs()),
    ]
    for on, hint, S, k, v, beta, g in cases:
        S, k, v, g = (x.to(F64) for x in (S, k, v, g))
        strength = torch.tensor([beta], dtype=F64)
        _, want = recurrent_delta_rule(k[None], k[None], v[None], beta=strength, g=g[None], state=S, return_state=True)
        if problem := compare(answer(S.clone(), k.clone(), v.clone(), beta, g.clone()), want, on=on, hint=hint):
            return problem
    return None


@exercise
def lowest_gate_bound(answer) -> str | None:
    """tile, largest -> the lowest bound of g for which no factor of the tile exceeds `largest`."""
    for tile, dtype in ((16, torch.float32), (16, torch.bfloat16), (2, torch.float16), (64, torch.float32)):
        largest = torch.finfo(dtype).max
        on = f"tile = {tile}, the largest number of {str(dtype).removeprefix('torch.')}"
        hint = (
            "Which token of the tile has the largest factor, and how many decays lie between it and the first token? "
            "g_min itself is negative, and a natural logarithm."
        )
        if problem := compare(answer(tile, largest), -math.log(largest) / (tile - 1), on=on, hint=hint):
            return problem
    return None


@exercise
def across_border(answer) -> str | None:
    """Q, g_q, K, g_k of two neighbouring tiles -> the block of decayed scores."""
    Q, K = _random(4, 3, seed=7), _random(5, 3, seed=8)
    mixed = (-_random(4, 3, seed=9).abs(), -_random(5, 3, seed=10).abs())
    strong = (mixed[0].clone(), mixed[1].clone())
    strong[0][-1], strong[1][0] = -1000.0, -1000.0
    last = (torch.zeros(4, 3, dtype=F64), torch.zeros(5, 3, dtype=F64))
    last[1][:3] = -1000.0
    cases = [
        ("no decay at all", torch.zeros(4, 3, dtype=F64), torch.zeros(5, 3, dtype=F64)),
        ("moderate gates", *mixed),
        ("−1000 on the first key and the last query", *strong),
        ("−1000 on the first three keys, 0 elsewhere", *last),
        ("−1000 everywhere", torch.full((4, 3), -1000.0, dtype=F64), torch.full((5, 3), -1000.0, dtype=F64)),
    ]
    for on, g_q, g_k in cases:
        with Watch() as seen:
            got = answer(Q.clone(), g_q.clone(), K.clone(), g_k.clone())
        want = torch.zeros(4, 5, dtype=F64)
        for i in range(4):
            for j in range(5):
                between = g_k[j + 1 :].sum(0) + g_q[: i + 1].sum(0)  # the gates after key j, through query i
                want[i, j] = (Q[i] * K[j] * between.exp()).sum()
        if isinstance(got, torch.Tensor) and not bool(got.isfinite().all()):
            return f"for {on} the answer is not finite. Some factor exceeds 1: measure both decays from the border."
        hint = (
            "Query i has decayed by its tile's gates up to and with its own; key j by the gates after its own, "
            "its own not included."
        )
        if problem := compare(got, want, on=on, hint=hint):
            return problem
        if (products := seen.products()) != 1:
            return f"for {on} the scores are right, but by {products} matrix products. One is asked, of Q with K."
    return None
