"""attnledger.costs.sparse against loops over every query and block, and against the paper's Eq. 12."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnledger.costs import msa_break_even, msa_flops, selected_pairs
from attnledger.costs.models import MINIMAX_M3, MSA_PAPER_109B

PAPER = {"heads": 64, "kv_heads": 4, "head_dim": 128, "index_dim": 128, "top_k": 16, "block": 128}


def looped_pairs(n, top_k, block):
    """Visible keys of the blocks a query reads: its own and the first ones before it (any choice counts the same)."""
    total = 0
    for i in range(n):
        own = i // block
        chosen = [own, *range(own)][:top_k]
        total += sum(1 for b in chosen for j in range(b * block, min((b + 1) * block, n)) if j <= i)
    return total


@given(n=st.integers(1, 60), top_k=st.integers(1, 6), block=st.integers(1, 9))
def test_selected_pairs_are_those_a_loop_counts(n, top_k, block):
    got = selected_pairs(n, top_k=top_k, block=block)
    assert got == looped_pairs(n, top_k, block)
    assert isinstance(got, int)


@given(n=st.integers(1, 40), top_k=st.integers(1, 4), block=st.integers(1, 6))
def test_exact_flops_count_two_for_every_multiply_add(n, top_k, block):
    heads, kv_heads, d, d_idx = 4, 2, 3, 5
    dense = index = 0
    for i in range(n):
        for _ in range(i + 1):
            dense += heads * (d + d)
            index += kv_heads * d_idx
    main = heads * (d + d) * looped_pairs(n, top_k, block)
    got = msa_flops(
        n, heads=heads, kv_heads=kv_heads, head_dim=d, index_dim=d_idx, top_k=top_k, block=block, exact=True
    )
    assert (got.gqa, got.index, got.main) == (2 * dense, 2 * index, 2 * main)


@given(n=st.integers(1, 10**7))
def test_eq_12_as_printed(n):
    work = msa_flops(n, **PAPER)
    assert work.gqa == 2 * 64 * 128 * n**2
    assert work.index == 4 * 128 * n**2
    assert work.main == 4 * 64 * 128 * n * 16 * 128
    assert work.msa == work.index + work.main
    assert work.main_ratio == pytest.approx(n / (2 * 16 * 128))


def test_the_published_ratios():
    million, binary = msa_flops(10**6, **PAPER), msa_flops(2**20, **PAPER)
    assert round(binary.ratio, 1) == 28.4  # arXiv 2606.13392, abstract
    assert round(million.ratio, 2) == 28.29
    assert round(million.main_ratio) == 244
    assert round(binary.index_share, 3) == 0.889


@pytest.mark.parametrize(
    ("n", "printed", "exact"),
    [(2048, 0.49, 0.97), (8192, 1.88, 2.19), (32768, 6.4, 6.72), (131072, 16.0, 16.3), (2**20, 28.44, 28.55)],
)
def test_both_lines_side_by_side(n, printed, exact):
    assert msa_flops(n, **PAPER).ratio == pytest.approx(printed, abs=0.013)
    assert msa_flops(n, exact=True, **PAPER).ratio == pytest.approx(exact, abs=0.013)


def test_a_count_cannot_be_overwritten():
    with pytest.raises(AttributeError):
        msa_flops(10, **PAPER).gqa = 0


def test_the_gain_is_capped_by_the_index_branch():
    assert msa_flops(10**9, **PAPER).ratio < 32
    assert msa_flops(10**9, **PAPER).ratio == pytest.approx(32, rel=1e-3)


@pytest.mark.parametrize(("exact", "expected"), [(False, 4229), (True, 2414)])
def test_break_even_is_the_first_length_that_pays(exact, expected):
    assert msa_break_even(exact=exact, **PAPER) == expected
    before, at = (msa_flops(n, exact=exact, **PAPER) for n in (expected - 1, expected))
    assert before.msa > before.gqa and at.msa <= at.gqa


def test_break_even_is_eq_12_unless_told_otherwise():
    assert msa_break_even(**PAPER) == msa_break_even(exact=False, **PAPER)


def test_as_much_work_as_dense_attention_is_even():
    one = dict.fromkeys(PAPER, 1)  # 2 n^2 against n^2 + 4 n
    assert msa_break_even(**one) == 4
    assert msa_flops(4, **one).msa == msa_flops(4, **one).gqa


def test_an_index_branch_as_wide_as_attention_never_pays():
    assert msa_break_even(heads=1, kv_heads=1, head_dim=4, index_dim=8, top_k=1, block=1) is None


def test_the_models_carry_the_papers_geometry():
    for model in (MSA_PAPER_109B, MINIMAX_M3):
        got = {name: getattr(model, name) for name in PAPER}
        assert got == PAPER


@pytest.mark.parametrize("name", [*PAPER, "n"])
@pytest.mark.parametrize("value", [0, 1.5])
def test_wrong_arguments_are_named(name, value):
    arguments = {"n": 10} | PAPER | {name: value}
    with pytest.raises(ValueError, match=rf"^{name} wants .*got"):
        msa_flops(**arguments)


def test_other_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="^kv_heads wants .*got"):
        msa_flops(10, **(PAPER | {"kv_heads": 5}))
    with pytest.raises(ValueError, match="^exact wants .*got"):
        msa_flops(10, exact=1, **PAPER)
    with pytest.raises(ValueError, match="^heads wants .*got"):
        msa_break_even(**(PAPER | {"heads": 0}))
    with pytest.raises(ValueError, match="^exact wants .*got"):  # also where the answer would be None
        msa_break_even(exact=1, heads=1, kv_heads=1, head_dim=4, index_dim=8, top_k=1, block=1)
    for name in ("n", "top_k", "block"):
        with pytest.raises(ValueError, match=f"^{name} wants .*got"):
            selected_pairs(**({"n": 3, "top_k": 1, "block": 1} | {name: 0}))
