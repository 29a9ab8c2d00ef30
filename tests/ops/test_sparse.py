"""Masks against loops over all pairs; banded and hashed attention against attention that scores every pair."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from attnledger.ops import sparse
from attnledger.ops.softmax import attention, attention_weights
from attnledger.ops.sparse import (
    bigbird_mask,
    dilated_mask,
    global_mask,
    lsh_attention,
    lsh_buckets,
    sliding_window_attention,
    window_mask,
)

from .matrix import LENGTHS, Inputs, assert_close, assert_same_gradients, complains, gradients, made_elsewhere

D, D_V = 6, 5
WINDOWS = [(1, 0), (2, 3), (16, 0), (63, 4), (64, 0), (65, 1), (100, 200), (500, 2)]
few = settings(max_examples=40, deadline=None)
sizes = st.integers(0, 14)


def arguments(T_q, T_k, lead=(2, 3), seed=0, dtype=torch.float64):
    draw = Inputs(seed, dtype)
    return [draw.normal(*lead, T_q, D), draw.normal(*lead, T_k, D), draw.normal(*lead, T_k, D_V)]


# --- masks -----------------------------------------------------------------------------------------------------------


def pairs(queries, keys, sees):
    """The mask of ``sees(i, j)`` for query position i, counted so that the last query is the last key, and key j."""
    rows = [[sees(i + keys - queries, j) for j in range(keys)] for i in range(queries)]
    return torch.tensor(rows, dtype=torch.bool).reshape(queries, keys)


@few
@given(sizes, sizes, st.integers(1, 9), st.integers(0, 4), st.integers(1, 4), st.booleans())
def test_windows_are_the_pairs_they_say(queries, keys, window, sinks, dilation, causal):
    def in_window(i, j, step=1):
        if causal:
            return j in [i - step * n for n in range(window)]
        return j in [i + step * n for n in range(-(window // 2), (window + 1) // 2)]

    def with_sinks(i, j):
        return in_window(i, j) or (j < sinks and (j <= i or not causal))

    got = window_mask(queries, keys, window=window, sinks=sinks, causal=causal)
    assert got.dtype == torch.bool and torch.equal(got, pairs(queries, keys, with_sinks))
    got = dilated_mask(queries, keys, window=window, dilation=dilation, causal=causal)
    assert torch.equal(got, pairs(queries, keys, lambda i, j: in_window(i, j, dilation)))


@few
@given(sizes, st.integers(1, 14), st.sets(st.integers(0, 13), max_size=3), st.booleans())
def test_global_tokens_see_and_are_seen(queries, keys, tokens, causal):
    tokens = [t for t in tokens if t < keys]
    got = global_mask(queries, keys, tokens=tokens, causal=causal)
    want = pairs(queries, keys, lambda i, j: (i in tokens or j in tokens) and (j <= i or not causal))
    assert torch.equal(got, want)


def block_window(b, window, n, causal):
    back, ahead = (window - 1, 0) if causal else (window // 2, (window - 1) // 2)
    return set(range(max(b - back, 0), min(b + ahead, n - 1) + 1))


@few
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), sizes, st.integers(0, 4), st.integers(), st.booleans())
def test_bigbird_is_window_global_and_random_blocks(tokens, size, window, g, r, seed, causal):
    """Whole blocks, the window and the first blocks always, of the rest r per row or all there are."""
    options = {"block_size": size, "window": window, "global_blocks": g, "random_blocks": r, "seed": seed % 2**32}
    mask = bigbird_mask(tokens, causal=causal, **options)
    n = -(-tokens // size)
    for b in range(n):
        rows = range(b * size, min((b + 1) * size, tokens))
        seen = {mask_b for mask_b in range(n) if mask[rows[-1], mask_b * size]}
        for i in rows:
            want = [j // size in seen and (j <= i or not causal) for j in range(tokens)]
            assert mask[i].tolist() == want
        others = set(range(b + 1 if causal else n))
        fixed = block_window(b, window, n, causal) | (others if b < g else set(range(min(g, n))) & others)
        assert fixed <= seen <= others
        assert len(seen - fixed) == min(r, len(others - fixed))


@few
@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 5), st.integers(0, 3))
def test_masks_of_a_decoding_step_are_the_last_rows(keys, queries, window, sinks):
    queries = min(queries, keys)
    for causal in (True, False):
        for mask in (
            lambda q, k, c=causal: window_mask(q, k, window=window, sinks=sinks, causal=c),
            lambda q, k, c=causal: dilated_mask(q, k, window=window, dilation=3, causal=c),
            lambda q, k, c=causal: global_mask(q, k, tokens=range(min(sinks, keys)), causal=c),
            lambda q, k, c=causal: bigbird_mask(q, k, block_size=4, seed=5, causal=c),
        ):
            whole = mask(keys, None)
            assert whole.shape == (keys, keys) and torch.equal(mask(keys, keys), whole)
            assert torch.equal(mask(queries, keys), whole[keys - queries :])
            assert mask(keys + 2, keys).shape == (keys + 2, keys)
            if causal:  # queries before the first key see nothing
                assert not mask(keys + 2, keys)[:2].any() and torch.equal(mask(keys + 2, keys)[2:], whole)


def test_bigbird_keeps_its_pattern_as_the_sequence_grows():
    """Under a causal mask a block's draw does not depend on what follows; the seed alone decides."""
    options = {"block_size": 4, "random_blocks": 2, "seed": 3}
    whole = bigbird_mask(80, **options)
    for tokens in (1, 4, 17, 40, 79):
        assert torch.equal(bigbird_mask(tokens, **options), whole[:tokens, :tokens])
    assert torch.equal(bigbird_mask(80, **options), whole)
    assert not torch.equal(bigbird_mask(80, **options | {"seed": 4}), whole)


def test_bigbird_draws_every_block_alike():
    """Over many seeds each block a row does not see already is drawn equally often."""
    options = {"block_size": 1, "window": 1, "global_blocks": 1, "random_blocks": 2}
    drawn = sum(bigbird_mask(12, seed=s, **options).double() for s in range(400))[11, 1:11] / 400  # 10 free, 2 drawn
    assert drawn.sum() == 2 and ((drawn - 0.2).abs() < 0.08).all()


def test_two_layers_of_a_window_reach_twice_as_far():
    one = window_mask(30, window=5).double()
    reach = one @ one > 0
    assert torch.equal(reach, window_mask(30, window=9))
    gaps = dilated_mask(30, window=5, dilation=2).double()
    assert torch.equal(gaps @ gaps > 0, dilated_mask(30, window=9, dilation=2))


@pytest.mark.parametrize("huge", [2**62, 2**63, 2**70, np.int64(2**62)])
def test_sizes_that_int64_cannot_hold_take_all_there_is(huge):
    """Nor may a product of two of them wrap around."""
    past = torch.ones(8, 8, dtype=torch.bool).tril()
    for mask in (
        window_mask(8, window=huge),
        window_mask(8, window=1, sinks=huge),
        dilated_mask(8, window=huge, dilation=1),
        bigbird_mask(8, block_size=huge),
        bigbird_mask(8, block_size=1, window=huge),
        bigbird_mask(8, block_size=1, global_blocks=huge),
        bigbird_mask(8, block_size=1, random_blocks=huge),
    ):
        assert torch.equal(mask, past)
    assert window_mask(8, window=huge, causal=False).all() and window_mask(8, 3, window=huge, causal=False).all()
    for causal in (True, False):
        for window in (2, huge):
            got = dilated_mask(8, window=window, dilation=huge, causal=causal)
            assert torch.equal(got, torch.eye(8, dtype=torch.bool))
    q, k, v = arguments(8, 8)
    assert torch.equal(
        sliding_window_attention(q, k, v, window=huge, sinks=huge), sliding_window_attention(q, k, v, window=8)
    )


def test_global_tokens_may_come_in_a_tensor_or_an_array():
    want = global_mask(8, tokens=[1, 5])
    assert torch.equal(global_mask(8, tokens=torch.tensor([1, 5])), want)
    assert torch.equal(global_mask(8, tokens=np.array([1, 5])), want)


# --- sliding windows -------------------------------------------------------------------------------------------------


def masked(q, k, v, window, sinks=0, **options):
    """The same by computing every score."""
    mask = window_mask(q.shape[-2], k.shape[-2], window=window, sinks=sinks)
    return attention(q, k, v, mask=mask, **options)


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("window, sinks", WINDOWS)
def test_the_band_is_masked_attention_gradients_included(T, window, sinks):
    tensors = arguments(T, T)

    def banded(q, k, v):
        return sliding_window_attention(q, k, v, window=window, sinks=sinks, return_lse=True)

    def dense(q, k, v):
        return masked(q, k, v, window, sinks, return_lse=True)

    for got, want in zip(banded(*tensors), dense(*tensors), strict=True):
        assert_close(got, want, 1e-13)
    if T:
        assert_same_gradients(gradients(banded, tensors), gradients(dense, tensors), 1e-12, "q k v")
        mask = window_mask(T, window=window, sinks=sinks)
        assert_close(banded(*tensors)[0], scaled_dot_product_attention(*tensors, attn_mask=mask), 1e-13)


@pytest.mark.parametrize("window, sinks", WINDOWS)
@pytest.mark.parametrize(
    "T_q, T_k", [(0, 9), (1, 1), (1, 200), (2, 65), (17, 129), (100, 200), (5, 3), (200, 70), (3, 0)]
)
def test_queries_are_the_last_tokens(T_q, T_k, window, sinks):
    """Decoding, prefill in parts, and queries before the first key, which get 0 and a log-sum-exp of −∞."""
    tensors = arguments(T_q, T_k)
    out, lse = sliding_window_attention(*tensors, window=window, sinks=sinks, scale=0.7, return_lse=True)
    want, want_lse = masked(*tensors, window, sinks, scale=0.7, return_lse=True)
    assert_close(out, want, 1e-13)
    assert torch.equal(lse.isinf(), want_lse.isinf())
    assert_close(lse.nan_to_num(neginf=0), want_lse.nan_to_num(neginf=0), 1e-13)
    if T_q and T_k:
        got = gradients(lambda q, k, v: sliding_window_attention(q, k, v, window=window, sinks=sinks), tensors)
        assert_same_gradients(got, gradients(lambda q, k, v: masked(q, k, v, window, sinks), tensors), 1e-12, "q k v")


@few
@given(st.integers(1, 150), st.integers(1, 150), st.integers(0, 9), st.lists(st.integers(0, 150), max_size=4))
def test_prefill_and_decoding_in_any_parts_are_the_whole(T, window, sinks, cuts):
    q, k, v = arguments(T, T, lead=())
    whole = sliding_window_attention(q, k, v, window=window, sinks=sinks)
    bounds = sorted({0, T, *(c for c in cuts if c < T)})
    parts = [
        sliding_window_attention(q[a:b], k[:b], v[:b], window=window, sinks=sinks)
        for a, b in zip(bounds, bounds[1:], strict=False)
    ]
    assert_close(torch.cat(parts), whole, 1e-13)


def test_a_cache_of_one_window_is_enough():
    q, k, v = arguments(129, 129)
    whole = sliding_window_attention(q, k, v, window=16)
    for t in (15, 16, 64, 128):
        keys = slice(max(t - 15, 0), t + 1)
        step = sliding_window_attention(q[..., t : t + 1, :], k[..., keys, :], v[..., keys, :], window=16)
        assert_close(step, whole[..., t : t + 1, :], 1e-13)


class Sizes(TorchDispatchMode):
    """How many numbers all operations return, and the largest result among them."""

    def __init__(self):
        super().__init__()
        self.total, self.largest = 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(out):
            if isinstance(x, torch.Tensor) and not function.is_view:
                self.total += x.numel()
                self.largest = max(self.largest, x.numel())
        return out


@pytest.mark.parametrize("sinks", [0, 4])
def test_work_grows_with_the_length_and_not_its_square(sinks):
    """Forward and backward; and nothing as large as T × T is ever made."""

    def work(T):
        tensors = [x.requires_grad_() for x in arguments(T, T, lead=())]
        with Sizes() as sizes:
            sliding_window_attention(*tensors, window=32, sinks=sinks).sum().backward()
        return sizes

    one, two = work(512), work(1024)
    assert two.total < 2.1 * one.total
    assert two.largest < 1024 * (32 + sparse.BLOCK) < 1024 * 1024 / 10
    q, k, v = arguments(1, 5000, lead=(), dtype=torch.bfloat16)
    with Sizes() as decoding:
        sliding_window_attention(q, k, v, window=32)
    assert decoding.total < 2000


@pytest.mark.parametrize(("heads", "products"), [(2, [4, 4]), (5, [5, 5, 5, 5])])
def test_blocks_of_few_heads_go_together_and_so_do_many_heads(monkeypatch, heads, products):
    """Four blocks: all those of a head in one product, or those at one place of all heads."""
    met, bmm = [], torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *x, **options: met.append(len(x[0])) or bmm(*x, **options))
    T = 4 * sparse.BLOCK
    sliding_window_attention(*arguments(T, T, lead=(heads,)), window=1)
    assert met[::2] == met[1::2] == products  # scores, outputs


@pytest.mark.parametrize(("T", "views"), [(100, 0), (112, 2)])
def test_one_block_is_not_unfolded(monkeypatch, T, views):
    """inductor, PyTorch 2.13, compiled a product with all 100 keys in place of the span that was unfolded from them."""
    unfolded, unfold = [], torch.Tensor.unfold
    monkeypatch.setattr(torch.Tensor, "unfold", lambda *x: unfolded.append(x) or unfold(*x))
    sliding_window_attention(*arguments(T, T), window=16)  # one block of 48 queries with all its keys, or two
    assert len(unfolded) == views


@pytest.mark.parametrize(("lead", "T_q", "T_k"), [(0, 5, 5), (2, 0, 5), (2, 5, 0), (2, 0, 0)])
@pytest.mark.parametrize("sinks", [0, 2])
def test_nothing_has_gradients_too(lead, T_q, T_k, sinks):
    tensors = [x.requires_grad_() for x in arguments(T_q, T_k, lead=(lead,))]
    out = sliding_window_attention(*tensors, window=2, sinks=sinks)
    assert out.shape == (lead, T_q, D_V) and (out == 0).all()
    for gradient, x in zip(torch.autograd.grad(out.sum(), tensors), tensors, strict=True):
        assert torch.equal(gradient, torch.zeros_like(x))


@pytest.mark.parametrize("block", [1, 2, 7, 16, 33, 100, 1000])
@pytest.mark.parametrize("tile", [1, 400, 2**20])
def test_blocks_and_tiles_of_any_size_give_the_same(monkeypatch, block, tile):
    """Many blocks for few heads or many heads for few blocks, in one product or in several."""
    monkeypatch.setattr(sparse, "BLOCK", block)
    monkeypatch.setattr(sparse, "TILE", tile)
    tensors = arguments(100, 129)
    for window in (1, 7, 40, 129):

        def banded(q, k, v, window=window):
            return sliding_window_attention(q, k, v, window=window, sinks=2, return_lse=True)

        def dense(q, k, v, window=window):
            return masked(q, k, v, window, 2, return_lse=True)

        for got, want in zip(banded(*tensors), dense(*tensors), strict=True):
            assert_close(got, want, 1e-13)
        if window == 7:
            assert_same_gradients(gradients(banded, tensors), gradients(dense, tensors), 1e-12, "q k v")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("sinks", [0, 2])
def test_half_windows_are_computed_in_fp32(dtype, sinks):
    q, k, v = arguments(100, 129, dtype=dtype)
    out, lse = sliding_window_attention(q, k, v, window=20, sinks=sinks, return_lse=True)
    want, want_lse = sliding_window_attention(q.float(), k.float(), v.float(), window=20, sinks=sinks, return_lse=True)
    assert out.dtype == dtype and torch.equal(out, want.to(dtype))
    assert lse.dtype == torch.float32 and torch.equal(lse, want_lse)
    assert sliding_window_attention(q[..., :0, :], k, v, window=20, sinks=sinks).dtype == dtype


@pytest.mark.parametrize("size", [1e-18, 1e-4, 1.0, 1e4, 1e18])
def test_windows_of_any_size_of_numbers(size):
    q, k, v = arguments(129, 129, dtype=torch.float32)
    out, lse = sliding_window_attention(size * q, size * k, v, window=30, sinks=1, return_lse=True)
    assert out.isfinite().all() and (lse.isfinite().all() or size > 1e10)
    if size <= 1:
        assert_close(out, masked(size * q.double(), size * k.double(), v.double(), 30, 1), 1e-6)
    out = sliding_window_attention(q, k, size * v, window=30, sinks=1)
    assert_close(out, size * masked(q.double(), k.double(), v.double(), 30, 1), 1e-6)


@pytest.mark.parametrize("window, sinks", [(1, 0), (20, 0), (20, 3), (64, 0), (200, 2)])
def test_the_future_changes_no_bit_of_a_windows_past(window, sinks):
    q, k, v = arguments(200, 200, dtype=torch.float32)
    before = sliding_window_attention(q, k, v, window=window, sinks=sinks)
    for t in (1, 16, 63, 64, 65, 100, 199):
        for later in (7.0, math.nan, math.inf):
            k_later, v_later = k.clone(), v.clone()
            k_later[..., t:, :], v_later[..., t:, :] = later, later
            after = sliding_window_attention(q, k_later, v_later, window=window, sinks=sinks)
            assert torch.equal(after[..., :t, :], before[..., :t, :])


def test_what_left_the_window_is_forgotten_whatever_it_was():
    q, k, v = arguments(129, 129, dtype=torch.float32)
    before = sliding_window_attention(q, k, v, window=16)
    for past in (7.0, math.nan, math.inf):
        k_past, v_past = k.clone(), v.clone()
        k_past[..., :40, :], v_past[..., :40, :] = past, past
        after = sliding_window_attention(q, k_past, v_past, window=16)
        assert torch.equal(after[..., 55:, :], before[..., 55:, :])
        assert not torch.equal(after[..., 54, :], before[..., 54, :])
        alone = v.clone()
        alone[..., 10, :] = past
        want = masked(q, k, alone, 16)
        assert torch.allclose(sliding_window_attention(q, k, alone, window=16), want, atol=1e-6, equal_nan=True)


def test_every_head_has_its_own_window():
    q, k, v = arguments(70, 80)
    out = sliding_window_attention(q, k, v, window=9, sinks=1)
    assert_close(out[1, 2], sliding_window_attention(q[1, 2], k[1, 2], v[1, 2], window=9, sinks=1), 1e-14)
    flipped = sliding_window_attention(q.flip(0, 1), k.flip(0, 1), v.flip(0, 1), window=9, sinks=1)
    assert_close(flipped.flip(0, 1), out, 1e-14)
    assert sliding_window_attention(q[:0], k[:0], v[:0], window=9, sinks=1).shape == (0, 3, 70, D_V)


# --- hashing ---------------------------------------------------------------------------------------------------------


def hashed_arguments(T, lead=(2, 3), seed=0, dtype=torch.float64):
    draw = Inputs(seed, dtype)
    return [draw.normal(*lead, T, D), draw.normal(*lead, T, D_V)]


def met(bucket, chunk, causal):
    """Who meets whom, ``(..., T, T)``, from buckets ``(..., rounds, T)``: by counting, without sorting."""
    same = bucket.unsqueeze(-1) == bucket.unsqueeze(-2)  # (..., rounds, T, T)
    T = bucket.shape[-1]
    earlier = torch.ones(T, T, dtype=torch.bool).tril(-1)
    place = (same & earlier).sum(-1) // chunk  # the token's chunk within its bucket
    back = place.unsqueeze(-1) - place.unsqueeze(-2)
    sees = (same & (back >= 0) & (back <= 1)).any(-3)  # the union of the rounds
    sees = sees & (earlier if causal else ~torch.eye(T, dtype=torch.bool))
    alone = ~sees.any(-1)
    return sees | torch.diag_embed(alone)


def over_all_pairs(q_k, v, chunk, causal=True, scale=None, **hashing):
    """Hashed attention as attention with a mask, ``(out, lse)``."""
    mask = met(lsh_buckets(q_k, **hashing), chunk, causal)
    keys = q_k / q_k.square().sum(-1, keepdim=True).sqrt()
    return attention(q_k, keys, v, causal=False, mask=mask, scale=scale, return_lse=True)


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize(
    "buckets, rounds, chunk", [(1, 1, 16), (2, 3, 7), (4, 2, 16), (8, 4, 1), (4, 1, 200), (64, 2, 4)]
)
@pytest.mark.parametrize("causal", [True, False])
def test_hashed_attention_is_the_definition_gradients_included(T, buckets, rounds, chunk, causal):
    tensors = hashed_arguments(T)
    hashing = {"buckets": buckets, "rounds": rounds, "seed": 1}

    def hashed(q_k, v):
        return lsh_attention(q_k, v, chunk=chunk, causal=causal, return_lse=True, **hashing)

    def pairwise(q_k, v):
        return over_all_pairs(q_k, v, chunk, causal, **hashing)

    for got, want in zip(hashed(*tensors), pairwise(*tensors), strict=True):
        assert_close(got, want, 1e-12)
    if T:
        assert_same_gradients(gradients(hashed, tensors), gradients(pairwise, tensors), 1e-11, "q_k v")


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("T", [1, 2, 17, 70])
def test_one_bucket_is_full_attention_with_shared_queries_and_keys(T, rounds):
    """In plain Python, and however many rounds meet the same keys again."""
    (q_k, v) = hashed_arguments(T, lead=())
    rows = []
    for i in range(T):
        others = list(range(i)) or [0]
        scores = [q_k[i] @ q_k[j] / q_k[j].norm() / math.sqrt(D) for j in others]
        rows.append(torch.softmax(torch.stack(scores), 0) @ v[others])
    want = torch.stack(rows)
    assert_close(lsh_attention(q_k, v, buckets=1, rounds=rounds), want, 1e-13)
    assert_close(lsh_attention(q_k, v, buckets=1, rounds=rounds, chunk=max(T // 2 + T % 2, 1)), want, 1e-13)
    if T > 2:
        assert not torch.allclose(lsh_attention(q_k, v, buckets=1, rounds=rounds, chunk=max(T // 4, 1)), want)


def test_without_a_chunk_it_is_the_papers():
    """Twice the mean bucket: 2 T / buckets."""
    q_k, v = hashed_arguments(100)
    got = lsh_attention(q_k, v, buckets=8, rounds=2)
    assert torch.equal(got, lsh_attention(q_k, v, buckets=8, rounds=2, chunk=25))
    assert not torch.equal(got, lsh_attention(q_k, v, buckets=8, rounds=2, chunk=24))


def test_the_scale_multiplies_scores_of_unit_keys():
    q_k, v = hashed_arguments(65)
    want = over_all_pairs(q_k, v, 16, scale=1.0, buckets=4, rounds=2, seed=0)
    for got, wanted in zip(
        lsh_attention(q_k, v, buckets=4, rounds=2, chunk=16, scale=1.0, return_lse=True), want, strict=True
    ):
        assert_close(got, wanted, 1e-12)


def test_buckets_are_the_largest_of_the_turned_vector_and_its_negative():
    x = hashed_arguments(50)[0]
    random = torch.Generator().manual_seed(7)
    bucket = lsh_buckets(x, buckets=10, rounds=3, seed=7)
    assert bucket.dtype == torch.int64 and bucket.shape == (2, 3, 3, 50)
    for r in range(3):
        R = torch.randn(D, 5, generator=random, dtype=torch.float64)
        for t in range(50):
            turned = x[1, 2, t] @ R
            assert bucket[1, 2, r, t] == max(range(10), key=lambda b, y=turned: (y[b] if b < 5 else -y[b - 5]).item())
    assert torch.equal(lsh_buckets(1e3 * x, buckets=10, rounds=3, seed=7), bucket)  # only the direction counts
    assert torch.equal(lsh_buckets(-x, buckets=10, rounds=3, seed=7), (bucket + 5) % 10)
    assert torch.equal(lsh_buckets(x, buckets=10, rounds=2, seed=7), bucket[:, :, :2])
    assert not torch.equal(lsh_buckets(x, buckets=10, rounds=3, seed=8), bucket)
    assert (lsh_buckets(x, buckets=1, rounds=2) == 0).all()


@pytest.mark.parametrize("dtype, largest", [(torch.float32, 125), (torch.float64, 1021)])
def test_the_largest_numbers_have_the_same_buckets(dtype, largest):
    """Where a sum of them overflows; and a token of such numbers leaves the others alone."""
    x = hashed_arguments(200, dtype=dtype)[0]
    bucket = lsh_buckets(x, buckets=16, rounds=3)
    for power in (-60, 63, 100, largest):
        assert (x * 2.0**power).isfinite().all()
        assert torch.equal(lsh_buckets(x * 2.0**power, buckets=16, rounds=3), bucket)
    x[..., ::2, :] *= 2.0**largest
    x[..., 1::2, :] *= 2.0**-90
    assert torch.equal(lsh_buckets(x, buckets=16, rounds=3), bucket)


def test_near_vectors_share_a_bucket_more_often():
    """By angle, over many rounds: identical always, opposite never."""
    x, y = torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0, 0.0])
    angles = torch.tensor([0.0, 0.2, 0.6, 1.2, 2.0, math.pi])
    vectors = torch.cos(angles).unsqueeze(-1) * x + torch.sin(angles).unsqueeze(-1) * y
    bucket = lsh_buckets(vectors, buckets=8, rounds=2000, seed=0)
    together = (bucket == bucket[:, :1]).double().mean(0)
    assert together[0] == 1 and together[-1] == 0
    assert (together.diff() < 0).all()


def test_buckets_are_a_discrete_function():
    """No gradient passes, the output is smooth while buckets stay, and jumps where one changes."""
    q_k, v = hashed_arguments(40, lead=())
    assert not lsh_buckets(q_k.requires_grad_(), buckets=2).requires_grad

    def at(x):
        return torch.cat([q_k[:39].detach(), x.unsqueeze(0)])

    def bucket(x):
        return lsh_buckets(at(x), buckets=2)[0, 39].item()

    def out(x):
        return lsh_attention(at(x), v, buckets=2, rounds=1)[39]

    one = q_k[39].detach()
    other = next(x for x in q_k.detach() if bucket(x) != bucket(one))
    for _ in range(40):
        middle = (one + other) / 2
        one, other = (middle, other) if bucket(middle) == bucket(one) else (one, middle)
    step = other - one
    assert step.norm() < 1e-10
    assert (out(one) - out(one - step)).norm() < 1e-9 and (out(other) - out(other + step)).norm() < 1e-9
    assert (out(one) - out(other)).norm() > 0.1


def test_more_rounds_find_more_of_full_attention():
    q_k, v = hashed_arguments(128)
    keys = q_k / q_k.norm(dim=-1, keepdim=True)
    causal = torch.ones(128, 128, dtype=torch.bool).tril(-1)
    full = attention_weights(q_k, keys, causal=False, mask=causal)
    found = []
    for rounds in (1, 2, 4, 8, 16):
        sees = met(lsh_buckets(q_k, buckets=8, rounds=rounds), 32, True)
        found.append((full * sees).sum(-1)[..., 1:].mean().item())
    assert found == sorted(found) and found[0] < 0.5 < 0.8 < found[-1]


def test_weights_can_be_read_off_with_the_identity_as_values():
    q_k, _ = hashed_arguments(40)
    weights = lsh_attention(q_k, torch.eye(40, dtype=q_k.dtype).expand(2, 3, 40, 40), buckets=4, rounds=2, chunk=8)
    assert_close(weights.sum(-1), torch.ones(2, 3, 40, dtype=q_k.dtype), 1e-13)
    mask = met(lsh_buckets(q_k, buckets=4, rounds=2), 8, True)
    assert torch.equal(weights > 0, mask)


def test_a_token_sees_itself_only_when_it_meets_nothing_else():
    q_k, v = hashed_arguments(64)
    for rounds in (1, 2):
        weights = lsh_attention(q_k, torch.eye(64, dtype=v.dtype).expand(2, 3, 64, 64), buckets=32, rounds=rounds)
        own = weights.diagonal(dim1=-2, dim2=-1)
        assert ((own == 0) | (own == 1)).all() and (own == 1).any() and (own[..., 0] == 1).all()
        assert torch.equal(own == 1, weights.tril(-1).sum(-1) == 0)


@pytest.mark.parametrize("buckets, rounds, chunk", [(1, 2, 16), (4, 3, 7), (8, 2, 16), (32, 2, None), (64, 1, 2)])
def test_the_future_changes_no_bit_of_a_hashed_past(buckets, rounds, chunk):
    """Nor whom it meets: chunks are counted from each bucket's start."""
    options = {"buckets": buckets, "rounds": rounds, "chunk": chunk}
    for T in (64, 129):
        q_k, v = hashed_arguments(T, dtype=torch.float32)
        before, before_lse = lsh_attention(q_k, v, **options, return_lse=True)
        for t in (1, 16, 17, 63, 64, 100, 128)[: 4 if T == 64 else 7]:
            others, other_v = hashed_arguments(T, seed=t, dtype=torch.float32)
            for change in (lambda x, y: y, lambda x, y: 0 * y, lambda x, y: y + math.nan, lambda x, y: -x):
                later, later_v = q_k.clone(), v.clone()
                later[..., t:, :] = change(q_k, others)[..., t:, :]
                later_v[..., t:, :] = change(v, other_v)[..., t:, :]
                after, after_lse = lsh_attention(later, later_v, **options, return_lse=True)
                assert torch.equal(after[..., :t, :], before[..., :t, :])
                assert torch.equal(after_lse[..., :t], before_lse[..., :t])


def test_chunks_cut_from_the_whole_sorted_row_let_the_future_choose():
    """Kitaev et al. 2020, Eq. 5 taken literally: where token 5 is hashed decides whether token 4 meets token 1."""

    def met_by_4(bucket, m=2):
        order = sorted(range(6), key=lambda t: (bucket[t], t))
        place = [order.index(t) // m for t in range(6)]
        return {t for t in range(4) if bucket[t] == bucket[4] and 0 <= place[4] - place[t] <= 1}

    assert met_by_4([1, 1, 1, 1, 1, 1]) == {2, 3} and met_by_4([1, 1, 1, 1, 1, 0]) == {1, 2, 3}
    for last in (0, 1):
        here = met(torch.tensor([[1, 1, 1, 1, 1, last]]), 2, True)
        assert here[4].nonzero().squeeze(-1).tolist() == [2, 3]


@few
@given(st.integers(1, 90), st.integers(1, 90), st.sampled_from([1, 2, 6, 16]), st.integers(1, 3), st.integers(1, 40))
def test_a_prefix_gets_what_the_whole_gives_it(T, prefix, buckets, rounds, chunk):
    q_k, v = hashed_arguments(T, lead=(2,))
    options = {"buckets": buckets, "rounds": rounds, "chunk": chunk}
    whole = lsh_attention(q_k, v, **options)
    prefix = min(prefix, T)
    assert_close(lsh_attention(q_k[:, :prefix], v[:, :prefix], **options), whole[:, :prefix], 1e-13)


@few
@given(st.randoms(use_true_random=False), st.integers(1, 60), st.sampled_from([1, 2, 6]))
def test_without_order_tokens_may_be_permuted(random, T, buckets):
    """Not causal and with whole buckets in one chunk there is no order; heads and batches never have one."""
    q_k, v = hashed_arguments(T)
    options = {"buckets": buckets, "rounds": 2, "chunk": T, "causal": False}
    out = lsh_attention(q_k, v, **options)
    order = random.sample(range(T), T)
    assert_close(lsh_attention(q_k[..., order, :], v[..., order, :], **options), out[..., order, :], 1e-13)
    heads = random.sample(range(3), 3)
    assert_close(lsh_attention(q_k[:, heads], v[:, heads], **options), out[:, heads], 1e-13)


@pytest.mark.parametrize("tile", [1, 5000])
def test_chunks_may_be_met_in_several_products(monkeypatch, tile):
    monkeypatch.setattr(sparse, "TILE", tile)
    tensors = hashed_arguments(100)
    hashing = {"buckets": 4, "rounds": 2, "seed": 0}
    got = gradients(lambda q_k, v: lsh_attention(q_k, v, chunk=10, return_lse=True, **hashing), tensors)
    want = gradients(lambda q_k, v: over_all_pairs(q_k, v, 10, **hashing), tensors)
    assert_same_gradients(got, want, 1e-11, "q_k v")
    assert_close(lsh_attention(*tensors, chunk=10, **hashing), over_all_pairs(*tensors, 10, **hashing)[0], 1e-12)


def test_every_head_is_hashed_alike():
    q_k, v = hashed_arguments(40)
    options = {"buckets": 4, "rounds": 2, "chunk": 8}
    out = lsh_attention(q_k, v, **options)
    assert_close(out[1, 2], lsh_attention(q_k[1, 2], v[1, 2], **options), 1e-14)
    assert lsh_attention(q_k[:0], v[:0], **options).shape == (0, 3, 40, D_V)
    assert torch.equal(lsh_attention(q_k, v, **options, seed=0), out)
    assert not torch.equal(lsh_attention(q_k, v, **options, seed=1), out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_inputs_are_hashed_in_fp32(dtype):
    q_k, v = hashed_arguments(65, dtype=dtype)
    out, lse = lsh_attention(q_k, v, buckets=4, chunk=16, return_lse=True)
    want, want_lse = lsh_attention(q_k.float(), v.float(), buckets=4, chunk=16, return_lse=True)
    assert out.dtype == dtype and torch.equal(out, want.to(dtype))
    assert lse.dtype == torch.float32 and torch.equal(lse, want_lse)


@pytest.mark.parametrize("size", [1e-36, 1e-18, 1e-4, 1e4, 1e18, 1e36])
def test_keys_have_length_one_at_any_size(size):
    q_k, v = hashed_arguments(65, dtype=torch.float32)
    out = lsh_attention(size * q_k, v, buckets=4, chunk=16)
    assert out.isfinite().all()
    if size <= 1:
        want, _ = over_all_pairs(size * q_k.double(), v.double(), 16, buckets=4, rounds=4, seed=0)
        assert_close(out, want, 1e-6)
    got = gradients(lambda q_k, v: lsh_attention(q_k, v, buckets=4, chunk=16), [size * q_k, v])
    assert all(x.isfinite().all() for x in got)


def test_length_one_of_vectors_with_a_zero_in_them():
    for size in (1e-20, 1.0, 1e30):
        x = size * torch.tensor([[3.0, 0.0, 4.0]])
        assert_close(sparse._unit(x), torch.tensor([[0.6, 0.0, 0.8]]), 1e-6)


def test_zero_vectors_and_identical_tokens():
    v = hashed_arguments(40)[1]
    for q_k in (torch.zeros(2, 3, 40, D, dtype=v.dtype), torch.ones(2, 3, 40, D, dtype=v.dtype)):
        out = lsh_attention(q_k, v, buckets=8, rounds=3, chunk=40)  # all in one bucket, in every round
        earlier = v.cumsum(-2)[..., :-1, :] / torch.arange(1, 40).unsqueeze(-1)
        assert_close(out, torch.cat([v[..., :1, :], earlier], dim=-2), 1e-13)
        got = gradients(lambda q_k, v: lsh_attention(q_k, v, buckets=8, rounds=3, chunk=40), [q_k, v])
        assert all(x.isfinite().all() for x in got)


# --- bug reports -----------------------------------------------------------------------------------------------------


def test_report_window_of_w_sees_one_more_or_is_off_at_zero():
    """transformers #39408, #29623; ml-explore/mlx-lm #390; apple/axlearn #1009; unsloth #8253: w or w + 1 keys."""
    mask = window_mask(20, window=8)
    assert mask.sum(-1).tolist() == [min(t + 1, 8) for t in range(20)]
    q, k, v = arguments(20, 20, lead=())
    weights = sliding_window_attention(q, k, torch.eye(20, dtype=q.dtype), window=8)
    assert torch.equal(weights > 0, mask)
    for window in (0, -1):
        with complains("window"):
            sliding_window_attention(q, k, v, window=window)
        with complains("window"):
            window_mask(20, window=window)


def test_report_whole_window_lies_in_padding():
    """transformers #45511, #45491: ten tokens of left padding and a window of 4 gave NaN."""
    q, k, v = arguments(20, 20, lead=())
    k[:10], v[:10] = math.nan, math.nan
    mask = window_mask(20, window=4) & (torch.arange(20) >= 10)
    out = attention(q, k, v, mask=mask)
    assert torch.equal(out[:10], torch.zeros(10, D_V, dtype=q.dtype))
    assert_close(out[10:], sliding_window_attention(q[10:], k[10:], v[10:], window=4), 1e-13)
    assert_close(sliding_window_attention(q, k, v, window=4)[13:], out[13:], 1e-13)
    got = gradients(lambda q, v: attention(q, k, v, mask=mask), [q, v])
    assert all(x.isfinite().all() for x in got)


@pytest.mark.parametrize("causal", [True, False])
def test_report_length_is_no_multiple_and_the_first_chunk_looks_back_to_the_last(causal):
    """lucidrains/reformer-pytorch #72, #123; Rick-McCoy/Reformer-pytorch #3; transformers #5560: T = 70, chunks of 32.

    With one bucket the chunks are the sequence cut at 32 and 64; the first must not meet the last.
    """
    q_k, _ = hashed_arguments(70, lead=())
    weights = lsh_attention(q_k, torch.eye(70, dtype=q_k.dtype), buckets=1, rounds=1, chunk=32, causal=causal)
    assert (weights[:32, 32:] == 0).all() and (weights[64:, :32] == 0).all()
    assert (weights[33:, 32] > 0).all() and (weights[32:64, :32] > 0).all()
    assert_close(weights.sum(-1), torch.ones(70, dtype=q_k.dtype), 1e-13)


def test_report_causal_window_is_aligned_to_the_top():
    """pytorch/pytorch #103082; Dao-AILab/flash-attention #282: one query over six keys, here with a window of 4."""
    q, k, v = arguments(1, 6, lead=())
    want = torch.softmax(q @ k[2:].mT / math.sqrt(D), -1) @ v[2:]
    assert_close(sliding_window_attention(q, k, v, window=4), want, 1e-14)


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG = {
    "q: a list": ("q", lambda a: a | {"q": [[1.0]]}),
    "q: integers": ("q", lambda a: a | {"q": a["q"].long()}),
    "q: a vector": ("q", lambda a: a | {"q": a["q"][0, 0, 0]}),
    "k: dtype": ("k", lambda a: a | {"k": a["k"].double()}),
    "k: a vector": ("k", lambda a: a | {"k": a["k"][0, 0, 0]}),
    "v: a vector": ("v", lambda a: a | {"v": a["v"][0, 0, 0]}),
    "k: channels": ("k", lambda a: a | {"k": a["k"][..., 1:]}),
    "k: heads": ("k", lambda a: a | {"k": a["k"][:, :1]}),
    "k: axis missing": ("k", lambda a: a | {"k": a["k"][0]}),
    "v: T": ("v", lambda a: a | {"v": a["v"][..., 1:, :]}),
    "v: batch": ("v", lambda a: a | {"v": a["v"][:1]}),
    "v: dtype": ("v", lambda a: a | {"v": a["v"].double()}),
    "v: no channels": ("v", lambda a: a | {"v": a["v"][..., :0]}),
    "window: 0": ("window", lambda a: a | {"window": 0}),
    "window: None": ("window", lambda a: a | {"window": None}),
    "window: a float": ("window", lambda a: a | {"window": 4.0}),
    "sinks: negative": ("sinks", lambda a: a | {"sinks": -1}),
    "sinks: a boolean": ("sinks", lambda a: a | {"sinks": True}),
    "scale: a tensor": ("scale", lambda a: a | {"scale": torch.tensor(1.0), "sinks": 0}),
    "scale: NaN": ("scale", lambda a: a | {"scale": math.nan, "sinks": 0}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_windows_are_named(wrong):
    name, spoil = WRONG[wrong]
    q, k, v = arguments(4, 6, dtype=torch.float32)
    right = {"q": q, "k": k, "v": v, "window": 3, "sinks": 1}
    sliding_window_attention(**right)
    with complains(name):
        sliding_window_attention(**spoil(right))


WRONG_HASHED = {
    "q_k: a list": ("q_k", lambda a: a | {"q_k": [[1.0]]}),
    "q_k: integers": ("q_k", lambda a: a | {"q_k": a["q_k"].long()}),
    "q_k: a vector": ("q_k", lambda a: a | {"q_k": a["q_k"][0, 0, 0]}),
    "v: dtype": ("v", lambda a: a | {"v": a["v"].double()}),
    "v: T": ("v", lambda a: a | {"v": a["v"][..., 1:, :]}),
    "v: heads": ("v", lambda a: a | {"v": a["v"][:, :1]}),
    "v: a vector": ("v", lambda a: a | {"v": a["v"][0, 0, 0]}),
    "v: no channels": ("v", lambda a: a | {"v": a["v"][..., :0]}),
    "buckets: odd": ("buckets", lambda a: a | {"buckets": 3}),
    "buckets: 0": ("buckets", lambda a: a | {"buckets": 0}),
    "rounds: 0": ("rounds", lambda a: a | {"rounds": 0}),
    "chunk: 0": ("chunk", lambda a: a | {"chunk": 0}),
    "chunk: a float": ("chunk", lambda a: a | {"chunk": 4.0}),
    "seed: None": ("seed", lambda a: a | {"seed": None}),
    "seed: None for one bucket": ("seed", lambda a: a | {"seed": None, "buckets": 1}),
    "scale: a word": ("scale", lambda a: a | {"scale": "1"}),
    "scale: infinite": ("scale", lambda a: a | {"scale": math.inf}),
}


@pytest.mark.parametrize("wrong", WRONG_HASHED)
def test_wrong_hashing_is_named(wrong):
    name, spoil = WRONG_HASHED[wrong]
    q_k, v = hashed_arguments(6, dtype=torch.float32)
    right = {"q_k": q_k, "v": v, "buckets": 2, "rounds": 2, "chunk": 3}
    lsh_attention(**right)
    with complains(name):
        lsh_attention(**spoil(right))


@pytest.mark.parametrize(
    "name, x, options",
    [
        ("x", [[1.0]], {}),
        ("x", torch.ones(3, dtype=torch.int64), {}),
        ("x", torch.ones(3), {}),
        ("buckets", torch.ones(3, 3), {"buckets": 5}),
        ("buckets", torch.ones(3, 3), {"buckets": -2}),
        ("rounds", torch.ones(3, 3), {"rounds": 0}),
        ("seed", torch.ones(3, 3), {"seed": 1.5}),
        ("seed", torch.ones(3, 3), {"seed": 2**64}),
        ("seed", torch.ones(3, 3), {"seed": -(2**63) - 1}),
    ],
)
def test_wrong_vectors_to_hash_are_named(name, x, options):
    with complains(name):
        lsh_buckets(x, **{"buckets": 4} | options)


@pytest.mark.parametrize(
    "name, mask, options",
    [
        ("queries", window_mask, {"queries": -1, "window": 2}),
        ("queries", window_mask, {"queries": 4.0, "window": 2}),
        ("keys", window_mask, {"keys": -1, "window": 2}),
        ("window", window_mask, {"window": 0}),
        ("sinks", window_mask, {"window": 2, "sinks": -1}),
        ("queries", dilated_mask, {"queries": True, "window": 2, "dilation": 2}),
        ("window", dilated_mask, {"window": 0, "dilation": 2}),
        ("dilation", dilated_mask, {"window": 2, "dilation": 0}),
        ("queries", global_mask, {"queries": None, "tokens": [0]}),
        ("tokens", global_mask, {"tokens": 2}),
        ("tokens", global_mask, {"tokens": [8]}),
        ("tokens", global_mask, {"tokens": [-1]}),
        ("tokens", global_mask, {"tokens": [0.5]}),
        ("tokens", global_mask, {"tokens": torch.tensor(2)}),
        ("tokens", global_mask, {"tokens": torch.tensor([0.5])}),
        ("keys", bigbird_mask, {"keys": "8", "block_size": 2}),
        ("block_size", bigbird_mask, {"block_size": 0}),
        ("window", bigbird_mask, {"block_size": 2, "window": 0}),
        ("global_blocks", bigbird_mask, {"block_size": 2, "global_blocks": -1}),
        ("random_blocks", bigbird_mask, {"block_size": 2, "random_blocks": -1}),
        ("seed", bigbird_mask, {"block_size": 2, "seed": "a"}),
        ("seed", bigbird_mask, {"block_size": 2, "seed": True}),
        ("seed", bigbird_mask, {"block_size": 2, "seed": 2**70}),
    ],
)
def test_wrong_masks_are_named(name, mask, options):
    with complains(name):
        mask(**{"queries": 8} | options)


def test_buckets_are_the_same_whatever_the_default_device():
    x = hashed_arguments(50)[0]
    with torch.device("meta"):
        got = lsh_buckets(x, buckets=8, rounds=2)
    assert torch.equal(got, lsh_buckets(x, buckets=8, rounds=2))


def test_seeds_have_64_bits():
    x = hashed_arguments(5)[0]
    for seed in (2**64 - 1, -(2**63), np.int64(3)):
        want = lsh_buckets(x, buckets=8, seed=int(seed) % 2**64)  # as torch takes a negative seed
        assert torch.equal(lsh_buckets(x, buckets=8, seed=seed), want)


def test_masks_have_the_documented_defaults():
    want = window_mask(40, 40, window=3, sinks=0, causal=True)
    assert torch.equal(window_mask(40, window=3), want)
    assert torch.equal(dilated_mask(40, window=3, dilation=1), want)
    assert torch.equal(global_mask(40, tokens=[7]), global_mask(40, 40, tokens=[7], causal=True))
    options = {"window": 3, "global_blocks": 2, "random_blocks": 3, "seed": 0, "causal": True}
    assert torch.equal(bigbird_mask(60, block_size=2), bigbird_mask(60, 60, block_size=2, **options))
    assert not torch.equal(bigbird_mask(60, block_size=2), bigbird_mask(60, 60, block_size=2, **options | {"seed": 1}))


def test_attention_has_the_documented_defaults():
    q, k, v = arguments(40, 40)
    assert torch.equal(
        sliding_window_attention(q, k, v, window=5), sliding_window_attention(q, k, v, window=5, sinks=0)
    )
    assert torch.equal(lsh_buckets(q, buckets=8), lsh_buckets(q, buckets=8, rounds=1, seed=0))
    options = {"rounds": 4, "seed": 0, "causal": True, "chunk": 10}  # twice the mean bucket
    assert torch.equal(lsh_attention(q, v, buckets=8), lsh_attention(q, v, buckets=8, **options))


def test_bands_are_made_where_the_tensors_are():
    for T, window in ((100, 5), (100, 90), (30, 50)):
        q, k, v = arguments(T, 80)
        want = sliding_window_attention(q, k, v, window=window, return_lse=True)
        with made_elsewhere():
            got = sliding_window_attention(q, k, v, window=window, return_lse=True)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_chunks_are_made_where_the_tensors_are(monkeypatch):
    q_k, v = hashed_arguments(40)
    bucket = lsh_buckets(q_k, buckets=4, rounds=4)
    want = lsh_attention(q_k, v, buckets=4)
    monkeypatch.setattr(sparse, "lsh_buckets", lambda *_, **options: bucket)  # draws on the CPU
    with made_elsewhere():
        assert torch.equal(lsh_attention(q_k, v, buckets=4), want)


def test_buckets_lie_where_the_vectors_are():
    x = torch.ones(5, 4)
    assert lsh_buckets(x.to("meta"), buckets=4).device.type == "meta"
    assert lsh_buckets(x.to("meta"), buckets=1).device.type == "meta"
    with made_elsewhere():
        assert lsh_buckets(x, buckets=1).device == x.device


def test_options_are_keywords():
    q, k, v = arguments(4, 4)
    with pytest.raises(TypeError):
        sliding_window_attention(q, k, v, 2)
    with pytest.raises(TypeError):
        lsh_attention(q, v, 2)
    with pytest.raises(TypeError):
        window_mask(4, 4, 2)
