"""attnledger.costs.units: bytes in words."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnledger.costs import format_bytes, in_unit


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (131_072, "128 KiB"),
        (2**20 - 1, "1 MiB"),
        (134_217_728, "128 MiB"),
        (10 * 2**30, "10 GiB"),
        (327_680 * 10**6, "305.2 GiB"),
        (2**40, "1 TiB"),
        (3 * 2**40, "3 TiB"),
        (2**50 - 1, "1 PiB"),
        (2**60, "1,024 PiB"),
        (0.5, "0.5 B"),
        (1, "1 B"),
        (20.0, "20 B"),
        (0.0123456, "0.01235 B"),
        (1e-5, "0.00001 B"),
        (Fraction(1, 3), "0.3333 B"),
    ],
)
def test_the_largest_unit_that_leaves_one(size, text):
    assert format_bytes(size) == text


def test_few_digits_do_not_push_a_size_into_the_smaller_unit():
    assert format_bytes(1024, digits=1) == "1 KiB"
    assert format_bytes(1536, digits=1) == "2 KiB"


@given(st.integers(0, 2**60))
def test_the_text_reads_back_to_four_digits(size):
    number, unit = format_bytes(size).split()
    assert float(number.replace(",", "")) * in_unit(2**70, "B") / in_unit(2**70, unit) == pytest.approx(size, rel=1e-3)


@pytest.mark.parametrize(("unit", "size"), [("KB", 1000), ("MB", 1000**2), ("GB", 1000**3), ("TB", 1000**4)])
def test_decimal_units_are_powers_of_a_thousand(unit, size):
    assert in_unit(3 * size, unit) == 3


def test_decimal_and_binary_units_differ_by_7_percent_at_giga():
    assert in_unit(10**9, "GB") == 1
    assert in_unit(2**30, "GiB") == 1
    assert in_unit(10 * 2**30, "GB") == pytest.approx(10.74, abs=0.005)


def test_nothing_is_a_size():
    assert in_unit(0, "GiB") == 0 and isinstance(in_unit(0, "GiB"), int)


def test_sizes_beyond_2_to_the_53_stay_exact():
    assert in_unit(2**53 + 1, "B") == 2**53 + 1
    assert in_unit((2**53 + 1) * 1024, "KiB") == 2**53 + 1
    assert isinstance(in_unit(2**63 + 1, "KiB"), float), "not a whole number"
    assert isinstance(in_unit(Fraction(1, 3), "B"), float)


def test_whole_results_are_ints():
    assert isinstance(in_unit(4096, "KiB"), int)
    assert isinstance(in_unit(100, "KiB"), float)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: in_unit(1, "Gib"), "unit"),
        (lambda: in_unit(-1, "GiB"), "size"),
        (lambda: in_unit("1", "GiB"), "size"),
        (lambda: in_unit(True, "GiB"), "size"),
        (lambda: format_bytes(float("inf")), "size"),
        (lambda: format_bytes(float("nan")), "size"),
        (lambda: format_bytes(-1), "size"),
        (lambda: format_bytes(1, digits=0), "digits"),
    ],
)
def test_wrong_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=rf"^{named} wants .*got"):
        call()
