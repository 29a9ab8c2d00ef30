"""attnledger.costs.attention against counting loops, real arrays, and the tables of the sources."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnledger.costs import (
    attention_flops,
    crossover_length,
    layer_weights,
    projection_flops,
    quadratic_share,
    score_matrix_bytes,
    visible_pairs,
)
from attnledger.costs.models import GPT_3_6_7B, LLAMA_3_70B

small = st.integers(1, 12)


def counted_pairs(queries, keys, causal, window):
    """Every pair looked at, one by one."""
    count = 0
    for i in range(queries):
        position = i + keys - queries
        for j in range(keys):
            seen = not causal or j <= position
            count += seen and (window is None or j > position - window)
    return count


@given(queries=small, extra=st.integers(0, 12), window=st.none() | small)
def test_causal_pairs_are_those_a_loop_counts(queries, extra, window):
    keys = queries + extra
    want = counted_pairs(queries, keys, True, window)
    got = visible_pairs(queries, keys, causal=True, window=window)
    assert got == want
    assert isinstance(got, int)


@given(queries=small, keys=small)
def test_bidirectional_pairs_are_all_of_them(queries, keys):
    assert visible_pairs(queries, keys, causal=False) == queries * keys


def test_decoding_one_query_sees_the_whole_cache():
    assert visible_pairs(1, 1000, causal=True) == 1000
    assert visible_pairs(1, 1000, causal=True, window=128) == 128


@given(n=small, heads=st.integers(1, 4), d_k=st.integers(1, 6), d_v=st.integers(1, 6))
def test_exact_flops_count_two_for_every_multiply_add(n, heads, d_k, d_v):
    q, k, v = np.zeros((heads, n, d_k)), np.zeros((heads, n, d_k)), np.zeros((heads, n, d_v))
    scores = q @ k.swapaxes(1, 2)
    multiply_adds = scores.size * q.shape[-1] + scores.size * v.shape[-1]
    got = attention_flops(n, heads=heads, head_dim=d_k, value_dim=d_v, causal=False, exact=True)
    assert got == 2 * multiply_adds
    pairs = counted_pairs(n, n, True, None)
    got = attention_flops(n, heads=heads, head_dim=d_k, value_dim=d_v, causal=True, exact=True)
    assert got == 2 * heads * pairs * (d_k + d_v)


@pytest.mark.parametrize("view", [{"window": 3}, {"keys": 20}, {"keys": 20, "window": 3}])
def test_with_a_window_or_more_keys_the_count_is_exact(view):
    pairs = counted_pairs(10, view.get("keys", 10), True, view.get("window"))
    assert attention_flops(10, heads=2, head_dim=3, causal=True, **view) == 2 * 2 * (3 + 3) * pairs


@given(n=st.integers(1, 5000))
def test_the_textbook_form_halves_the_square_when_causal(n):
    causal = attention_flops(n, heads=3, head_dim=7, causal=True)
    assert 2 * causal == attention_flops(n, heads=3, head_dim=7, causal=False) == 4 * 3 * 7 * n * n
    exact = attention_flops(n, heads=3, head_dim=7, causal=True, exact=True)
    assert exact - causal == 2 * 3 * 7 * n  # half of the diagonal, twice the width


def test_the_textbook_layer_has_12_d_squared_weights():
    shapes = [(64, 64)] * 4 + [(64, 256), (256, 64)]
    assert layer_weights(d_model=64) == sum(np.zeros(shape).size for shape in shapes) == 12 * 64**2
    assert projection_flops(10, d_model=64) == 24 * 10 * 64**2


def test_heads_that_span_the_width_change_nothing():
    assert layer_weights(d_model=64, heads=8) == layer_weights(d_model=64)


def test_grouped_keys_and_a_gate_change_the_weights():
    shapes = [(64, 64), (64, 16), (64, 16), (64, 64), (64, 96), (64, 96), (96, 64)]
    got = layer_weights(d_model=64, heads=8, kv_heads=2, head_dim=8, d_ff=96, gated=True)
    assert got == sum(np.zeros(shape).size for shape in shapes)


WIDE = {"d_model": 64, "heads": 8, "kv_heads": 2, "head_dim": 16, "d_ff": 96, "gated": True}


def test_geometry_reaches_every_count():
    """Heads that are wider together than the model, and fewer of them for keys."""
    weights = 64 * (2 * 8 * 16 + 2 * 2 * 16) + 3 * 64 * 96
    assert layer_weights(**WIDE) == weights
    assert projection_flops(10, **WIDE) == 2 * 10 * weights
    quadratic = attention_flops(10, heads=8, head_dim=16, causal=True)
    assert quadratic_share(10, causal=True, of="projections", **WIDE) == quadratic / (2 * 10 * weights)
    assert crossover_length(causal=True, **WIDE) == weights / (8 * 16)


def test_crossover_of_the_textbook_layer_is_12_and_6_widths():
    assert crossover_length(causal=True, d_model=4096) == 12 * 4096
    assert crossover_length(causal=False, d_model=4096) == 24576
    assert crossover_length(causal=True, **GPT_3_6_7B.layer_geometry) == 12 * 4096


def test_crossover_of_llama_3_70b_is_104448_tokens():
    # the sources' 12.75 d for SwiGLU and 8 KV heads
    assert crossover_length(causal=True, **LLAMA_3_70B.layer_geometry) == 104_448


@given(n=st.integers(1, 10**6), d=st.integers(1, 10**4), causal=st.booleans())
def test_at_the_crossover_the_share_of_the_projections_is_one(n, d, causal):
    at = crossover_length(causal=causal, d_model=d)
    share = quadratic_share(n, causal=causal, of="projections", d_model=d)
    assert share == pytest.approx(n / at, rel=1e-12)
    of_layer = quadratic_share(n, causal=causal, of="layer", d_model=d)
    assert of_layer == pytest.approx(share / (1 + share), rel=1e-12)


@pytest.mark.parametrize(
    ("n", "bidirectional", "causal"),
    [(512, 2.1, 1.0), (2048, 8.3, 4.2), (8192, 33.3, 16.7), (32768, 133.3, 66.7), (131072, 533.3, 266.7)],
)
def test_the_shares_of_source_c_at_width_4096(n, bidirectional, causal):
    got = [100 * quadratic_share(n, causal=c, of="projections", d_model=4096) for c in (False, True)]
    assert [round(share, 1) for share in got] == [bidirectional, causal]


def test_score_matrix_bytes_are_those_of_the_array():
    scores = np.zeros((2, 3, 5, 5), dtype=np.float16)
    assert score_matrix_bytes(5, heads=3, batch=2) == scores.nbytes
    assert score_matrix_bytes(5, heads=3, batch=2, bytes_per_number=4) == scores.astype(np.float32).nbytes


def test_one_matrix_unless_more_are_asked_for():
    assert score_matrix_bytes(5) == 2 * 5 * 5
    assert score_matrix_bytes(5, heads=3, matrices=2) == 2 * score_matrix_bytes(5, heads=3)


def test_counts_beyond_the_reach_of_floats_are_exact():
    n = 2**30 + 1
    assert score_matrix_bytes(n, bytes_per_number=2) == 2 * n * n


def test_gpt_3_6_7b_needs_one_gib_of_scores_per_layer_at_4096():
    assert score_matrix_bytes(4096, heads=32) == 2**30
    assert score_matrix_bytes(4096, heads=32, layers=32) == 32 * 2**30


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: visible_pairs(0, causal=True), "queries"),
        (lambda: visible_pairs(3, 0, causal=False), "keys"),
        (lambda: visible_pairs(3, 2, causal=True), "keys"),
        (lambda: visible_pairs(3, causal=1), "causal"),
        (lambda: visible_pairs(3, causal=True, window=0), "window"),
        (lambda: visible_pairs(3, causal=False, window=2), "window"),
        (lambda: attention_flops(True, heads=1, head_dim=1, causal=True), "queries"),
        (lambda: attention_flops(2, heads=0, head_dim=1, causal=True), "heads"),
        (lambda: attention_flops(2, heads=1, head_dim=1.5, causal=True), "head_dim"),
        (lambda: attention_flops(2, heads=1, head_dim=1, value_dim=0, causal=True), "value_dim"),
        (lambda: attention_flops(2, heads=1, head_dim=1, causal="yes"), "causal"),
        (lambda: attention_flops(2, heads=1, head_dim=1, causal=True, exact=1), "exact"),
        (lambda: layer_weights(d_model=0), "d_model"),
        (lambda: layer_weights(d_model=4, d_ff=0), "d_ff"),
        (lambda: layer_weights(d_model=4, gated=2), "gated"),
        (lambda: layer_weights(d_model=4, kv_heads=2), "heads"),
        (lambda: layer_weights(d_model=4, head_dim=2), "heads"),
        (lambda: layer_weights(d_model=4, heads=0), "heads"),
        (lambda: layer_weights(d_model=4, heads=3), "heads"),
        (lambda: layer_weights(d_model=4, heads=4, kv_heads=0), "kv_heads"),
        (lambda: layer_weights(d_model=4, heads=4, kv_heads=3), "kv_heads"),
        (lambda: layer_weights(d_model=4, heads=2, head_dim=0), "head_dim"),
        (lambda: projection_flops(0, d_model=4), "tokens"),
        (lambda: quadratic_share(4, causal=True, of="all", d_model=4), "of"),
        (lambda: crossover_length(causal=None, d_model=4), "causal"),
        (lambda: score_matrix_bytes(4, heads=0), "heads"),
        (lambda: score_matrix_bytes(4, layers=0), "layers"),
        (lambda: score_matrix_bytes(4, batch=0), "batch"),
        (lambda: score_matrix_bytes(4, matrices=0), "matrices"),
        (lambda: score_matrix_bytes(4, bytes_per_number=0), "bytes_per_number"),
        (lambda: score_matrix_bytes(4, bytes_per_number=float("inf")), "bytes_per_number"),
        (lambda: score_matrix_bytes(-4), "tokens"),
    ],
)
def test_wrong_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=rf"^{named} wants .*got"):
        call()
