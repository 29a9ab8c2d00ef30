"""The checks of linear/delta-rule: right answers pass, typical wrong ones get a message that helps, junk survives."""

import pytest
import torch

from attnledger.book import check
from attnledger.book.check import delta_rule


def overwrite(S, k, v):
    square = k @ k
    return S if square == 0 else S + torch.outer(k, (v - k @ S) / square)


def strengths(bits):
    return [2.0 * bit for bit in bits]


def inverse(A):
    T = torch.eye(len(A), dtype=A.dtype)
    for i in range(1, len(A)):
        T[i] -= A[i, :i] @ T[:i]
    return T


def write_beside(S, k, v, protected):
    free = k - k @ torch.linalg.pinv(protected) @ protected
    return S + torch.outer(free, v - k @ S) / (free @ k)


def column_by_column(A):
    T = torch.eye(len(A), dtype=A.dtype)
    for j in range(len(A) - 1):
        T = T - torch.outer(A[:, j], T[j])
    return T


def by_library(A):
    return torch.linalg.inv(torch.eye(len(A), dtype=A.dtype) + A)


def by_solver(A):
    eye = torch.eye(len(A), dtype=A.dtype)
    return torch.linalg.solve_triangular(eye + A, eye, upper=False)


def other_write_beside(S, k, v, protected):
    """By least squares on all conditions at once."""
    keys = torch.cat([protected, k[None]])
    change = torch.cat([torch.zeros(len(protected), len(v), dtype=S.dtype), (v - k @ S)[None]])
    return S + torch.linalg.pinv(keys) @ change


RIGHT = [
    ("overwrite_any_length", overwrite),
    ("parity_strengths", strengths),
    ("parity_strengths", lambda bits: torch.tensor(bits) * 2),
    ("unit_lower_inverse", inverse),
    ("unit_lower_inverse", column_by_column),
    ("protected_write", write_beside),
    ("protected_write", other_write_beside),
]


@pytest.mark.parametrize("name, answer", RIGHT)
def test_a_right_answer_passes(name, answer):
    verdict = getattr(check, name)(answer)
    assert verdict.right is True, verdict.message


def unscaled(S, k, v):
    return S + torch.outer(k, v - k @ S)


def normalised_key(S, k, v):
    unit = k / k.norm().clamp(min=1e-12)
    return S + torch.outer(unit, v - unit @ S)


def one_norm_too_few(S, k, v):
    return S + torch.outer(k, v - k @ S) / k.norm().clamp(min=1e-12)


def divides_by_zero(S, k, v):
    return S + torch.outer(k, (v - k @ S) / (k @ k))


def forgets_everything(S, k, v):
    return torch.outer(k, v) / (k @ k).clamp(min=1e-30)


def neumann(A):
    T, power = torch.eye(len(A), dtype=A.dtype) - A, A
    for _ in range(6):
        power = power @ power
        T = T + T @ power
    return T


def first_order(A):
    return torch.eye(len(A), dtype=A.dtype) - A


def no_inverse(A):
    return torch.eye(len(A), dtype=A.dtype) + A


def in_place(A):
    result = inverse(A)
    A.copy_(result)
    return result


def along_the_key(S, k, v, protected):
    return S + torch.outer(k, v - k @ S) / (k @ k)


def not_rescaled(S, k, v, protected):
    free = k - k @ torch.linalg.pinv(protected) @ protected
    return S + torch.outer(free / free.norm(), v - k @ S)


def one_after_the_other(S, k, v, protected):
    """Projects out protected keys one by one although they overlap."""
    free = k.clone()
    for p in protected:
        free = free - (free @ p) / (p @ p) * p
    return S + torch.outer(free, v - k @ S) / (free @ k)


def by_gram_matrix(S, k, v, protected):
    """Fails when a protected key is listed twice: the Gram matrix has no inverse."""
    free = k - k @ protected.mT @ torch.linalg.inv(protected @ protected.mT) @ protected
    return S + torch.outer(free, v - k @ S) / (free @ k)


def larger_than_needed(S, k, v, protected):
    keys = torch.cat([protected, k[None]])
    aside = torch.eye(len(k), dtype=S.dtype) - torch.linalg.pinv(keys) @ keys
    return write_beside(S, k, v, protected) + aside @ torch.ones_like(S)


WRONG = [
    ("overwrite_any_length", unscaled, "reading k S"),
    ("overwrite_any_length", normalised_key, "reading k S"),
    ("overwrite_any_length", one_norm_too_few, "reading k S"),
    ("overwrite_any_length", forgets_everything, "right angle"),
    ("overwrite_any_length", divides_by_zero, "length 0"),
    ("parity_strengths", lambda bits: bits, "1 − β"),
    ("parity_strengths", lambda bits: [1.0 - b for b in bits], "1 − β"),
    ("parity_strengths", lambda bits: [2.0 - 2 * b for b in bits], "1 − β"),
    ("parity_strengths", lambda bits: [-2.0 * b for b in bits], "outside"),
    ("parity_strengths", lambda bits: 2.0, "One per bit"),
    ("unit_lower_inverse", neumann, "64 equal unit keys"),
    ("unit_lower_inverse", first_order, "3 × 3 chunk"),
    ("unit_lower_inverse", no_inverse, "3 × 3 chunk"),
    ("unit_lower_inverse", in_place, "changed A"),
    ("unit_lower_inverse", by_library, "`linalg_inv_ex` of the library"),
    ("unit_lower_inverse", by_solver, "`linalg_solve_triangular` of the library"),
    ("parity_strengths", lambda bits: [float("nan")] * len(bits), "One per bit"),
    ("protected_write", along_the_key, "protected key moved"),
    ("protected_write", not_rescaled, "k must read v"),
    ("protected_write", one_after_the_other, "protected key moved"),
    ("protected_write", by_gram_matrix, ""),
    ("protected_write", larger_than_needed, "more than they need"),
]


@pytest.mark.parametrize("name, answer, says", WRONG)
def test_a_wrong_answer_learns_what_to_look_at(name, answer, says):
    verdict = getattr(check, name)(answer)
    assert verdict.right is False
    assert verdict.message.startswith("Not yet")
    assert says in verdict.message


NAMES = ["overwrite_any_length", "parity_strengths", "unit_lower_inverse", "protected_write"]


def raises(*inputs):
    raise RuntimeError("no")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", [None, lambda *a: None], ids=["nothing", "returns-none"])
def test_no_answer_yet_is_not_an_error(name, junk):
    assert getattr(check, name)(junk).right is None


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
    assert exercises_of(delta_rule) == set(NAMES)
