"""Checks for the exercises of linear/delta-rule."""

import torch

from attnledger.ops.delta import delta_rule

from ._answer import compare, exercise
from ._watch import Watch

F64 = torch.float64


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@exercise
def overwrite_any_length(answer) -> str | None:
    """S, k, v -> the state after which k answers exactly v, whatever the length of k."""
    cases = [
        (
            "the page's S = [[0]], k = [2], v = [3]",
            torch.zeros(1, 1, dtype=F64),
            torch.tensor([2.0]),
            torch.tensor([3.0]),
        ),
        ("a unit key", _random(3, 2, seed=1), torch.tensor([0.6, 0.0, 0.8]), torch.tensor([1.0, -1.0])),
        ("k = [3, 4, 0]", _random(3, 2, seed=2), torch.tensor([3.0, 4.0, 0.0]), torch.tensor([5.0, 7.0])),
        ("a key of length 0.001", _random(2, 2, seed=3), torch.tensor([6e-4, 8e-4]), torch.tensor([1.0, 2.0])),
    ]
    for on, S, k, v in cases:
        k, v = k.to(F64), v.to(F64)
        new = answer(S.clone(), k.clone(), v.clone())
        if new is not None and tuple(getattr(new, "shape", ())) == tuple(S.shape):
            hint = "That is what k itself must read, so k S must come out as v: put the write into the formula for k S."
            if problem := compare(k @ new.to(F64), v, on=f"{on}, reading k S", hint=hint):
                return problem
        norm = float(k @ k)
        want = S + torch.outer(k, (v - k @ S) / norm)
        hint = "Keys at a right angle to k must read what they read before: write along k only."
        if problem := compare(new, want, on=on, hint=hint):
            return problem
    S = _random(2, 2, seed=4)
    hint = "A key of length 0 reads 0 whatever the state is; leave the state as it was."
    return compare(
        answer(S.clone(), torch.zeros(2, dtype=F64), torch.ones(2, dtype=F64)), S, on="k = [0, 0]", hint=hint
    )


@exercise
def parity_strengths(answer) -> str | None:
    """bits -> the write strengths that make a one-number state +1 or −1 by the parity of the bits."""
    for bits in ([1], [0], [1, 1], [1, 0, 1, 1, 0], [0, 0, 1], [1] * 9):
        on = f"bits = {bits}"
        strengths = answer(list(bits))
        if problem := compare(_count(strengths), len(bits), on=f"{on}, the number of strengths", hint="One per bit."):
            return problem
        beta = torch.as_tensor(strengths, dtype=F64)
        if bool(((beta < 0) | (beta > 2)).any()):
            return f"for {on} a strength lies outside [0, 2], where the update is not stable."
        ones = torch.ones(len(bits), 1, dtype=F64)
        reads = delta_rule(ones, ones, 0 * ones, beta=beta, state=torch.ones(1, 1, dtype=F64))[:, 0]
        want = 1.0 - 2.0 * (torch.tensor(bits, dtype=F64).cumsum(0) % 2)
        hint = "A write with v = 0 multiplies the state by 1 − β: which factor flips the sign, which leaves it alone?"
        if problem := compare(reads, want, on=f"{on}, the readouts", hint=hint):
            return problem
    return None


def _count(strengths) -> int | None:
    """How many numbers the answer is: 0 for what is not a list of numbers."""
    if strengths is None:
        return None
    try:
        tensor = torch.as_tensor(strengths, dtype=F64)
    except Exception:
        return 0
    return len(tensor) if tensor.ndim == 1 and bool(torch.isfinite(tensor).all()) else 0


@exercise
def unit_lower_inverse(answer) -> str | None:
    """A strictly lower triangular -> (I + A)⁻¹, row by row."""
    same = torch.full((64, 64), 2.0, dtype=F64).tril(-1)
    cases = [
        ("the page's 3 × 3 chunk", torch.tensor([[0.0, 0.0, 0.0], [0.6, 0.0, 0.0], [1.0, 0.6, 0.0]], dtype=F64)),
        ("one token, A = [[0]]", torch.zeros(1, 1, dtype=F64)),
        ("random overlaps, C = 16", _random(16, 16, seed=5).tril(-1) / 4),
        ("64 equal unit keys with β = 2", same),
    ]
    hint = (
        "Row i of (I + A) T = I says: T_i + Σ_{j<i} A_ij T_j = e_i, and the rows above are already known. If only the "
        "last case is off, you are summing powers of A, which grow beyond what a float can cancel."
    )
    for on, A in cases:
        given = A.clone()
        with Watch() as seen:
            T = answer(given)
        eye = torch.eye(len(A), dtype=F64)
        want = torch.linalg.solve_triangular(eye + A, eye, upper=False, unitriangular=True)
        if problem := compare(T, want, on=on, hint=hint):
            return problem
        if name := seen.called("inv", "solve", "lstsq", "svd", "cholesky"):
            return f"for {on} the numbers are right, but `{name}` of the library found them. Go row by row yourself."
        if not torch.equal(given, A):
            return f"for {on} the answer changed A itself; work on a copy, the caller still needs A."
    return None


@exercise
def protected_write(answer) -> str | None:
    """S, k, v, protected -> the smallest change after which k answers v and every protected key what it answered."""
    base = torch.tensor([[1.0, 0.0, 0.0]], dtype=F64)
    k = torch.tensor([0.6, 0.8, 0.0], dtype=F64)
    many = _random(3, 6, seed=6)
    cases = [
        ("one protected key at 53° from k", _random(3, 2, seed=7), k, base),
        ("no protected key", _random(3, 2, seed=8), k, base[:0]),
        ("three protected keys in 6 dimensions", _random(6, 4, seed=9), _random(6, seed=10), many),
        ("a protected key listed twice", _random(6, 4, seed=11), _random(6, seed=12), many[[0, 1, 0]]),
    ]
    for on, S, k, protected in cases:
        v = _random(S.shape[1], seed=13)
        new = answer(S.clone(), k.clone(), v.clone(), protected.clone())
        keys = torch.cat([protected, k[None]])
        wrong = torch.cat([torch.zeros(len(protected), len(v), dtype=F64), (v - k @ S)[None]])
        want = S + torch.linalg.pinv(keys) @ wrong
        if getattr(new, "shape", None) == S.shape:
            new = new.to(F64)
            hint = "k must read v afterwards: divide by the overlap of k with the direction you write along."
            if problem := compare(k @ new, v, on=f"{on}, reading k", hint=hint):
                return problem
            hint = (
                "A protected key moved: write along a direction that is at a right angle to all of them, not along k."
            )
            if problem := compare(protected @ new, protected @ S, on=f"{on}, reading the protected keys", hint=hint):
                return problem
        hint = "Both conditions hold, but directions that nobody asked about changed more than they need to."
        if problem := compare(new, want, on=on, hint=hint):
            return problem
    return None
