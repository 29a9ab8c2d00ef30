"""attnledger.ops._check: what passes, what complains, and about what."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from attnledger.ops import _check

from .matrix import complains

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
x = torch.zeros(2, 3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_halves_are_computed_in_fp32_and_others_as_they_are(dtype):
    computing = torch.float64 if dtype == torch.float64 else torch.float32
    assert _check.floating(a=x.to(dtype), b=x[0].to(dtype)) == computing
    _check.gate("g", x.to(dtype), x.to(dtype))
    _check.gate("g", x.to(computing), x.to(dtype))


@pytest.mark.parametrize("wrong", [[[1.0]], None, x.long(), x.bool(), x * 1j, x.double(), x.half(), x.to("meta")])
def test_a_tensor_unlike_the_others_is_named(wrong):
    with complains("second"):
        _check.floating(first=x, second=wrong)
    with complains("g"):
        _check.gate("g", wrong, x)


def test_a_first_tensor_without_a_floating_dtype_is_named():
    for wrong in ([[1.0]], x.long(), x * 1j):
        with complains("first"):
            _check.floating(first=wrong, second=wrong)


def test_a_gate_beside_halves_is_a_half_of_the_same_kind_or_fp32():
    for wrong in (x.half(), x.double()):
        with complains("g"):
            _check.gate("g", wrong, x.bfloat16())
    with pytest.raises(ValueError, match="got torch.float64 on cpu, want torch.float32 or torch.bfloat16 on cpu"):
        _check.gate("g", x.double(), x.bfloat16())
    with pytest.raises(ValueError, match="got torch.float64 on cpu, want torch.float32 on cpu"):
        _check.gate("g", x.double(), x)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_a_sparse_tensor_is_named(layout):
    sparse = x.to_sparse(layout=layout)
    for check in (lambda: _check.floating(a=x, m=sparse), lambda: _check.gate("m", sparse, x)):
        with pytest.raises(ValueError, match=f"^m: got {layout}, want a dense tensor"):
            check()


def test_a_matrix_has_two_axes_and_a_channel():
    for right in (x, x[:, :1], x[:0], x.expand(4, 5, 2, 3)):
        _check.matrix("m", right)
    for wrong in (x[0], x[0, 0], x[:, :0]):
        with complains("m"):
            _check.matrix("m", wrong)


def test_few_tokens_are_counted_on_the_last_axis_but_one():
    tokens = torch.zeros(9, 5, 3)
    assert _check.few_tokens(tokens, 5) is True and _check.few_tokens(tokens, 4) is False
    for wrong in (tokens.long(), tokens[0, 0], tokens[..., :0]):
        with complains("q"):
            _check.few_tokens(wrong, 4)


def test_a_shape_is_exact():
    _check.shape("s", x, (2, 3), "(T, d)")
    _check.shape("s", x, torch.Size([2, 3]), "(T, d)")
    for wrong in ((3, 2), (2,), (2, 3, 1), (1, 3)):
        with complains("s"):
            _check.shape("s", x, wrong, "(T, d)")


def test_a_count_is_whole_and_large_enough():
    for value, least in ((0, 0), (1, 1), (7, 1), (np.int64(16), 1), (np.uint8(200), 200)):
        got = _check.at_least("n", value, least)
        assert type(got) is int and got == value
    wrong = ((0, 1), (-1, 0), (2.0, 1), (True, 1), (False, 0), (None, 0), ("3", 1), (np.int64(0), 1), (np.True_, 0))
    for value, least in (*wrong, (np.float64(2.0), 1), (torch.tensor(2), 1)):
        with complains("n"):
            _check.at_least("n", value, least)


def test_a_number_is_real_and_finite():
    for value in (2, -0.5, 0, np.float32(0.5), np.int64(3), Fraction(1, 4)):
        got = _check.number("a", value)
        assert type(got) is float and got == value
    wrong = (math.nan, math.inf, -math.inf, np.float32("inf"), True, np.True_, 1j, None, "2", [2.0], torch.tensor(2.0))
    for value in (*wrong, 10**400, Fraction(10**400)):
        with complains("a"):
            _check.number("a", value)


def test_a_seed_is_a_whole_number_of_64_bits():
    for seed in (0, 3, np.int64(3), -1, -(2**63), 2**64 - 1):
        with torch.device("meta"):
            got = _check.generator(seed)
        assert got.device.type == "cpu"
        want = torch.Generator().manual_seed(int(seed))
        assert torch.equal(torch.randint(2**60, (4,), generator=got), torch.randint(2**60, (4,), generator=want))
    for seed in (None, 1.5, "a", True, np.True_, torch.tensor(3), -(2**63) - 1, 2**64):
        with complains("seed"):
            _check.generator(seed)


def test_a_flag_is_true_or_false():
    _check.flag("causal", True), _check.flag("causal", False)
    for value in (1, 0, None, "yes", np.True_, torch.ones(2, 2, dtype=torch.bool)):
        with complains("causal"):
            _check.flag("causal", value)
