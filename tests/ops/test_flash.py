"""FlashAttention against torch's attention: values, gradients, memory, skipped tiles; online softmax step by step."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnledger.ops.flash import flash_attention, online_softmax
from attnledger.ops.softmax import attention, merge

from .matrix import (
    LENGTHS,
    WRONG_OPTIONS,
    Inputs,
    assert_close,
    assert_same_gradients,
    complains,
    gradients,
    made_elsewhere,
)

D, D_V = 8, 5
TILINGS = ((64, 64), (16, 16), (7, 20), (20, 7), (256, 256))


def arguments(T_q, T_k, lead=(2, 3), seed=0, dtype=torch.float64, d=D, d_v=D_V):
    draw = Inputs(seed, dtype)
    return [draw.normal(*lead, T_q, d), draw.normal(*lead, T_k, d), draw.normal(*lead, T_k, d_v)]


def run(tiling, causal=True, **options):
    """Flash attention as a function of its tensors alone, returning output and log-sum-exp."""
    options = {"block_q": tiling[0], "block_k": tiling[1], "causal": causal, "return_lse": True} | options

    def call(q, k, v):
        return flash_attention(q, k, v, **options)

    return call


def dense(causal=True, **options):
    """The same by `ops.softmax`, which holds all scores."""

    def call(q, k, v):
        return attention(q, k, v, causal=causal, return_lse=True, **options)

    return call


def assert_same(got, want, tolerance):
    """Outputs and log-sum-exps, −∞ in the same places."""
    assert_close(got[0], want[0], tolerance, "output")
    nothing = want[1] == -math.inf
    assert torch.equal(got[1] == -math.inf, nothing)
    assert_close(got[1].masked_fill(nothing, 0.0), want[1].masked_fill(nothing, 0.0), tolerance, "log-sum-exp")


def seen_only(function):
    """Without the log-sum-exps of −∞, of which no weighted sum can be taken."""

    def call(q, k, v):
        out, lse = function(q, k, v)
        return out, lse[lse > -math.inf]

    return call


class Allocations(TorchDispatchMode):
    """What runs under it: the tensors it makes, and the operators it calls. The clock is the number of operators."""

    def __init__(self, *given):
        super().__init__()
        self.given = {x.untyped_storage()._cdata for x in given}
        self.alive, self.peak, self.largest, self.calls = {}, 0, 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.calls.append(func.overloadpacket.__name__)
        self.alive = {key: (ref, size) for key, (ref, size) in self.alive.items() if not ref.expired()}
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.untyped_storage()._cdata not in self.given:
                storage = x.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
                self.largest = max(self.largest, storage.nbytes())
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return out


# --- against torch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", LENGTHS)
def test_it_is_torch_attention_gradients_included(T):
    tensors = arguments(T, T, lead=(2,))
    for causal in (True, False):

        def torchs(q, k, v, causal=causal):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

        want, want_gradients = (torchs(*tensors), gradients(torchs, tensors)) if T else (tensors[2], tensors)
        for tiling in TILINGS:

            def ours(q, k, v, tiling=tiling, causal=causal):
                return run(tiling, causal)(q, k, v)[0]

            assert_close(ours(*tensors), want, 1e-13)
            assert_same_gradients(gradients(ours, tensors), want_gradients, 1e-12, "q k v")


@pytest.mark.parametrize("T", LENGTHS)
def test_the_log_sum_exp_and_its_gradient(T):
    q, k, _ = tensors = arguments(T, T, lead=(2,))

    def want_lse(q, k):
        scores = (q @ k.mT / math.sqrt(D)).masked_fill(torch.ones(T, T).triu(1) > 0, -math.inf)
        return torch.logsumexp(scores, dim=-1)

    for tiling in TILINGS:

        def lse(q, k, tiling=tiling):
            return run(tiling)(q, k, tensors[2])[1]

        assert_close(lse(q, k), want_lse(q, k), 1e-13)
        assert_same_gradients(gradients(lse, [q, k]), gradients(want_lse, [q, k]), 1e-12, "q k")
        both = gradients(run(tiling), tensors)
        assert_same_gradients(both, gradients(dense(), tensors), 1e-12, "q k v")


@pytest.mark.parametrize("T_k", LENGTHS)
def test_decoding_aligns_the_mask_to_the_end(T_k):
    q, k, v = arguments(T_k, T_k, lead=(2,))
    for T_q in (t for t in LENGTHS if t <= T_k):
        last = q[..., T_k - T_q :, :]
        for tiling in TILINGS:
            assert_same(run(tiling)(last, k, v), dense()(last, k, v), 1e-13)
        if T_q:
            want = scaled_dot_product_attention(last, k, v, attn_mask=causal_lower_right(T_q, T_k))
            assert_close(flash_attention(last, k, v), want, 1e-13)


@pytest.mark.parametrize("sizes", [(5, 3), (40, 3), (17, 0), (65, 64), (0, 3)])
def test_queries_before_the_first_key_see_nothing(sizes):
    """More queries than keys: the first ones get 0 and −∞, and no gradient, whatever reaches their log-sum-exp."""
    T_q, T_k = sizes
    tensors = arguments(T_q, T_k)
    for tiling in TILINGS:
        out, lse = run(tiling)(*tensors)
        before = max(T_q - T_k, 0)
        assert torch.equal(out[..., :before, :], torch.zeros(2, 3, before, D_V, dtype=out.dtype))
        assert (lse[..., :before] == -math.inf).all()
        assert_same((out, lse), dense()(*tensors), 1e-13)
        want = gradients(seen_only(dense()), tensors)
        assert_same_gradients(gradients(seen_only(run(tiling)), tensors), want, 1e-12, "q k v")


def test_the_gradients_are_those_of_finite_differences():
    for sizes, causal in (((7, 11), True), ((11, 7), False), ((6, 6), True)):
        tensors = [x.requires_grad_() for x in arguments(*sizes, lead=(2,), d=3, d_v=2)]
        assert torch.autograd.gradcheck(run((3, 4), causal, scale=0.9), tensors)


def test_the_backward_pass_has_no_derivative_of_its_own():
    """torch would leave a gradient penalty out without a word; so it must not get that far."""
    tensors = [x.requires_grad_() for x in arguments(4, 4)]
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.autograd.grad(flash_attention(*tensors).sum(), tensors[:1], create_graph=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lead=st.sampled_from([(), (1,), (3,), (2, 2), (0,)]),
    T_q=st.integers(0, 20),
    T_k=st.integers(0, 20),
    d=st.integers(1, 5),
    d_v=st.integers(1, 5),
    tiling=st.tuples(st.integers(1, 24), st.integers(1, 24)),
    causal=st.booleans(),
    scale=st.sampled_from([None, 0.0, -0.7, 3.0]),
    seed=st.integers(0, 99),
)
def test_any_shape_in_any_tiles(lead, T_q, T_k, d, d_v, tiling, causal, scale, seed):
    tensors = arguments(T_q, T_k, lead, seed, d=d, d_v=d_v)
    ours, want = run(tiling, causal, scale=scale), dense(causal, scale=scale)
    assert_same(ours(*tensors), want(*tensors), 1e-12)
    same_gradients = gradients(seen_only(want), tensors)
    assert_same_gradients(gradients(seen_only(ours), tensors), same_gradients, 1e-11, "q k v")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(parts=st.lists(st.integers(0, 12), min_size=1, max_size=5), T_q=st.integers(1, 5), seed=st.integers(0, 99))
def test_any_split_of_the_keys_merges(parts, T_q, seed):
    q, k, v = arguments(T_q, sum(parts), (2,), seed)
    pieces = zip(k.split(parts, dim=-2), v.split(parts, dim=-2), strict=True)
    outs, lses = zip(*(run((4, 5), causal=False)(q, *piece) for piece in pieces), strict=True)
    assert_same(merge(outs, lses), dense(causal=False)(q, k, v), 1e-12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(pieces=st.lists(st.integers(0, 12), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_any_split_into_prefill_and_decode(pieces, seed):
    q, k, v = arguments(sum(pieces), sum(pieces), (2,), seed)
    ends = [sum(pieces[: i + 1]) for i in range(len(pieces))]
    outs = [
        flash_attention(q[:, end - piece : end], k[:, :end], v[:, :end], block_q=4, block_k=5)
        for piece, end in zip(pieces, ends, strict=True)
    ]
    assert_close(torch.cat(outs, dim=1), attention(q, k, v), 1e-12)


def test_tiles_are_made_where_the_tensors_are():
    leaves = [x.requires_grad_() for x in arguments(20, 20)]

    def everything():
        out, lse = run((7, 7))(*leaves)
        return out, lse, *torch.autograd.grad(out.sum() + lse.sum(), leaves), online_softmax(leaves[0], 3).weights

    want = everything()
    with made_elsewhere():
        got = everything()
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_every_head_is_its_own_matrix_wherever_it_lies():
    q, k, v = arguments(40, 50)
    out, lse = run((16, 16))(q, k, v)
    for b in range(2):
        for h in range(3):
            assert_same((out[b, h], lse[b, h]), run((16, 16))(q[b, h], k[b, h], v[b, h]), 1e-13)
    tokens_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]  # the kernels' (B, T, h, d)
    assert not tokens_first[0].is_contiguous()
    assert_same(run((16, 16))(*tokens_first), (out, lse), 1e-15)


# --- memory and work -------------------------------------------------------------------------------------------------


def allocations(function, T, backward):
    tensors = [x.requires_grad_(backward) for x in arguments(T, T, lead=(2,))]
    with Allocations(*tensors) as mode:
        out = function(*tensors)[0]
        if backward:
            out.sum().backward()
    return mode


@pytest.mark.parametrize("backward", [False, True])
def test_extra_memory_grows_with_the_length_and_not_with_its_square(backward):
    """Everything alive at once, in bytes: at most so many matrices (T, d) and a few tiles."""
    tile = 2 * 16 * 16 * 8
    at = {T: allocations(run((16, 16)), T, backward) for T in (128, 256, 512)}
    for T, mode in at.items():
        assert mode.largest <= 2 * T * D * 8  # of q, of the output: never of scores
        assert mode.peak <= (8 if backward else 3) * 2 * T * D * 8 + 8 * tile
    assert at[256].peak <= 2 * at[128].peak and at[512].peak <= 2 * at[256].peak
    scores = 2 * 512 * 512 * 8
    assert allocations(dense(), 512, backward).largest == scores  # the instrument does see such a thing
    assert at[512].peak < scores / 4


def test_only_tiles_that_hold_something_visible_are_computed():
    """8 x 8 tiles: 36 on and below the diagonal. Two products each going forward, five going back."""
    for causal, tiles in ((True, 36), (False, 64)):
        for backward in (False, True):
            calls = allocations(run((16, 16), causal), 128, backward).calls
            products = [name for name in calls if name in ("bmm", "baddbmm", "baddbmm_")]
            assert len(products) == tiles * (7 if backward else 2)
    tensors = arguments(1, 128, lead=(2,))
    with Allocations(*tensors) as mode:  # decoding: one row of tiles
        run((16, 16))(*tensors)
    assert len([name for name in mode.calls if name in ("bmm", "baddbmm", "baddbmm_")]) == 2 * 8


def test_memory_that_holds_rubbish_is_never_read():
    """torch can fill fresh memory with NaN; so the pages run."""
    tensors = arguments(65, 40)
    want = run((16, 16))(*tensors)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(2).isnan().all()
        got, got_gradients = run((16, 16))(*tensors), gradients(seen_only(run((16, 16))), tensors)
    finally:
        torch.use_deterministic_algorithms(before)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert all(x.isfinite().all() for x in got_gradients)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_inputs_are_computed_in_fp32(dtype):
    tensors = arguments(65, 65, dtype=dtype)
    out, lse = run((16, 16))(*tensors)
    want, want_lse = run((16, 16))(*(x.float() for x in tensors))
    assert out.dtype == dtype and torch.equal(out, want.to(dtype))
    assert lse.dtype == torch.float32 and torch.equal(lse, want_lse)
    for x, want in zip(
        gradients(run((16, 16)), tensors), gradients(run((16, 16)), [x.float() for x in tensors]), strict=True
    ):
        assert x.dtype == dtype
        assert_close(x, want, 2**-7)


def test_fp32_is_as_exact_as_torchs():
    tensors = arguments(300, 300, dtype=torch.float32, d=64)
    doubles = [x.double() for x in tensors]
    for got, want in zip(run((64, 64))(*tensors), dense()(*doubles), strict=True):
        assert_close(got, want, 1e-6)
    got, want = gradients(run((64, 64)), tensors), gradients(dense(), doubles)
    for a, b in zip(got, want, strict=True):
        assert_close(a, b, 3e-6)


@pytest.mark.parametrize("size", [1e-18, 1e-4, 1e4, 1e18])
def test_scores_of_any_size_are_finite(size):
    q, k, v = arguments(40, 40, dtype=torch.float32)
    out, lse = run((16, 16))(size * q, size * k, v)
    assert out.isfinite().all() and lse.isfinite().all()
    if size <= 1e4:
        want = dense()(size * q.double(), size * k.double(), v.double())
        assert_same((out, lse), want, 1e-5 if size < 1 else 2e-3)  # scores of 1e8 carry an error of several units
    assert_close(flash_attention(q, k, size * v), size * attention(q.double(), k.double(), v.double()), 1e-6)
    leaves = [size * q, size * k, v]
    got, want = gradients(run((16, 16)), leaves), gradients(dense(), leaves)
    for a, b in zip(got, want, strict=True):
        assert_close(a, b, 1e-5)


@pytest.mark.parametrize("score", [1e5, 1e9, 1e30])
def test_ties_of_huge_scores_share_the_gradient(score):
    """In fp32 the log-sum-exp of two scores of 1e9 is 1e9, as of one: from it both weights would come back as 1."""
    q, k = torch.tensor([[score]]), torch.tensor([[1.0], [1.0], [-1.0]])
    v = torch.tensor([[1.0], [3.0], [7.0]])
    for tiling in ((1, 1), (1, 2), (64, 64)):

        def out(v, tiling=tiling):
            return run(tiling, causal=False, scale=1.0)(q, k, v)[0]

        leaf = v.clone().requires_grad_()
        (got,) = torch.autograd.grad(out(leaf).sum(), leaf)
        assert out(v).tolist() == [[2.0]] and got.tolist() == [[0.5], [0.5], [0.0]]


def test_rising_scores_rescale_and_falling_scores_do_not():
    """The largest score last, first, and in the middle: what came before must be shrunk by the right amount."""
    v = torch.eye(48, dtype=torch.float64)
    for scores in (torch.arange(48.0), -torch.arange(48.0), -(torch.arange(48.0) - 20).abs()):
        out, lse = run((1, 5), causal=False, scale=1.0)(torch.ones(1, 1).double(), scores.double()[:, None], v)
        assert_close(out[0], torch.softmax(scores.double(), -1), 1e-14)
        assert_close(lse[0], torch.logsumexp(scores.double(), -1), 1e-14)


def test_the_future_changes_no_bit_of_the_past():
    q, k, v = arguments(129, 129, dtype=torch.float32)
    _, other_k, other_v = arguments(129, 129, seed=1, dtype=torch.float32)
    for tiling in TILINGS:
        before, before_lse = run(tiling)(q, k, v)
        for t in (1, 16, 17, 63, 64, 100, 128):
            for later_k, later_v in ((3 * other_k, 3 * other_v), (math.nan * k, math.nan * v), (k, math.inf * v)):
                changed = [torch.cat((x[..., :t, :], y[..., t:, :]), -2) for x, y in ((k, later_k), (v, later_v))]
                after, after_lse = run(tiling)(q, *changed)
                assert torch.equal(after[..., :t, :], before[..., :t, :])
                assert torch.equal(after_lse[..., :t], before_lse[..., :t])
                assert not torch.equal(after[..., t:, :], before[..., t:, :])


def test_the_gradient_of_the_past_ignores_the_future():
    q, k, v = arguments(65, 65, dtype=torch.float32, lead=())
    other = arguments(65, 65, seed=1, dtype=torch.float32, lead=())

    def past(q, k, v):
        out, lse = run((16, 7))(q, k, v)
        return out[:40], lse[:40]

    changed = [torch.cat((x[:40], 3 * y[40:])) for x, y in zip((q, k, v), other, strict=True)]
    for a, b in zip(gradients(past, [q, k, v]), gradients(past, changed), strict=True):
        assert torch.equal(a[:40], b[:40]) and not a[40:].any() and not b[40:].any()


# --- online softmax --------------------------------------------------------------------------------------------------


def test_online_softmax_by_hand():
    """Scores ln 1, ln 2, ln 4, ln 1 in blocks of two: l is 3/2 at m = ln 2, then 1/2 of it and 5/4 more at m = ln 4."""
    steps, weights, lse = online_softmax(torch.tensor([1.0, 2.0, 4.0, 1.0]).double().log(), 2)
    first, second = steps
    assert (first.block, second.block) == (slice(0, 2), slice(2, 4))
    assert [first.m.item(), second.m.item()] == pytest.approx([math.log(2), math.log(4)])
    assert [first.kept.item(), second.kept.item()] == pytest.approx([0.0, 0.5])
    assert first.terms.tolist() == pytest.approx([0.5, 1.0])
    assert second.terms.tolist() == pytest.approx([1.0, 0.25])
    assert [first.l.item(), second.l.item()] == pytest.approx([1.5, 2.0])
    assert weights.tolist() == pytest.approx([1 / 8, 2 / 8, 4 / 8, 1 / 8])
    assert lse.item() == pytest.approx(math.log(8))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lead=st.sampled_from([(), (3,), (2, 2), (0,)]),
    n=st.integers(1, 20),
    block=st.integers(1, 24),
    size=st.sampled_from([1e-30, 1.0, 50.0, 1e30]),
    masked=st.sampled_from([0.0, 0.3, 0.9]),
    seed=st.integers(0, 99),
)
def test_online_softmax_is_softmax_at_every_step(lead, n, block, size, masked, seed):
    draw = Inputs(seed)
    scores = (size * draw.normal(*lead, n)).masked_fill(draw.uniform(*lead, n) < masked, -math.inf)
    steps, weights, lse = online_softmax(scores, block)
    assert len(steps) == math.ceil(n / block)
    for step in steps:
        assert torch.equal(step.scores, scores[..., step.block])
        assert step.m.shape == step.l.shape == step.kept.shape == lead
        so_far = scores[..., : step.block.stop]
        assert torch.equal(step.m, so_far.amax(-1))
        assert_same((step.l, step.m + step.l.log()), (step.l, torch.logsumexp(so_far, -1)), 1e-13)
        assert ((step.terms >= 0) & (step.terms <= 1)).all() and ((step.kept >= 0) & (step.kept <= 1)).all()
    empty = (scores == -math.inf).all(-1, keepdim=True)
    want = torch.softmax(scores, -1).masked_fill(empty, 0.0)
    assert_same((weights, lse), (want, torch.logsumexp(scores, -1)), 1e-13)


def test_a_step_is_a_record():
    first, second = online_softmax(torch.tensor([1.0, 2.0, 3.0, 4.0]), 2).steps
    assert first == first and first != second and len({first, second}) == 2
    with pytest.raises(AttributeError):
        first.m = second.m


def test_online_softmax_of_nothing():
    steps, weights, lse = online_softmax(torch.zeros(3, 0), 4)
    assert steps == [] and weights.shape == (3, 0) and lse.tolist() == [-math.inf] * 3
    steps, weights, lse = online_softmax(torch.full((4,), -math.inf), 3)
    assert [step.l.item() for step in steps] == [0.0, 0.0] and [step.m.item() for step in steps] == [-math.inf] * 2
    assert weights.tolist() == [0.0] * 4 and lse.item() == -math.inf


def test_an_empty_row_of_scores_has_no_gradient():
    scores = torch.tensor([[-math.inf] * 3, [1.0, -math.inf, 2.0]], requires_grad=True)
    _, weights, lse = online_softmax(scores, 2)
    for used in (lse[1], weights.sum()):
        (got,) = torch.autograd.grad(used, scores, retain_graph=True)
        assert got.isfinite().all() and not got[0].any()


def test_the_steps_keep_their_scores():
    scores = torch.tensor([1.0, 2.0, 3.0])
    steps = online_softmax(scores, 2).steps
    scores.zero_()
    assert [step.scores.tolist() for step in steps] == [[1.0, 2.0], [3.0]]


def test_online_softmax_takes_halves():
    scores = Inputs(0, torch.bfloat16).normal(3, 20)
    steps, weights, lse = online_softmax(scores, 7)
    assert weights.dtype == torch.bfloat16 and lse.dtype == steps[0].l.dtype == torch.float32
    assert torch.equal(weights, online_softmax(scores.float(), 7).weights.bfloat16())


# --- bug reports -----------------------------------------------------------------------------------------------------


def test_report_causal_mask_is_aligned_to_the_top():
    """pytorch/pytorch #103082, #108108, #115111; Dao-AILab/flash-attention #282; ml-explore/mlx #2835: one query over
    six keys must see all six."""
    q, k, v = arguments(1, 6, lead=())
    want = torch.softmax(q @ k.mT / math.sqrt(D), -1) @ v
    for block_k in (1, 2, 4, 64):
        assert_close(flash_attention(q, k, v, block_k=block_k), want, 1e-14)


def test_report_fully_masked_row_is_nan():
    """pytorch/pytorch #41508, #131060; iree-org/iree #24178; tracel-ai/burn #4697: NaN outputs and NaN gradients."""
    tensors = arguments(6, 2, lead=())
    for tiling in ((4, 4), (1, 1), (6, 2), (5, 1)):
        out, lse = run(tiling)(*tensors)
        assert torch.equal(out[:4], torch.zeros(4, D_V, dtype=out.dtype)) and (lse[:4] == -math.inf).all()

        def everything(q, k, v, tiling=tiling):  # the gradient of lse.exp() is NaN at −∞ only if ours lets it through
            out, lse = run(tiling)(q, k, v)
            return out, lse.sigmoid(), torch.where(lse == -math.inf, math.nan, 1.0) * lse

        leaves = [x.detach().requires_grad_() for x in tensors]
        got = torch.autograd.grad(everything(*leaves), leaves, [torch.ones_like(x) for x in everything(*leaves)])
        assert all(x.isfinite().all() for x in got) and not got[0][:4].any()


def test_report_finite_sentinel_stands_for_minus_infinity():
    """flashinfer-ai/flashinfer #4401, #4267, #4450: with -5e4 for 'masked', visible scores of -6e4 lose to masked
    ones, and a first tile without a visible score starts the maximum too high."""
    q, k, v = torch.ones(3, 1), torch.full((3, 1), -6e4), torch.eye(3)
    for tiling in ((1, 1), (2, 2), (3, 1), (64, 64)):
        out, lse = run(tiling, scale=1.0)(q, k, v)
        assert_close(out, torch.ones(3, 3).tril() / torch.arange(1, 4).unsqueeze(-1), 1e-6)
        assert_close(lse, -6e4 + torch.arange(1, 4).log(), 1e-6)


def test_report_nan_in_a_masked_position():
    """pytorch/pytorch #101967: 0 weight times a NaN value is NaN; here the token is in the queries' future."""
    q, k, v = arguments(6, 6, lead=())
    k[4], v[4] = math.nan, math.nan
    for tiling in ((1, 1), (2, 3), (64, 64)):
        out = run(tiling)(q, k, v)[0]
        assert_close(out[:4], attention(q[:4], k[:4], v[:4]), 1e-14)
        assert out[4:].isnan().all(), "a NaN that has weight must show"


def test_report_nan_in_a_masked_position_going_back():
    """pytorch/pytorch #101967: a value of NaN in the future reaches no gradient of the past, in tiles of any size."""
    q, k, v = arguments(6, 6)
    for rubbish in (math.nan, math.inf, -math.inf):
        v[..., 4:, 1:] = rubbish

        def past(function):
            return lambda q, k, v: [x[:, :, :4] for x in function(q, k, v)]

        for part in (past, seen_only):  # of the outputs that are finite, and of all
            want = gradients(part(dense()), [q, k, v])
            assert all(x.isfinite().all() for x in want)
            for tiling in ((1, 1), (2, 3), (4, 4), (6, 1), (64, 64)):
                got = gradients(part(run(tiling)), [q, k, v])
                assert_same_gradients(got, want, 1e-12, "q k v")


def test_report_query_of_nan_in_padding():
    """pytorch/pytorch #101967, in the queries: those before the first key see nothing, and 0 · NaN would reach it."""
    q, k, v = arguments(8, 6)
    want = gradients(seen_only(dense()), [q, k, v])
    for rubbish in (math.nan, math.inf):
        q[..., :2, :] = rubbish
        for tiling in ((1, 1), (3, 4), (8, 6), (64, 64)):
            got = gradients(seen_only(run(tiling)), [q, k, v])
            assert_same_gradients(got, want, 1e-12, "q k v")


def test_report_half_precision_products_on_a_cpu():
    """pytorch/pytorch #146508, #83863: bf16 products on a CPU are slow and inexact, so none is taken in bf16."""
    tensors = arguments(65, 65, dtype=torch.bfloat16)
    out = flash_attention(*tensors, block_q=16, block_k=16)
    want = attention(*(x.double() for x in tensors)).bfloat16()
    assert (out == want).double().mean() > 0.99
    with Allocations(*tensors) as mode:
        flash_attention(*tensors)
    assert "bmm" in mode.calls and mode.calls.count("_to_copy") == 4  # three inputs up, one output down


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG = {
    "q: an array": ("q", lambda a: a | {"q": a["q"].numpy()}),
    "q: integers": ("q", lambda a: a | {"q": a["q"].long()}),
    "q: a vector": ("q", lambda a: a | {"q": a["q"][0, 0, 0]}),
    "q: no channels": ("q", lambda a: a | {"q": a["q"][..., :0]}),
    "k: channels": ("k", lambda a: a | {"k": a["k"][..., 1:]}),
    "k: fewer heads than q": ("k", lambda a: a | {"k": a["k"][:, :1]}),
    "k: axis missing": ("k", lambda a: a | {"k": a["k"][0]}),
    "k: a vector": ("k", lambda a: a | {"k": a["k"][0, 0, 0]}),
    "k: dtype": ("k", lambda a: a | {"k": a["k"].double()}),
    "v: T": ("v", lambda a: a | {"v": a["v"][..., 1:, :]}),
    "v: heads": ("v", lambda a: a | {"v": a["v"][:, :1]}),
    "v: dtype": ("v", lambda a: a | {"v": a["v"].bfloat16()}),
    "v: no channels": ("v", lambda a: a | {"v": a["v"][..., :0]}),
    "block_q: zero": ("block_q", lambda a: a | {"block_q": 0}),
    "block_q: a fraction": ("block_q", lambda a: a | {"block_q": 2.0}),
    "block_k: negative": ("block_k", lambda a: a | {"block_k": -1}),
    "block_k: True": ("block_k", lambda a: a | {"block_k": True}),
} | WRONG_OPTIONS


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_named(wrong):
    name, spoil = WRONG[wrong]
    q, k, v = arguments(4, 6, dtype=torch.float32)
    right = {"q": q, "k": k, "v": v, "block_q": 2, "block_k": 2}
    flash_attention(**right)
    with complains(name):
        flash_attention(**spoil(right))


def test_wrong_scores_are_named():
    for name, scores, block in (
        ("scores", [1.0, 2.0], 1),
        ("scores", torch.arange(3), 1),
        ("scores", torch.tensor(1.0), 1),
        ("block", torch.zeros(3), 0),
        ("block", torch.zeros(3), 1.5),
    ):
        with complains(name):
            online_softmax(scores, block)


def test_options_are_keywords():
    with pytest.raises(TypeError):
        flash_attention(*arguments(4, 4), 64)
