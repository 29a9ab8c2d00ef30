"""Softmax attention against torch's own, and at the rows, lengths and numbers where hand-written softmax breaks."""

import math

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from attnledger.ops.softmax import attention, attention_weights, merge

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


def arguments(T_q, T_k, lead=(2, 3), seed=0, dtype=torch.float64):
    draw = Inputs(seed, dtype)
    return draw.normal(*lead, T_q, D), draw.normal(*lead, T_k, D), draw.normal(*lead, T_k, D_V)


def random_mask(*shape, seed=7):
    """Every third or so may be seen, and the first row nothing at all."""
    mask = Inputs(seed).uniform(*shape) < 0.3
    mask[..., 0, :] = False
    return mask


@pytest.mark.parametrize("T", LENGTHS)
def test_it_is_torch_attention_gradients_included(T):
    tensors = arguments(T, T)
    for causal in (True, False):

        def torchs(q, k, v, causal=causal):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

        def ours(q, k, v, causal=causal):
            return attention(q, k, v, causal=causal)

        if T:
            assert_close(ours(*tensors), torchs(*tensors), 1e-13)
            assert_same_gradients(gradients(ours, tensors), gradients(torchs, tensors), 1e-12, "q k v")
        else:
            assert ours(*tensors).shape == (2, 3, 0, D_V)


@pytest.mark.parametrize("T_k", LENGTHS)
def test_decoding_aligns_the_mask_to_the_end(T_k):
    q, k, v = arguments(T_k, T_k)
    whole, lse = attention(q, k, v, return_lse=True)
    for T_q in (t for t in LENGTHS if t <= T_k):
        last = q[..., T_k - T_q :, :]
        out, last_lse = attention(last, k, v, return_lse=True)
        assert_close(out, whole[..., T_k - T_q :, :], 1e-13)
        assert_close(last_lse, lse[..., T_k - T_q :], 1e-13)
        if T_q:
            mask = causal_lower_right(T_q, T_k)
            assert_close(out, scaled_dot_product_attention(last, k, v, attn_mask=mask), 1e-13)


def test_queries_before_the_first_key_see_nothing():
    q, k, v = arguments(5, 3)
    out, lse = attention(q, k, v, return_lse=True)
    assert torch.equal(out[..., :2, :], torch.zeros(2, 3, 2, D_V, dtype=q.dtype))
    assert (lse[..., :2] == -math.inf).all()
    assert_close(out[..., 2:, :], attention(q[..., 2:, :], k, v), 1e-14)


def test_mask_bias_and_scale_are_those_of_torch():
    q, k, v = arguments(17, 33)
    mask, bias = random_mask(2, 3, 17, 33), Inputs(3).normal(2, 3, 17, 33)
    want = scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(~mask, -math.inf), scale=0.3)
    assert_close(attention(q, k, v, causal=False, mask=mask, bias=bias, scale=0.3), want, 1e-13)
    assert_close(attention(q, k, v, causal=False, bias=bias.masked_fill(~mask, -math.inf), scale=0.3), want, 1e-13)
    lower_right = torch.ones(17, 33, dtype=torch.bool).tril(16)
    for shared in (mask[0, 0], mask[0]):
        want = scaled_dot_product_attention(q, k, v, attn_mask=(shared & lower_right).expand(2, 3, 17, 33))
        assert_close(attention(q, k, v, mask=shared), want, 1e-13)
    assert_close(attention(q, k, v, bias=bias[0, 0]), attention(q, k, v, bias=bias[0, 0].expand(2, 3, 17, 33)), 1e-14)


def test_lse_and_weights_are_what_they_say():
    q, k, v = arguments(9, 12)
    out, lse = attention(q, k, v, causal=False, return_lse=True)
    assert_close(lse, torch.logsumexp(q @ k.mT / math.sqrt(D), dim=-1), 1e-14)
    weights = attention_weights(q, k, causal=False)
    assert_close(weights, torch.softmax(q @ k.mT / math.sqrt(D), dim=-1), 1e-14)
    assert_close(weights @ v, out, 1e-14)
    masked = attention_weights(q, k, mask=random_mask(9, 12))
    assert_close(masked.sum(-1), (masked > 0).any(-1).double(), 1e-14)


def test_weights_are_causal_unless_told_otherwise():
    q, k, _ = arguments(4, 6)
    assert torch.equal(attention_weights(q, k), attention_weights(q, k, causal=True))
    assert not torch.equal(attention_weights(q, k), attention_weights(q, k, causal=False))


def test_masks_are_made_where_the_tensors_are():
    q, k, v = arguments(4, 6)
    want = attention(q, k, v)
    with made_elsewhere():
        assert torch.equal(attention(q, k, v), want)


def test_gradients_reach_bias_and_lse():
    q, k, v = arguments(7, 11, lead=())
    bias, mask = Inputs(1).normal(7, 11), random_mask(7, 11)

    def ours(q, k, v, bias):
        return attention(q, k, v, causal=False, mask=mask, bias=bias, return_lse=True)[0]

    def torchs(q, k, v, bias):
        return scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(~mask, -math.inf))

    tensors = [q, k, v, bias]
    assert_same_gradients(gradients(ours, tensors), gradients(torchs, tensors), 1e-12, "q k v bias")

    def lse(q, k):
        return attention(q, k, v, causal=False, return_lse=True)[1]

    want = gradients(lambda q, k: torch.logsumexp(q @ k.mT / math.sqrt(D), dim=-1), [q, k])
    assert_same_gradients(gradients(lse, [q, k]), want, 1e-12, "q k")


@pytest.mark.parametrize("parts", [(0, 13), (5, 8), (1, 1, 11), (0, 0, 13, 0)])
def test_merged_parts_are_the_whole(parts):
    q, k, v = arguments(9, 13)

    def whole(q, k, v):
        return attention(q, k, v, causal=False, return_lse=True)

    def merged(q, k, v):
        pieces = zip(k.split(parts, dim=-2), v.split(parts, dim=-2), strict=True)
        outs, lses = zip(*(whole(q, k_part, v_part) for k_part, v_part in pieces), strict=True)
        return merge(outs, lses)

    for got, want in zip(merged(q, k, v), whole(q, k, v), strict=True):
        assert_close(got, want, 1e-14)
    assert_same_gradients(gradients(merged, [q, k, v]), gradients(whole, [q, k, v]), 1e-12, "q k v")


def test_merge_takes_halves_and_ignores_what_an_empty_part_holds():
    q, k, v = arguments(4, 6, dtype=torch.bfloat16)
    out, lse = attention(q, k, v, causal=False, return_lse=True)
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    rubbish = torch.full_like(out, math.nan)
    merged, merged_lse = merge([out, rubbish], [lse, torch.full_like(lse, -math.inf)])
    assert merged.dtype == torch.bfloat16
    assert torch.equal(merged, out) and torch.equal(merged_lse, lse)


def test_merge_takes_one_part_and_halves_of_log_sum_exps():
    out = Inputs(3).normal(4, D_V).bfloat16()
    lse, other = (Inputs(seed).normal(4).bfloat16() for seed in (4, 5))
    merged, merged_lse = merge([out], [lse])
    assert torch.equal(merged, out) and torch.equal(merged_lse, lse.float())
    got, got_lse = merge([out, -out], [lse, other])
    want, want_lse = merge([out.float(), -out.float()], [lse.float(), other.float()])
    assert torch.equal(got, want.bfloat16()) and torch.equal(got_lse, want_lse)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_inputs_are_computed_in_fp32(dtype):
    q, k, v = arguments(65, 65, dtype=dtype)
    out, lse = attention(q, k, v, return_lse=True)
    want, want_lse = attention(q.float(), k.float(), v.float(), return_lse=True)
    assert out.dtype == dtype and torch.equal(out, want.to(dtype)) and torch.equal(lse, want_lse)
    assert attention_weights(q, k).dtype == dtype


@pytest.mark.parametrize("size", [1e-18, 1e-4, 1e4, 1e18])
def test_scores_of_any_size_are_finite(size):
    q, k, v = arguments(16, 16, dtype=torch.float32)
    out, lse = attention(size * q, size * k, v, return_lse=True)
    assert out.isfinite().all() and (lse.isfinite().all() or size > 1e10)
    if size <= 1e4:
        want = attention(size * q.double(), size * k.double(), v.double())
        assert_close(out, want, 1e-5 if size < 1 else 2e-3)  # scores of 1e8 carry an absolute error of several units
    assert_close(attention(q, k, size * v), size * attention(q.double(), k.double(), v.double()), 1e-6)


def test_identical_keys_give_the_mean():
    q, k, v = arguments(20, 1)
    values = Inputs(5).normal(2, 3, 20, D_V)
    out = attention(q, k.expand(2, 3, 20, D), values)
    assert_close(out, values.cumsum(-2) / torch.arange(1, 21).unsqueeze(-1), 1e-13)


def test_the_future_changes_no_bit_of_the_past():
    q, k, v = arguments(129, 129, dtype=torch.float32)
    before = attention(q, k, v)
    for t in (1, 16, 17, 63, 64, 100, 128):
        for later in (*arguments(129, 129, seed=1, dtype=torch.float32)[1:2], torch.full_like(k, math.nan)):
            k_later, v_later = k.clone(), v.clone()
            k_later[..., t:, :] = 3 * later[..., t:, :]
            v_later[..., t:, :] = 3 * later[..., t:, :D_V]
            after = attention(q, k_later, v_later)
            assert torch.equal(after[..., :t, :], before[..., :t, :])
            assert not torch.equal(after[..., t:, :], before[..., t:, :])


def test_every_head_is_its_own_matrix():
    q, k, v = arguments(17, 20)
    out = attention(q, k, v)
    assert_close(out[1, 2], attention(q[1, 2], k[1, 2], v[1, 2]), 1e-14)
    assert attention(q[:0], k[:0], v[:0]).shape == (0, 3, 17, D_V)


# --- bug reports -----------------------------------------------------------------------------------------------------


def test_report_causal_mask_is_aligned_to_the_top():
    """pytorch/pytorch #103082, #108108, #115111; ml-explore/mlx #2835: one query over six keys must see all six."""
    q, k, v = arguments(1, 6, lead=())
    assert_close(attention(q, k, v), torch.softmax(q @ k.mT / math.sqrt(D), -1) @ v, 1e-14)
    assert_close(scaled_dot_product_attention(q, k, v, is_causal=True), v[:1], 1e-14)  # why the default differs here


def test_report_fully_masked_row_is_nan():
    """pytorch/pytorch #41508, #131060; iree-org/iree #24178; tracel-ai/burn #4697: NaN outputs and NaN gradients."""
    q, k, v = arguments(4, 6, lead=())
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[2] = False

    def ours(q, k, v):
        return attention(q, k, v, causal=False, mask=mask, return_lse=True)

    out, lse = ours(q, k, v)
    assert torch.equal(out[2], torch.zeros(D_V, dtype=q.dtype)) and lse[2] == -math.inf
    assert lse[[0, 1, 3]].isfinite().all()
    got = gradients(lambda q, k, v: ours(q, k, v)[0], [q, k, v])
    assert all(x.isfinite().all() for x in got) and torch.equal(got[0][2], torch.zeros(D, dtype=q.dtype))
    got = gradients(lambda q, k: ours(q, k, v)[1][[0, 1, 3]], [q, k])
    assert all(x.isfinite().all() for x in got)
    nothing = attention(q, k[:0], v[:0], return_lse=True)
    assert torch.equal(nothing[0], 0 * out) and (nothing[1] == -math.inf).all()


def test_report_finite_sentinel_stands_for_minus_infinity():
    """flashinfer-ai/flashinfer #4401: with -5e4 for 'masked', visible scores of -6e4 lose to masked ones."""
    k, v = torch.full((3, 1), -6e4), torch.eye(3)
    q, mask = torch.ones(1, 1), torch.tensor([[True, True, False]])
    out, lse = attention(q, k, v, causal=False, mask=mask, scale=1.0, return_lse=True)
    assert out.tolist() == [[0.5, 0.5, 0.0]] and lse.item() == pytest.approx(-6e4 + math.log(2))


def test_report_merging_two_empty_parts():
    """flashinfer-ai/flashinfer #4401, #4267, #4450: (-inf) - (-inf) in the merge."""
    out, lse = torch.zeros(2, 3, 4, requires_grad=True), torch.full((2, 3), -math.inf, requires_grad=True)
    merged, merged_lse = merge([out, out], [lse, lse])
    assert torch.equal(merged, torch.zeros(2, 3, 4)) and (merged_lse == -math.inf).all()
    assert all(x.isfinite().all() for x in torch.autograd.grad(merged.sum(), [out, lse]))


def test_report_nan_in_a_masked_position():
    """pytorch/pytorch #101967: 0 weight times a NaN value is NaN. Padding may hold anything, gradients included."""
    q, k, v = arguments(3, 4, lead=())
    mask = torch.tensor([True, False, True, True]).expand(3, 4)
    for rubbish in (math.nan, math.inf):
        bad_k, bad_v = k.clone(), v.clone()
        bad_k[1], bad_v[1] = rubbish, rubbish

        def masked(q, k, v):
            return attention(q, k, v, causal=False, mask=mask)

        assert torch.equal(masked(q, bad_k, bad_v), masked(q, k, v))
        got, want = gradients(masked, [q, bad_k, bad_v]), gradients(masked, [q, k, v])
        assert_same_gradients(got, want, 1e-14, "q k v")
        seen = attention(q, k, bad_v, causal=False)
        assert seen.isnan().all(), "a NaN or infinity that has weight must show"


def test_report_nan_in_a_position_that_a_bias_masks():
    """pytorch/pytorch #101967, with an additive mask: NaN − ∞ is NaN, and must be hidden as by a boolean mask."""
    q, k, v = arguments(6, 6)
    bias, mask = Inputs(3).normal(2, 3, 6, 6), torch.ones(2, 3, 6, 6, dtype=torch.bool)
    mask[..., 1] = mask[..., :4, 4] = False  # key 1 hidden from all, key 4 from the first four queries
    for rubbish in (math.nan, math.inf, -math.inf):
        k[..., [1, 4], :] = v[..., [1, 4], :] = rubbish
        for causal in (True, False):
            for shape in ((2, 3, 6, 6), (6, 6)):
                bias_ = bias.expand(shape) if shape == bias.shape else bias[0, 0]
                hidden = bias_.masked_fill(~mask[0, 0], -math.inf)

                def by_bias(q, k, v, bias, causal=causal):
                    return attention(q, k, v, causal=causal, bias=bias, return_lse=True)

                def by_mask(q, k, v, bias, causal=causal):
                    return attention(q, k, v, causal=causal, bias=bias, mask=mask[0, 0], return_lse=True)

                for got, want in zip(by_bias(q, k, v, hidden), by_mask(q, k, v, bias_), strict=True):
                    assert torch.equal(got[:, :, :4], want[:, :, :4]) and got[:, :, :4].isfinite().all()

    k[..., 4, :] = v[..., 4, :] = 0.0  # now no query sees what is not a number
    tensors, others = [q, k, v, hidden], [q, k, v, bias[0, 0]]
    for got, want in zip(gradients(by_bias, tensors), gradients(by_mask, others), strict=True):
        assert torch.equal(got, want) and got.isfinite().all()


def test_a_bias_of_nan_is_not_silenced():
    q, k, v = arguments(4, 4)
    bias = torch.zeros(4, 4, dtype=torch.float64)
    bias[2, 0] = math.nan
    k[..., 3, :] = math.nan
    out = attention(q, k, v, bias=bias)
    assert out[..., 2:, :].isnan().all() and out[..., :2, :].isfinite().all()


def test_report_query_of_nan_in_padding():
    """pytorch/pytorch #101967, in the queries: padding on the left sees nothing, and 0 · NaN would reach the keys."""
    q, k, v = arguments(6, 6)
    mask = torch.ones(6, 6, dtype=torch.bool)
    mask[:, :2] = mask[:2] = False
    bias = torch.zeros(6, 6, dtype=torch.float64).masked_fill(~mask, -math.inf)
    for options in ({"mask": mask}, {"bias": bias}, {"mask": mask, "bias": bias, "causal": False}):

        def padded(q, k, v, options=options):
            return attention(q, k, v, **options)

        want = gradients(padded, [q, k, v])
        for rubbish in (math.nan, math.inf):
            for spoilt in (1, 3):  # the queries, or all
                bad = [x.clone() for x in (q, k, v)]
                for x in bad[:spoilt]:
                    x[..., :2, :] = rubbish
                assert torch.equal(padded(*bad), padded(q, k, v))
                for a, b in zip(gradients(padded, bad), want, strict=True):
                    assert torch.equal(a, b) and a.isfinite().all()
    early = arguments(8, 6)  # causal: the first two queries come before the first key
    early[0][..., :2, :] = math.nan
    assert all(x.isfinite().all() for x in gradients(attention, early))


def test_report_whole_window_lies_in_padding():
    """huggingface/transformers #45511, #45491: ten padding tokens, a window of four."""
    q, k, v = arguments(20, 20, lead=())
    i, j = torch.arange(20).unsqueeze(-1), torch.arange(20)
    out = attention(q, k, v, mask=(i - j < 4) & (j >= 10))
    assert torch.equal(out[:10], torch.zeros(10, D_V, dtype=q.dtype))
    assert_close(out[10:14], attention(q[10:14], k[10:14], v[10:14]), 1e-13)


# --- wrong input -----------------------------------------------------------------------------------------------------


def test_a_key_of_nan_that_all_may_see_reaches_all():
    q, k, v = arguments(3, 3)
    k[..., 1, :] = math.nan
    assert attention(q, k, v, causal=False).isnan().all()
    assert attention(q, k, v).isnan().all(-1).all(dim=(0, 1)).tolist() == [False, True, True]


def test_padding_of_nan_is_silent_in_the_head_that_hides_it():
    q, k, v = arguments(3, 4)
    mask = torch.ones(2, 3, 3, 4, dtype=torch.bool)
    mask[0, 1, :, 2] = mask[1, 2, :, 0] = False
    want = attention(q, k, v, causal=False, mask=mask)
    k[0, 1, 2] = k[1, 2, 0] = math.nan
    assert torch.equal(attention(q, k, v, causal=False, mask=mask), want)
    for gradient in gradients(lambda q, v: attention(q, k, v, causal=False, mask=mask), [q, v]):
        assert gradient.isfinite().all()


WRONG = {
    "q: an array": ("q", lambda a: a | {"q": a["q"].numpy()}),
    "q: integers": ("q", lambda a: a | {"q": a["q"].long()}),
    "q: a vector": ("q", lambda a: a | {"q": a["q"][0, 0, 0]}),
    "q: no channels": ("q", lambda a: a | {"q": a["q"][..., :0]}),
    "k: channels": ("k", lambda a: a | {"k": a["k"][..., 1:]}),
    "k: a vector": ("k", lambda a: a | {"k": a["k"][0, 0, 0]}),
    "k: fewer heads than q": ("k", lambda a: a | {"k": a["k"][:, :1]}),
    "k: axis missing": ("k", lambda a: a | {"k": a["k"][0]}),
    "k: dtype": ("k", lambda a: a | {"k": a["k"].double()}),
    "v: T": ("v", lambda a: a | {"v": a["v"][..., 1:, :]}),
    "v: heads": ("v", lambda a: a | {"v": a["v"][:, :1]}),
    "v: dtype": ("v", lambda a: a | {"v": a["v"].bfloat16()}),
    "v: no channels": ("v", lambda a: a | {"v": a["v"][..., :0]}),
    "mask: numbers": ("mask", lambda a: a | {"mask": torch.zeros(4, 6)}),
    "mask: not a tensor": ("mask", lambda a: a | {"mask": [[True]]}),
    "mask: transposed": ("mask", lambda a: a | {"mask": torch.ones(6, 4, dtype=torch.bool)}),
    "mask: broadcast heads": ("mask", lambda a: a | {"mask": torch.ones(2, 1, 4, 6, dtype=torch.bool)}),
    "mask: keys only": ("mask", lambda a: a | {"mask": torch.ones(6, dtype=torch.bool)}),
    "mask: axis too many": ("mask", lambda a: a | {"mask": torch.ones(1, 2, 3, 4, 6, dtype=torch.bool)}),
    "mask: elsewhere": ("mask", lambda a: a | {"mask": torch.ones(4, 6, dtype=torch.bool, device="meta")}),
    "bias: shape": ("bias", lambda a: a | {"bias": torch.zeros(4, 1)}),
    "bias: dtype": ("bias", lambda a: a | {"bias": torch.zeros(4, 6, dtype=torch.float64)}),
    "bias: a number": ("bias", lambda a: a | {"bias": 0.5}),
} | WRONG_OPTIONS


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_named(wrong):
    name, spoil = WRONG[wrong]
    q, k, v = arguments(4, 6, dtype=torch.float32)
    right = {"q": q, "k": k, "v": v}
    attention(**right)
    spoilt = spoil(right)
    with complains(name):
        attention(**spoilt)
    if name != "v":
        del spoilt["v"]
        with complains(name):
            attention_weights(**spoilt)


def test_wrong_parts_are_named():
    out, lse = torch.zeros(3, 4), torch.zeros(3)
    for outs, lses, name in (
        ([], [], "lses"),
        ([out], [lse, lse], "lses"),
        ([out, out[:2]], [lse, lse[:2]], r"outs\[1\]"),
        ([out, out.double()], [lse, lse], r"outs\[1\]"),
        ([out, out], [lse, lse[:2]], r"lses\[1\]"),
        ([out, out], [lse.unsqueeze(-1), lse], r"lses\[0\]"),
        ([out, out], [lse, lse.double()], r"lses\[1\]"),
        ([lse], [lse], r"outs\[0\]"),
        (None, None, "outs"),
        ([out], None, "lses"),
        ((x for x in [out]), [lse], "outs"),
        ([out], (x for x in [lse]), "lses"),
    ):
        with complains(name):
            merge(outs, lses)


def test_options_are_keywords():
    q, k, v = arguments(4, 4)
    with pytest.raises(TypeError):
        attention(q, k, v, False)
