"""Checks for the exercises of linear/linear-attention."""

import torch

from attnledger.costs import state_crossover_tokens
from attnledger.ops.linear import identity, linear_attention

from ._answer import NotAnswered, compare, exercise
from ._watch import Watch

F64 = torch.float64


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def _same(got, want) -> bool:
    return compare(got, want, on="") is None


@exercise
def fourth_write(answer) -> str | None:
    """The answer to q = (0, 1) after a fourth pair k = (1, 1), v = (1, 2)."""
    keys = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=F64)
    values = torch.tensor([[2.0, 0.0], [0.0, 3.0], [5.0, 5.0], [1.0, 2.0]], dtype=F64)
    S, z = keys.T @ values, keys.sum(0)
    if _same(answer, S[1]):
        return "that is the numerator q S alone; divide it by q · z."
    if _same(answer, S[1] / 4):
        return "you divided by the number of writes; divide by q · z, which counts only what q matches."
    if _same(answer, S[0] / z[0]):
        return "that answers q = (1, 0); the question is q = (0, 1), which reads the second row."
    if _same(answer, [5, 5]):
        return "that is the answer before the fourth write; its key (1, 1) has a part along (0, 1), so it is read too."
    hint = "Take both S and z through the fourth write: which rows of the state does the key (1, 1) reach?"
    return compare(answer, S[1] / z[1], on="q = (0, 1)", hint=hint, reveal=False)


@exercise
def bracket_tie(answer) -> str | None:
    """r, d_v -> tokens at which both bracketings do equally many multiply-adds."""
    for r, d_v in ((128, 128), (64, 64), (64, 128), (512, 128), (16, 48)):
        hint = (
            "Each order is two matrix products. Count the multiply–adds of all four: how often does n occur in each, "
            "and do r and d_v play the same part?"
        )
        if problem := compare(answer(r, d_v), 2 * r * d_v / (r + d_v), on=f"r = {r}, d_v = {d_v}", hint=hint):
            return problem
    return None


@exercise
def tokens_until_state_pays(answer) -> str | None:
    """h, h_kv, d_h, r, state_bytes, cache_bytes -> tokens at which the cache is as large as the states and z."""
    cases = [(32, 8, 128, 128, 2, 2), (32, 8, 128, 128, 4, 2), (8, 8, 128, 128, 2, 2), (16, 2, 64, 256, 4, 1)]
    for h, h_kv, d_h, r, state_bytes, cache_bytes in cases:
        numbers, per_token = h * (r * d_h + r), 2 * h_kv * d_h
        want = state_crossover_tokens(
            kv_numbers=per_token,
            state_numbers=numbers,
            kv_bytes_per_number=cache_bytes,
            state_bytes_per_number=state_bytes,
        )
        got = answer(h, h_kv, d_h, r, state_bytes, cache_bytes)
        on = f"h = {h}, h_kv = {h_kv}, d_h = {d_h}, r = {r}, {state_bytes} against {cache_bytes} bytes"
        hint = "What does the layer keep whatever the text, what does one more token add, and in how many bytes each?"
        if _same(got, h * r * d_h * state_bytes / (per_token * cache_bytes)):
            hint = "That is the state without z: every head also keeps a vector of r numbers."
        elif _same(got, 2 * want):
            hint = "A token adds a key and a value: 2 h_kv d_h numbers, not h_kv d_h."
        elif _same(got, numbers / per_token):
            hint = "That compares numbers; compare bytes, each with its own size."
        if problem := compare(got, want, on=on, hint=hint):
            return problem
    return None


@exercise
def prefix_sum_attention(answer) -> str | None:
    """Features of q and k, and v -> causal normalised linear attention, without a loop over tokens."""
    cases = [
        ("the page's three pairs", _PAGE_K, _PAGE_K, _PAGE_V),
        ("T = 7, r = 3, d_v = 2", _random(7, 3, seed=1).abs(), _random(7, 3, seed=2).abs(), _random(7, 2, seed=3)),
        ("T = 1", torch.ones(1, 2, dtype=F64), torch.ones(1, 2, dtype=F64), _random(1, 4, seed=4)),
        ("two heads", _random(2, 5, 3, seed=5).abs(), _random(2, 5, 3, seed=6).abs(), _random(2, 5, 4, seed=7)),
        ("a query that matches nothing yet", _EYE, _EYE.flip(0), torch.ones(2, 2, dtype=F64)),
    ]
    for on, q, k, v in cases:
        want = linear_attention(q, k, v, feature_map=identity)
        got = answer(q.clone(), k.clone(), v.clone())
        if got is None:
            raise NotAnswered
        if _same(got, linear_attention(q, k, v, feature_map=identity, causal=False)) and not _same(want, got):
            return (
                f"for {on} every token reads the whole sequence: it sees its future. Sum up to token t only (cumsum)."
            )
        if _same(got, linear_attention(q, k, v, feature_map=identity, normalize=False)) and not _same(want, got):
            return f"for {on} that is the numerator; divide by the prefix sum of the keys' features, read with q."
        if "nothing" in on:
            hint = "The denominator is 0 there: answer 0 instead of dividing (masked_fill it before you divide)."
        else:
            hint = "Token t reads a state and a z of its own: of what are they the sums, and up to which token?"
        if problem := compare(got, want, on=on, hint=hint):
            return problem
    steps = []
    for T in (6, 11):
        q, k, v = _random(T, 3, seed=8).abs(), _random(T, 3, seed=9).abs(), _random(T, 2, seed=10)
        with Watch() as seen:
            answer(q, k, v)
        steps.append(len(seen.calls))
        if seen.shape_made(T, T):
            return f"the numbers are right, but for {T} tokens a {T} × {T} matrix was made. Sum states, not scores."
    if steps[0] != steps[1]:
        return "the numbers are right, but more tokens take more operations: there is a loop. cumsum does them all."
    return None


_EYE = torch.eye(2, dtype=F64)
_PAGE_K = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=F64)
_PAGE_V = torch.tensor([[2.0, 0.0], [0.0, 3.0], [5.0, 5.0]], dtype=F64)


@exercise
def squared_kernel_features(answer) -> str | None:
    """x (..., T, d) -> features whose dot products are the squares of the inputs' dot products."""
    cases = [
        ("q = (1, 2), k = (3, −1)", torch.tensor([[1.0, 2.0]], dtype=F64), torch.tensor([[3.0, -1.0]], dtype=F64)),
        ("T = 4, d = 3", _random(4, 3, seed=1), _random(5, 3, seed=2)),
        ("d = 1", _random(3, 1, seed=3), _random(3, 1, seed=4)),
        ("two heads, d = 4", _random(2, 3, 4, seed=5), _random(2, 3, 4, seed=6)),
    ]
    for on, q, k in cases:
        phi_q, phi_k = answer(q.clone()), answer(k.clone())
        if phi_q is None or phi_k is None:
            raise NotAnswered
        for name, x, phi in (("φ(q)", q, phi_q), ("φ(k)", k, phi_k)):
            if not isinstance(phi, torch.Tensor) or phi.shape[:-1] != x.shape[:-1]:
                found = tuple(getattr(phi, "shape", ())) or type(phi).__name__
                return f"for {on} {name} wants one row of features per token, {(*x.shape[:-1], 'r')}; got {found}."
        hint = "(q · k)² is a sum over pairs of channels, Σ q_a q_b k_a k_b: one feature x_a x_b per pair."
        if _same(phi_q @ phi_k.mT, q.square() @ k.square().mT) and q.shape[-1] > 1:
            hint = "You kept the squares x_a² only; the mixed products x_a x_b with a ≠ b are missing."
        if problem := compare(phi_q @ phi_k.mT, (q @ k.mT).square(), on=f"{on}, φ(q)·φ(k)", hint=hint):
            return problem
    return None
