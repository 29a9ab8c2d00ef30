"""Layers with shared heads, latents and factors against their equations written out, head by head and weight by weight.

The truths below read nothing but the weights: rotations are matrices, one per position, and TPA is contracted factor
by factor without ever forming a key.
"""

import copy
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from attnledger.costs import kv_numbers_per_layer
from attnledger.costs.models import DEEPSEEK_V2, LLAMA_2_70B, LLAMA_3_8B, MSA_PAPER_109B, ModelConfig
from attnledger.ops import heads as heads_module
from attnledger.ops.heads import (
    FactorCache,
    GroupedQueryAttention,
    KeyValueCache,
    LatentAttention,
    LatentCache,
    TensorProductAttention,
    pool_kv_heads,
    repeat_heads,
    tensor_product,
)
from attnledger.ops.position import rope_frequencies
from attnledger.ops.softmax import attention

from .matrix import LENGTHS, Inputs, assert_close, assert_same_gradients, complains, made_elsewhere

D_MODEL, HEADS, D_K, D_V = 10, 4, 6, 5
ROPE = rope_frequencies(D_K, base=100.0)

LAYERS = {
    "mha": lambda rope=ROPE, **o: GroupedQueryAttention(
        D_MODEL, heads=HEADS, head_dim=D_K, value_dim=D_V, rope=rope, **o
    ),
    "gqa": lambda rope=ROPE, **o: GroupedQueryAttention(
        D_MODEL, heads=HEADS, kv_heads=2, head_dim=D_K, value_dim=D_V, rope=rope, **o
    ),
    "mqa": lambda rope=ROPE, **o: GroupedQueryAttention(
        D_MODEL, heads=HEADS, kv_heads=1, head_dim=D_K, value_dim=D_V, rope=rope, **o
    ),
    "mla": lambda rope=ROPE, **o: LatentAttention(
        D_MODEL, heads=HEADS, latent=7, head_dim=4, value_dim=D_V, rope=rope, **o
    ),
    "mla with compressed queries": lambda rope=ROPE, **o: LatentAttention(
        D_MODEL, heads=HEADS, latent=7, head_dim=4, value_dim=D_V, rope=rope, query_latent=8, **o
    ),
    "tpa": lambda rope=ROPE, **o: TensorProductAttention(
        D_MODEL, heads=HEADS, ranks=(3, 2, 1), head_dim=D_K, value_dim=D_V, rope=rope, **o
    ),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def build(name, seed=0, dtype=torch.float64, **options):
    """A layer whose outputs are of order one."""
    torch.manual_seed(seed)
    layer = LAYERS[name](**options)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.mul_(2)
    return layer.to(dtype)


def tokens(T, lead=(2,), seed=1, dtype=torch.float64):
    return Inputs(seed, dtype).normal(*lead, T, D_MODEL)


def kept(cache):
    """The tensors of a cache that grow."""
    return [tensor for name, tensor in vars(cache).items() if name not in ("rope", "layout")]


# --- the truths ------------------------------------------------------------------------------------------------------


def rotations(T, rope, d, layout):
    """One d × d matrix per position, (T, d, d): each pair of channels turned by position times frequency, rest kept."""
    matrices = torch.eye(d, dtype=torch.float64).repeat(T, 1, 1)
    if rope is None:
        return matrices
    for j, frequency in enumerate(rope.double().tolist()):
        one, other = (j, j + len(rope)) if layout == "half" else (2 * j, 2 * j + 1)
        for t in range(T):
            c, s = math.cos(t * frequency), math.sin(t * frequency)
            matrices[t, one, one], matrices[t, one, other] = c, -s
            matrices[t, other, one], matrices[t, other, other] = s, c
    return matrices


def causal_softmax(scores):
    T = scores.shape[-1]
    return scores.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -math.inf).softmax(-1)


def grouped_truth(layer, x, kv_head_of=None):
    heads, d, d_v = layer.heads, layer.head_dim, layer.value_dim
    R = rotations(x.shape[-2], layer.rope, d, layer.layout)
    out = 0
    for i in range(heads):
        g = i // (heads // layer.kv_heads) if kv_head_of is None else kv_head_of[i]
        q = torch.einsum("tij,jm,...tm->...ti", R, layer.w_q.weight[i * d : (i + 1) * d], x)
        k = torch.einsum("tij,jm,...tm->...ti", R, layer.w_k.weight[g * d : (g + 1) * d], x)
        v = torch.einsum("jm,...tm->...tj", layer.w_v.weight[g * d_v : (g + 1) * d_v], x)
        p = causal_softmax(torch.einsum("...ti,...si->...ts", q, k) / math.sqrt(d))
        out = out + torch.einsum("mj,...ts,...sj->...tm", layer.w_o.weight[:, i * d_v : (i + 1) * d_v], p, v)
    return out


def latent_truth(layer, x):
    d, d_v, d_r = layer.head_dim, layer.value_dim, layer.rope_dim
    R = rotations(x.shape[-2], layer.rope, d_r, layer.layout)
    c = layer.norm_kv(torch.einsum("cm,...tm->...tc", layer.w_dkv.weight, x))
    c_q = x if layer.w_dq is None else layer.norm_q(torch.einsum("cm,...tm->...tc", layer.w_dq.weight, x))
    k_r = torch.einsum("tij,jm,...tm->...ti", R, layer.w_kr.weight, x)
    out = 0
    for i in range(layer.heads):
        q_c = torch.einsum("jc,...tc->...tj", layer.w_uq.weight[i * d : (i + 1) * d], c_q)
        q_r = torch.einsum("tij,jc,...tc->...ti", R, layer.w_qr.weight[i * d_r : (i + 1) * d_r], c_q)
        k_c = torch.einsum("jc,...tc->...tj", layer.w_uk.weight[i * d : (i + 1) * d], c)
        v = torch.einsum("jc,...tc->...tj", layer.w_uv.weight[i * d_v : (i + 1) * d_v], c)
        scores = torch.einsum("...ti,...si->...ts", q_c, k_c) + torch.einsum("...ti,...si->...ts", q_r, k_r)
        p = causal_softmax(scores / math.sqrt(d + d_r))
        out = out + torch.einsum("mj,...ts,...sj->...tm", layer.w_o.weight[:, i * d_v : (i + 1) * d_v], p, v)
    return out


def factor_truth(layer, x):
    h, d, d_v = layer.heads, layer.head_dim, layer.value_dim
    R = rotations(x.shape[-2], layer.rope, d, layer.layout)
    a_q, a_k, a_v = (
        torch.einsum("rhm,...tm->...trh", w.weight.unflatten(0, (-1, h)), x)
        for w in (layer.w_aq, layer.w_ak, layer.w_av)
    )
    b_q, b_k = (
        torch.einsum("tij,rjm,...tm->...tri", R, w.weight.unflatten(0, (-1, d)), x) for w in (layer.w_bq, layer.w_bk)
    )
    b_v = torch.einsum("rjm,...tm->...trj", layer.w_bv.weight.unflatten(0, (-1, d_v)), x)
    R_Q, R_K, R_V = layer.ranks
    agree = torch.einsum("...tqi,...ski->...tqsk", b_q, b_k)
    scores = torch.einsum("...tqh,...skh,...tqsk->...hts", a_q, a_k, agree) / (R_Q * R_K * math.sqrt(d))
    o = torch.einsum("...hts,...srh,...srj->...thj", causal_softmax(scores), a_v, b_v) / R_V
    return torch.einsum("mhj,...thj->...tm", layer.w_o.weight.unflatten(1, (h, d_v)), o)


def truth(layer, x):
    kinds = {
        GroupedQueryAttention: grouped_truth,
        LatentAttention: latent_truth,
        TensorProductAttention: factor_truth,
    }
    return kinds[type(layer)](layer, x)


def all_gradients(layer, x, function):
    """Gradients of a fixed weighting of `function(x)` with respect to x and every weight."""
    x = x.detach().clone().requires_grad_()
    out = function(x)
    return torch.autograd.grad((out * Inputs(99).normal(*out.shape)).sum(), [x, *layer.parameters()])


# --- forward and decode ----------------------------------------------------------------------------------------------


@every_layer
@pytest.mark.parametrize("T", LENGTHS)
def test_forward_is_the_equations(name, T):
    layer, x = build(name), tokens(T)
    assert_close(layer(x), truth(layer, x) if T else x, 1e-12)


@every_layer
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_gradients_are_those_of_the_equations(name, layout):
    layer, x = build(name, layout=layout), tokens(9)
    names = " ".join(["x", *(key for key, _ in layer.named_parameters())])
    want = all_gradients(layer, x, lambda x: truth(layer, x))
    assert_same_gradients(all_gradients(layer, x, layer), want, 1e-11, names)

    def in_three_pieces(x):
        first, cache = layer(x[:, :4], return_cache=True)
        second, cache = layer.decode(x[:, 4:5], cache)
        return torch.cat((first, second, layer.decode(x[:, 5:], cache)[0]), dim=1)

    assert_same_gradients(all_gradients(layer, x, in_three_pieces), want, 1e-11, names)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("T", [1, 2, 17, 64])
def test_grouped_heads_are_torchs(kv_heads, T):
    torch.manual_seed(0)
    layer = GroupedQueryAttention(D_MODEL, heads=HEADS, kv_heads=kv_heads, head_dim=D_K, value_dim=D_V).double()
    x = tokens(T)
    q, k, v = (
        (x @ w.weight.mT).view(2, T, heads, -1).transpose(1, 2)
        for w, heads in ((layer.w_q, HEADS), (layer.w_k, kv_heads), (layer.w_v, kv_heads))
    )
    out = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert_close(layer(x), out.transpose(1, 2).flatten(2) @ layer.w_o.weight.mT, 1e-12)


@every_layer
@pytest.mark.parametrize("T", [1, 2, 7, 17])
def test_prefill_and_decode_agree_wherever_the_sequence_is_cut(name, T):
    layer, x = build(name), tokens(T)
    whole, whole_cache = layer(x, return_cache=True)
    for cut in range(T + 1):
        first, cache = layer(x[:, :cut], return_cache=True)
        assert cache.tokens == cut
        rest, cache = layer.decode(x[:, cut:], cache)
        assert_close(torch.cat((first, rest), dim=1), whole, 1e-12, f"cut at {cut}")
        for got, want in zip(kept(cache), kept(whole_cache), strict=True):
            assert_close(got, want, 1e-12, f"cache cut at {cut}")


@every_layer
def test_one_token_at_a_time_from_nothing(name):
    layer, x, cache, outs = build(name), tokens(20), None, []
    for t in range(20):
        out, cache = layer.decode(x[:, t : t + 1], cache)
        outs.append(out)
    assert cache.tokens == 20
    assert_close(torch.cat(outs, dim=1), layer(x), 1e-12)


@every_layer
def test_two_continuations_of_one_cache(name):
    layer, x, y = build(name), tokens(12), tokens(12, seed=2)
    _, cache = layer(x[:, :5], return_cache=True)
    for continuation in (x[:, 5:], y[:, 5:], x[:, 5:]):
        out, longer = layer.decode(continuation, cache)
        assert (cache.tokens, longer.tokens) == (5, 12)
        assert_close(out, layer(torch.cat((x[:, :5], continuation), dim=1))[:, 5:], 1e-12)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(list(LAYERS)),
    pieces=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    lead=st.sampled_from([(), (1,), (3,), (2, 2), (0,)]),
    seed=st.integers(0, 99),
)
def test_any_split_of_any_batch(name, pieces, lead, seed):
    layer, x = build(name, seed), tokens(sum(pieces), lead, seed)
    cache, outs = None, []
    for piece in x.split(pieces, dim=-2):
        out, cache = layer.decode(piece, cache)
        outs.append(out)
    assert_close(torch.cat(outs, dim=-2), layer(x), 1e-12)
    assert cache.tokens == sum(pieces)


@settings(max_examples=40, deadline=None)
@given(
    groups=st.integers(1, 3),
    kv_heads=st.integers(1, 3),
    d_model=st.integers(1, 9),
    pairs=st.integers(1, 4),
    still=st.integers(0, 3),
    layout=st.sampled_from(["half", "interleaved"]),
    d_v=st.integers(1, 5),
    T=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_any_geometry(groups, kv_heads, d_model, pairs, still, layout, d_v, T, seed):
    heads, rope = groups * kv_heads, rope_frequencies(2 * pairs)
    torch.manual_seed(seed)
    x = Inputs(seed).normal(2, T, d_model)
    shared = {"heads": heads, "head_dim": 2 * pairs + still, "value_dim": d_v, "rope": rope, "layout": layout}
    for layer in (
        GroupedQueryAttention(d_model, kv_heads=kv_heads, **shared),
        LatentAttention(d_model, latent=pairs, query_latent=d_v, **shared),
        TensorProductAttention(d_model, ranks=(groups, kv_heads, pairs), **shared),
    ):
        layer.double()
        out, cache = layer(x, return_cache=True)
        assert_close(out, truth(layer, x), 1e-11, floor=1.0)
        assert cache.numbers_per_token * 2 * T == sum(x.numel() for x in kept(cache))


@every_layer
def test_every_sequence_is_its_own(name):
    layer, x = build(name), tokens(8, (2, 3))
    out = layer(x)
    assert_close(out[1, 2], layer(x[1, 2]), 1e-13)


@every_layer
def test_the_future_changes_no_bit_of_the_past(name):
    layer, x = build(name, dtype=torch.float32), tokens(129, dtype=torch.float32)
    absorbing = [{"absorb": False}, {"absorb": True}] if "mla" in name else [{}]
    for options in absorbing:
        before = layer(x, **options)
        for t in (1, 16, 64, 100, 128):
            for later in (3 * tokens(129, seed=3, dtype=torch.float32), torch.full_like(x, math.nan)):
                changed = torch.cat((x[:, :t], later[:, t:]), dim=1)
                after = layer(changed, **options)
                assert torch.equal(after[:, :t], before[:, :t])
                assert not torch.equal(after[:, t:], before[:, t:])


@every_layer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_computed_in_fp32_and_kept_as_halves(name, dtype):
    layer, x = build(name, dtype=dtype), tokens(33, dtype=dtype)
    out, cache = layer(x, return_cache=True)
    in_fp32 = build(name, dtype=dtype).float()(x.float(), return_cache=True)[1]
    assert all(torch.equal(got, want.to(dtype)) for got, want in zip(kept(cache), kept(in_fp32), strict=True))
    ulp = torch.finfo(dtype).eps
    assert out.dtype == dtype
    assert_close(out, truth(build(name, dtype=dtype).double(), x.double()), 2 * ulp)  # the cache is rounded
    first, cache = layer(x[:, :20], return_cache=True)
    rest, _ = layer.decode(x[:, 20:], cache)
    assert_close(torch.cat((first, rest), dim=1), out, ulp)  # the same rounded cache, so the output's rounding only
    if "mla" in name:
        assert_close(layer(x, absorb=True), out, ulp)


@every_layer
@pytest.mark.parametrize("size", [1e-12, 1e-4, 1e4, 1e6])
def test_inputs_of_any_size_stay_finite(name, size):
    out = build(name, dtype=torch.float32)(size * tokens(16, dtype=torch.float32))
    assert out.isfinite().all()


@every_layer
@pytest.mark.parametrize("absorb", [False, True])
def test_the_projections_are_called(name, absorb):
    layer, x, called = build(name), tokens(5), set()
    for key, projection in layer.named_children():
        projection.register_forward_hook(lambda module, inputs, out, key=key: called.add(key))
    if "mla" in name:
        layer(x, absorb=absorb)
        unused = {"w_uk", "w_uv"} if absorb else set()  # read, not called
        unused |= set() if layer.w_dq is not None else {"norm_q"}
    else:
        layer(x)
        unused = set()
    assert called == {key for key, _ in layer.named_children()} - unused


class Adapter(torch.nn.Module):
    """A projection with a low-rank addition, as LoRA wraps one."""

    def __init__(self, base, dtype):
        super().__init__()
        self.base, draw = base, Inputs(7)
        self.down = torch.nn.Parameter(0.3 * draw.normal(base.in_features, 2).to(dtype))
        self.up = torch.nn.Parameter(draw.normal(2, base.out_features).to(dtype))

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up


@every_layer
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_module_in_the_place_of_a_projection_is_heard(name, dtype):
    keys = [key for key, child in build(name).named_children() if isinstance(child, torch.nn.Linear)]
    x = tokens(5, dtype=dtype)
    for key in keys:
        layer, merged = build(name, dtype=dtype), build(name, dtype=dtype).double()
        plain = layer(x)
        adapter = Adapter(getattr(layer, key), dtype)
        setattr(layer, key, adapter)
        with torch.no_grad():
            getattr(merged, key).weight.add_((adapter.down.double() @ adapter.up.double()).mT)
        assert_close(layer(x), merged(x.double()), 1e-12 if dtype == torch.float64 else 3e-2)
        assert (layer(x) - plain).abs().max() > 0.1


# --- shared heads ----------------------------------------------------------------------------------------------------


def test_repeat_heads_is_repeat_interleave():
    x = Inputs().normal(2, 3, 5, 4)
    for times in (1, 2, 4):
        assert torch.equal(repeat_heads(x, 3 * times), x.repeat_interleave(times, dim=1))
    assert repeat_heads(x[:, :, :0], 6).shape == (2, 6, 0, 4)
    assert torch.equal(repeat_heads(x[0], 6), repeat_heads(x, 6)[0])


def test_shared_heads_are_full_heads_with_equal_weights():
    full = build("mha")
    for name, kv_heads in (("mqa", 1), ("gqa", 2)):
        grouped = build(name)
        with torch.no_grad():
            full.w_q.weight.copy_(grouped.w_q.weight), full.w_o.weight.copy_(grouped.w_o.weight)
            for layer, shared, d in ((full.w_k, grouped.w_k, D_K), (full.w_v, grouped.w_v, D_V)):
                for i in range(HEADS):
                    g = i * kv_heads // HEADS
                    layer.weight[i * d : (i + 1) * d] = shared.weight[g * d : (g + 1) * d]
        assert_close(grouped(tokens(9)), full(tokens(9)), 1e-13)


@pytest.mark.parametrize("name", ["mha", "gqa", "mqa", "mla"])
def test_shared_keys_and_values_are_read_once(name, monkeypatch):
    """Attention is given the cache's numbers, not one copy or view of them per query head."""
    layer, x, read = build(name), tokens(9), []

    def counting(q, k, v, **options):
        read.append((k.numel(), v.numel(), options.get("mask")))
        return attention(q, k, v, **options)

    monkeypatch.setattr(heads_module, "attention", counting)
    options = {"absorb": True} if name == "mla" else {}
    _, cache = layer(x[:, :8], return_cache=True, **options)
    _, longer = layer.decode(x[:, 8:], cache, **options)
    for got, seen in zip(read, (cache, longer), strict=True):
        if name == "mla":
            want = seen.latent.numel() + seen.rotary.numel(), seen.latent.numel()
        else:
            want = seen.k.numel(), seen.v.numel()
        assert got[:2] == want
    assert read[1][2] is None  # one token sees everything


@pytest.mark.parametrize("name", ["gqa", "mqa", "mla"])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.float64, 1e-13)])
@pytest.mark.parametrize("lead", [(), (2,), (3, 2)])
def test_heads_that_share_are_heads_with_copies(name, dtype, tolerance, lead):
    """Against one key and one value per query head, at prefill and at decoding of one token and of several."""
    layer, x = build(name, dtype=dtype), tokens(30, lead, dtype=dtype)
    if name == "mla":
        absorbing, plain = {"absorb": True}, {"absorb": False}
    else:
        absorbing = plain = {}
        full = GroupedQueryAttention(D_MODEL, heads=HEADS, head_dim=D_K, value_dim=D_V, rope=ROPE).to(dtype)
        with torch.no_grad():
            for key in ("w_q", "w_o"):
                getattr(full, key).weight.copy_(getattr(layer, key).weight)
            for key, d in (("w_k", D_K), ("w_v", D_V)):
                rows = getattr(layer, key).weight.unflatten(0, (-1, d)).repeat_interleave(HEADS // layer.kv_heads, 0)
                getattr(full, key).weight.copy_(rows.flatten(0, 1))
    other = layer if name == "mla" else full
    want, _ = other.decode(x, **plain)
    out, cache = layer.decode(x[..., :20, :], **absorbing)
    one, cache = layer.decode(x[..., 20:21, :], cache, **absorbing)
    rest, _ = layer.decode(x[..., 21:, :], cache, **absorbing)
    assert_close(torch.cat((out, one, rest), -2), want, tolerance)


def test_pooled_heads_are_means_of_keys_and_values():
    layer, x = build("mha"), tokens(9)
    pooled = pool_kv_heads(layer, 2)
    cache, full = pooled(x, return_cache=True)[1], layer(x, return_cache=True)[1]
    assert pooled.kv_heads == 2 and pooled.w_k.out_features == 2 * D_K and pooled.w_v.out_features == 2 * D_V
    for g in range(2):
        assert_close(cache.k[:, g], (full.k[:, 2 * g] + full.k[:, 2 * g + 1]) / 2, 1e-13)
        assert_close(cache.v[:, g], (full.v[:, 2 * g] + full.v[:, 2 * g + 1]) / 2, 1e-13)
    assert_close(pooled(x), grouped_truth(pooled, x), 1e-12)
    assert cache.numbers_per_token * 2 == full.numbers_per_token


def test_pooled_biases_are_means_too():
    layer, x = build("mha"), tokens(9)
    for w in (layer.w_k, layer.w_v):
        w.bias = torch.nn.Parameter(Inputs().normal(w.out_features))
    pooled = pool_kv_heads(layer, 2)
    cache, full = pooled(x, return_cache=True)[1], layer(x, return_cache=True)[1]
    assert_close(cache.k[:, 1], (full.k[:, 2] + full.k[:, 3]) / 2, 1e-13)
    assert_close(cache.v[:, 0], (full.v[:, 0] + full.v[:, 1]) / 2, 1e-13)


def test_pooling_equal_heads_changes_nothing():
    layer, x = build("mha"), tokens(9)
    with torch.no_grad():
        for w in (layer.w_k, layer.w_v):
            heads = w.weight.unflatten(0, (HEADS, -1))
            heads[1], heads[3] = heads[0], heads[2]
    assert_close(pool_kv_heads(layer, 2)(x), layer(x), 1e-13)
    assert (pool_kv_heads(layer, 1)(x) - layer(x)).abs().max() > 0.1


def test_pooling_in_two_steps_is_pooling_at_once():
    layer, x = build("mha"), tokens(9)
    assert_close(pool_kv_heads(pool_kv_heads(layer, 2), 1)(x), pool_kv_heads(layer, 1)(x), 1e-13)
    assert torch.equal(pool_kv_heads(layer, HEADS)(x), layer(x))


def test_pooling_leaves_the_trained_layer_and_the_random_numbers_alone():
    layer, x = build("mha", dtype=torch.bfloat16, layout="interleaved"), tokens(9, dtype=torch.bfloat16)
    before, state = layer(x), torch.random.get_rng_state()
    pooled = pool_kv_heads(layer.eval(), 2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert pooled.layout == "interleaved" and torch.equal(pooled.rope, layer.rope) and not pooled.training
    assert {w.dtype for w in pooled.parameters()} == {torch.bfloat16}
    assert all(w.requires_grad and w.is_leaf for w in pooled.parameters())
    with torch.no_grad():
        for w in pooled.parameters():
            w.zero_()
    assert torch.equal(layer(x), before) and layer.kv_heads == HEADS


def test_only_plain_projections_are_pooled():
    for wrap in (torch.nn.utils.parametrizations.weight_norm, lambda base: Adapter(base, torch.float64)):
        for key in ("w_k", "w_v"):
            layer = build("mha")
            setattr(layer, key, wrap(getattr(layer, key)))
            with complains("module"):
                pool_kv_heads(layer, 2)


# --- latents ---------------------------------------------------------------------------------------------------------

LATENTS = ["mla", "mla with compressed queries"]


@pytest.mark.parametrize("name", LATENTS)
@pytest.mark.parametrize("T", LENGTHS)
def test_absorbed_and_expanded_are_one_layer(name, T):
    layer, x = build(name), tokens(T)
    expanded = layer(x)
    assert_close(layer(x, absorb=True), expanded, 1e-12)
    for first_absorbs, rest_absorbs in ((True, False), (False, True), (True, True), (False, False)):
        first, cache = layer(x[:, : T // 2], absorb=first_absorbs, return_cache=True)
        rest, _ = layer.decode(x[:, T // 2 :], cache, absorb=rest_absorbs)
        assert_close(torch.cat((first, rest), dim=1), expanded, 1e-12)


@pytest.mark.parametrize("name", LATENTS)
def test_absorbed_gradients_are_those_of_the_equations(name):
    layer, x = build(name), tokens(9)
    names = " ".join(["x", *(key for key, _ in layer.named_parameters())])
    got = all_gradients(layer, x, lambda x: layer(x, absorb=True))
    assert_same_gradients(got, all_gradients(layer, x, lambda x: latent_truth(layer, x)), 1e-11, names)


@pytest.mark.parametrize("name", LATENTS)
def test_biases_are_absorbed_too(name):
    layer, x = build(name), tokens(9)
    plain = layer(x)
    for key, projection in layer.named_children():
        if isinstance(projection, torch.nn.Linear):
            projection.bias = torch.nn.Parameter(Inputs(len(key)).normal(projection.out_features))
    assert_close(layer(x, absorb=True), layer(x), 1e-12)
    assert (layer(x) - plain).abs().max() > 0.1
    halves = copy.deepcopy(layer).bfloat16()
    assert_close(halves(x.bfloat16(), absorb=True), halves(x.bfloat16()), 2**-7)


def flops(call):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return counter.get_total_flops()


def test_absorption_trades_making_keys_for_wider_products():
    """Multiply-adds per cached token and head at decoding; d_h = d_v = 128, d_R = 64, d_c = 512 as in DeepSeek-V2."""
    torch.manual_seed(0)
    layer, x = LatentAttention(4, heads=2, head_dim=128, latent=512, rope=rope_frequencies(64)), torch.randn(12, 4)

    def per_cached_token(**options):
        costs = []
        for past in (10, 11):
            cache = layer(x[:past], return_cache=True)[1]
            costs.append(flops(lambda past=past, cache=cache: layer.decode(x[past : past + 1], cache, **options)))
        return (costs[1] - costs[0]) / (2 * layer.heads)

    assert per_cached_token(absorb=True) == 576 + 512
    assert per_cached_token(absorb=False) == 192 + 128 + 512 * (128 + 128)  # every key and value made again
    assert per_cached_token() == per_cached_token(absorb=True)
    assert flops(lambda: layer(x)) == flops(lambda: layer(x, absorb=False)) != flops(lambda: layer(x, absorb=True))


def test_a_rotation_between_the_up_projections_leaves_nothing_to_absorb():
    """Why RoPE has channels of its own (DeepSeek-V2, section 2.1.3): on k^C it leaves no one matrix for all offsets."""
    layer, d = build("mla"), 4
    W_uq, W_uk = layer.w_uq.weight[:d].detach(), layer.w_uk.weight[:d].detach()  # head 0: (d_h, d_model), (d_h, d_c)
    R = rotations(9, rope_frequencies(d), d, "half")

    def between(t, s):  # q_t · k_s = x_tᵀ [W_UQᵀ R_tᵀ R_s W_UK] c_s
        return W_uq.mT @ R[t].mT @ R[s] @ W_uk

    absorbed = W_uq.mT @ W_uk
    assert_close(between(8, 8), absorbed, 1e-13)  # no offset: the matrix that absorption would keep
    assert_close(between(4, 1), between(8, 5), 1e-12)  # equal offsets, equal matrices: RoPE is relative
    for offset in range(1, 9):
        assert (between(offset, 0) - absorbed).norm() > 0.1 * absorbed.norm()  # but another one for every offset
    # a rotation of the latent that does it for this head, R W_UK = W_UK R', is the wrong one for the next head
    moved = torch.linalg.pinv(W_uk) @ R[3] @ W_uk  # R' (d_c, d_c)
    W_next = layer.w_uk.weight[d : 2 * d].detach()
    assert_close(W_uk @ moved, R[3] @ W_uk, 1e-12)
    assert (W_next @ moved - R[3] @ W_next).norm() > 0.3 * W_next.norm()

    # nor does any other matrix B do it: fit q_t · k_s = x_tᵀ B c_s to many pairs by least squares
    draw = Inputs(3)
    queries, c = draw.normal(400, D_MODEL), draw.normal(400, 7)
    pairs = torch.einsum("nm,nc->nmc", queries, c).flatten(1)  # one column per entry of B

    def misfit(rotation):
        scores = torch.einsum("nm,jm,nji,ic,nc->n", queries, W_uq, rotation, W_uk, c)
        B = torch.linalg.lstsq(pairs, scores).solution
        return ((pairs @ B - scores).norm() / scores.norm()).item()

    assert misfit(torch.eye(d, dtype=torch.float64).expand(400, d, d)) < 1e-12
    assert misfit(R[draw.choice(torch.arange(9), 400)]) > 0.3


def test_the_shared_key_is_rotated_and_the_latent_is_not():
    layer, x = build("mla"), tokens(6)
    cache = layer(x[:, :1].expand_as(x), return_cache=True)[1]  # six times the same token
    assert_close(cache.latent, cache.latent[:, :1].expand_as(cache.latent), 1e-14)
    R = rotations(6, ROPE, D_K, "half")
    assert_close(cache.rotary, torch.einsum("tij,bj->bti", R, cache.rotary[:, 0]), 1e-13)


def test_zero_frequencies_rotate_nothing():
    layer, x = build("mla", rope=torch.zeros(D_K // 2)), tokens(9)
    assert_close(layer(x, return_cache=True)[1].rotary, x @ layer.w_kr.weight.mT, 1e-14)
    assert_close(layer(x), latent_truth(layer, x), 1e-12)


def test_normalised_latents_of_the_released_models_are_absorbed_alike():
    layer, x = build("mla with compressed queries"), tokens(17)
    plain = layer(x)
    layer.norm_kv, layer.norm_q = torch.nn.RMSNorm(7).double(), torch.nn.RMSNorm(8).double()
    with torch.no_grad():
        layer.norm_kv.weight.copy_(Inputs(4).uniform(7)), layer.norm_q.weight.copy_(Inputs(5).uniform(8))
    assert_close(layer(x), latent_truth(layer, x), 1e-12)
    assert_close(layer(x, absorb=True), layer(x), 1e-12)
    assert (layer(x) - plain).abs().max() > 0.1
    c = x @ layer.w_dkv.weight.mT
    normalised = c / (c.square().mean(-1, keepdim=True) + torch.finfo(c.dtype).eps).sqrt() * layer.norm_kv.weight
    assert_close(layer(x, return_cache=True)[1].latent, normalised, 1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("norm", [torch.nn.RMSNorm, torch.nn.LayerNorm])
@pytest.mark.parametrize("fp32_norms", [False, True])
def test_norms_are_computed_in_fp32(dtype, norm, fp32_norms, recwarn):
    layer, x = build("mla with compressed queries"), tokens(17, dtype=dtype)
    layer.norm_kv, layer.norm_q = norm(7, eps=1e-6), norm(8, eps=1e-6)
    with torch.no_grad():
        layer.norm_kv.weight.copy_(Inputs(4).uniform(7)), layer.norm_q.weight.copy_(Inputs(5).uniform(8))
    layer.to(dtype)
    in_fp32 = copy.deepcopy(layer).float()
    if fp32_norms:
        layer.norm_kv.float(), layer.norm_q.float()
    for absorb in (False, True):
        out, cache = layer(x, absorb=absorb, return_cache=True)
        want = in_fp32(x.float(), return_cache=True)[1]
        assert torch.equal(cache.latent, want.latent.to(dtype))
        assert out.dtype == dtype
    assert not recwarn.list


# --- factors ---------------------------------------------------------------------------------------------------------


def test_tensor_product_is_a_mean_of_outer_products():
    draw = Inputs()
    a, b = draw.normal(2, 3, 5, 4), draw.normal(2, 3, 5, 6)
    for t in range(5):
        want = sum(torch.outer(a[1, r, t], b[1, r, t]) for r in range(3)) / 3
        assert_close(tensor_product(a, b)[1, :, t], want, 1e-14)
    halves = tensor_product(a.bfloat16(), b.bfloat16())
    assert torch.equal(halves, tensor_product(a.bfloat16().float(), b.bfloat16().float()).bfloat16())


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotated_factors_make_rotated_keys(layout):
    """Zhang et al. 2025, Theorem 3.1: rotating b rotates every head's key, and scores depend on the distance only."""
    layer, plain, x = build("tpa", layout=layout), build("tpa", rope=None), tokens(9)
    rotated, still = (one(x, return_cache=True)[1] for one in (layer, plain))
    assert torch.equal(rotated.a_k, still.a_k) and torch.equal(rotated.b_v, still.b_v)
    R = rotations(9, ROPE, D_K, layout)
    keys = torch.einsum("tij,bhtj->bhti", R, tensor_product(still.a_k, still.b_k))
    assert_close(tensor_product(rotated.a_k, rotated.b_k), keys, 1e-13)
    same = layer(x[:, :1].expand_as(x), return_cache=True)[1]  # nine times the same token
    k = tensor_product(same.a_k, same.b_k)
    scores = k @ k.mT
    assert_close(scores[..., 1:, 1:], scores[..., :-1, :-1], 1e-12)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("rope", [None, ROPE])
def test_multi_head_grouped_and_multi_query_attention_are_tensor_products(kv_heads, rope):
    """Zhang et al. 2025, section 4: fixed factors over heads, R times the indicator of the heads that share."""
    torch.manual_seed(0)
    shape = {"heads": HEADS, "head_dim": D_K, "value_dim": D_V, "rope": rope}
    grouped = GroupedQueryAttention(D_MODEL, kv_heads=kv_heads, **shape).double()
    layer = TensorProductAttention(D_MODEL, ranks=(HEADS, kv_heads, kv_heads), **shape).double()
    own_head = torch.eye(HEADS, dtype=torch.float64)  # (R_Q, h)
    groups = torch.eye(kv_heads, dtype=torch.float64).repeat_interleave(HEADS // kv_heads, dim=1)  # (R_K, h)
    fixed = ((layer.w_aq, HEADS * own_head), (layer.w_ak, kv_heads * groups), (layer.w_av, kv_heads * groups))
    with torch.no_grad():
        for factor, a in fixed:
            factor.weight.zero_()
            factor.bias = torch.nn.Parameter(a.flatten())
        layer.w_bq.weight.copy_(grouped.w_q.weight), layer.w_bk.weight.copy_(grouped.w_k.weight)
        layer.w_bv.weight.copy_(grouped.w_v.weight), layer.w_o.weight.copy_(grouped.w_o.weight)
    x = tokens(17)
    first, cache = layer(x[:, :9], return_cache=True)
    assert_close(torch.cat((first, layer.decode(x[:, 9:], cache)[0]), dim=1), grouped(x), 1e-12)
    k = grouped(x[:, :9], return_cache=True)[1].k
    assert_close(tensor_product(cache.a_k, cache.b_k), repeat_heads(k, HEADS), 1e-13)
    # factors over heads that never change need not be kept: without them the caches are equally large too
    assert sum(b.shape[-3] * b.shape[-1] for b in (cache.b_k, cache.b_v)) == kv_heads * (D_K + D_V)


# --- what is kept and what is learned --------------------------------------------------------------------------------


@every_layer
def test_caches_are_what_costs_counts(name):
    kind, layer = name.split()[0], build(name)
    model = ModelConfig(
        name,
        "mha" if kind == "tpa" else kind,
        layers=1,
        d_model=D_MODEL,
        heads=HEADS,
        kv_heads={"gqa": 2, "mqa": 1}.get(kind, HEADS),
        head_dim=layer.head_dim,
        value_dim=layer.value_dim,
        kv_lora_rank=7,
        rope_dim=D_K,
    )
    want = kv_numbers_per_layer(model, **({"scheme": "tpa", "ranks": layer.ranks[1:]} if kind == "tpa" else {}))
    for T in (0, 1, 9):
        cache = layer(tokens(T), return_cache=True)[1]
        assert cache.numbers_per_token == want
        assert sum(x.numel() for x in kept(cache)) == 2 * T * want


@pytest.mark.parametrize("model", [DEEPSEEK_V2, LLAMA_3_8B, LLAMA_2_70B, MSA_PAPER_109B], ids=lambda model: model.name)
def test_caches_of_public_models(model):
    shape = {"heads": model.heads, "head_dim": model.head_dim, "value_dim": model.value_dim}
    if model.attention == "mla":
        layer = LatentAttention(2, latent=model.kv_lora_rank, rope=rope_frequencies(model.rope_dim), **shape)
    else:
        layer = GroupedQueryAttention(2, kv_heads=model.kv_heads, rope=rope_frequencies(model.head_dim), **shape)
    with torch.no_grad():
        cache = layer.decode(torch.ones(3, 2))[1]
    assert cache.numbers_per_token == kv_numbers_per_layer(model)
    assert sum(x.numel() for x in kept(cache)) == 3 * kv_numbers_per_layer(model)


def test_weights_are_as_many_as_the_papers_count():
    """Zhang et al. 2025, Table 1, with d_k = d_v = d_h."""
    d, h, d_h, d_c, d_q, d_r, G = 24, 4, 6, 7, 8, 2, 2

    def count(layer):
        return sum(w.numel() for w in layer.parameters())

    assert count(GroupedQueryAttention(d, heads=h)) == 4 * d * h * d_h
    assert count(GroupedQueryAttention(d, heads=h, kv_heads=1)) == 2 * d * d_h * (h + 1)
    assert count(GroupedQueryAttention(d, heads=h, kv_heads=G)) == 2 * d * d_h * (h + G)
    mla = LatentAttention(d, heads=h, latent=d_c, query_latent=d_q, rope=rope_frequencies(d_r))
    want = d_q * (d + h * d_h + h * d_r) + d_c * (d + 2 * h * d_h) + d * (h * d_h + d_r)
    assert count(mla) == want
    assert count(TensorProductAttention(d, heads=h, ranks=(3, 2, 1))) == d * (3 + 2 + 1) * (h + d_h) + d * h * d_h


@every_layer
def test_weights_come_from_the_seed(name):
    one, same, other = build(name, seed=5), build(name, seed=5), build(name, seed=6)
    x = tokens(5)
    assert torch.equal(one(x), same(x)) and not torch.equal(one(x), other(x))
    assert set(one.state_dict()) == {key for key, weight in one.named_parameters() if weight.requires_grad}


def test_weights_start_within_the_documented_bounds():
    torch.manual_seed(0)
    for layer in (
        GroupedQueryAttention(64, heads=8),
        LatentAttention(64, heads=8, latent=32, query_latent=48, rope=rope_frequencies(8)),
        TensorProductAttention(64, heads=8, ranks=(6, 2, 2)),
    ):
        for key, w in layer.named_parameters():
            factor = key[:3] in ("w_a", "w_b")
            bound = math.sqrt(6 / sum(w.shape)) if factor else w.shape[1] ** -0.5
            assert 0.95 * bound < w.abs().max() <= bound, key


def test_widths_default_to_shares_of_the_model():
    assert LatentAttention(12, heads=3, latent=2, rope=rope_frequencies(2)).w_dq is None
    for layer in (
        GroupedQueryAttention(12, heads=3),
        LatentAttention(12, heads=3, latent=2, rope=rope_frequencies(2)),
        TensorProductAttention(12, heads=3),
    ):
        assert (layer.head_dim, layer.value_dim) == (4, 4)
        assert layer(torch.ones(5, 12)).shape == (5, 12)
    assert GroupedQueryAttention(12, heads=3).kv_heads == 3
    assert GroupedQueryAttention(12, heads=3, head_dim=5).value_dim == 5
    assert TensorProductAttention(12, heads=3).ranks == (6, 2, 2)


@every_layer
def test_frequencies_are_the_layers_own_and_keep_their_dtype(name):
    rope = ROPE.clone()
    layer = build(name, rope=rope, dtype=torch.bfloat16)
    rope.zero_()
    assert torch.equal(layer.rope, ROPE)


# --- bug reports -----------------------------------------------------------------------------------------------------


@every_layer
def test_a_cache_is_a_record(name):
    layer = build(name)
    x = Inputs().normal(5, D_MODEL)
    (_, first), (_, second) = layer.decode(x), layer.decode(x)
    assert first == first and first != second and len({first, second}) == 2
    with pytest.raises(AttributeError):
        first.rope = None


@every_layer
def test_positions_and_masks_are_made_where_the_tokens_are(name):
    layer = build(name)
    x = Inputs().normal(5, D_MODEL)
    _, cache = layer.decode(x)
    want = layer(x), layer.decode(x, cache)[0]
    with made_elsewhere():
        assert torch.equal(layer(x), want[0]) and torch.equal(layer.decode(x, cache)[0], want[1])


def test_a_layer_may_be_made_where_nothing_is_stored():
    with made_elsewhere():
        layer = GroupedQueryAttention(D_MODEL, heads=HEADS, head_dim=D_K, rope=rope_frequencies(D_K))
    assert layer.rope.is_meta and layer.w_q.weight.is_meta


def test_every_width_may_be_one():
    x = torch.ones(3, 1)
    ones = {"heads": 1, "head_dim": 1, "value_dim": 1}
    assert GroupedQueryAttention(1, kv_heads=1, **ones)(x).shape == (3, 1)
    assert TensorProductAttention(1, ranks=(1, 1, 1), **ones)(x).shape == (3, 1)
    latent = LatentAttention(1, latent=1, query_latent=1, rope=torch.ones(1), **ones)
    assert latent(x).shape == (3, 1) and latent.rope_dim == 2


@every_layer
def test_a_cache_may_be_a_copy_and_its_frequencies_of_another_precision(name):
    rope = (ROPE if "mla" not in name else rope_frequencies(4)).float()
    layer, x = build(name, rope=rope.requires_grad_()), Inputs().normal(5, D_MODEL)
    assert layer.rope.dtype == torch.float32 and not layer.rope.requires_grad
    _, cache = layer.decode(x)
    want, _ = layer.decode(x, cache)
    for copied in (cache.rope.clone(), cache.rope.double()):
        assert torch.equal(layer.decode(x, replace(cache, rope=copied))[0], want)


def test_biases_of_halves_are_added_in_fp32():
    layer = build("tpa", dtype=torch.bfloat16)
    layer.w_aq.bias = torch.nn.Parameter(Inputs().normal(layer.w_aq.out_features).bfloat16())
    x = Inputs(1).normal(7, D_MODEL).bfloat16()
    want = copy.deepcopy(layer).float()(x.float())
    assert_close(layer(x), want, 2**-6)


def test_pooling_keeps_what_is_frozen():
    layer = build("mha")
    layer.w_k.weight.requires_grad_(False)
    pooled = pool_kv_heads(layer, 2)
    assert not pooled.w_k.weight.requires_grad and pooled.w_v.weight.requires_grad


def test_report_grouped_heads_are_tiled():
    """onnx/onnx #7274, PrimeIntellect-ai/prime-rl #2681: query head i must read key head i // 2, not i % 2."""
    layer, x = build("gqa"), tokens(9)
    assert_close(layer(x), grouped_truth(layer, x, kv_head_of=[0, 0, 1, 1]), 1e-12)
    assert (layer(x) - grouped_truth(layer, x, kv_head_of=[0, 1, 0, 1])).abs().max() > 0.1
    k = Inputs().normal(2, 5, 3)
    assert torch.equal(repeat_heads(k, 4), k[[0, 0, 1, 1]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_report_enable_gqa_takes_another_path(dtype):
    """facebookresearch/sapiens2 #3: enable_gqa in fp32 falls back to plain mathematics; the numbers must agree."""
    draw = Inputs(0, dtype)
    q, k, v = draw.normal(2, 4, 7, 6), draw.normal(2, 2, 7, 6), draw.normal(2, 2, 7, 6)
    want = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    got = scaled_dot_product_attention(q, repeat_heads(k, 4), repeat_heads(v, 4), is_causal=True)
    assert_close(got, want, 1e-6 if dtype == torch.float32 else 1e-14)


@pytest.mark.parametrize("name", ["gqa", "mla", "tpa"])
def test_report_interleaved_weights_under_a_half_split_rotation(name):
    """karpathy/nanochat #264, EleutherAI/gpt-neox #834, raiyanyahya/how-to-train-your-gpt #6: the other layout rotates
    other pairs of the six channels, so the same weights are another layer until the rows of each head are moved.
    """
    half, interleaved, x = build(name), build(name, layout="interleaved"), tokens(2)
    assert_close(interleaved(x)[:, 0], half(x)[:, 0], 1e-13)  # position 0 is not rotated, so one token shows nothing
    assert (interleaved(x)[:, 1] - half(x)[:, 1]).abs().max() > 1e-2
    rotated = {"gqa": ("w_q", "w_k"), "mla": ("w_qr", "w_kr"), "tpa": ("w_bq", "w_bk")}[name]
    with torch.no_grad():
        for key in rotated:
            weight = getattr(interleaved, key).weight
            weight.copy_(weight.unflatten(0, (-1, D_K))[:, [0, 3, 1, 4, 2, 5]].flatten(0, 1))
    assert_close(interleaved(x), half(x), 1e-13)


@every_layer
def test_report_the_base_moves_while_decoding(name):
    """huggingface/transformers #25104, #27227; vllm-project/vllm #3488: dynamic NTK changes the base one token past the
    trained length, while the cached keys stand rotated by the old one. A cache says how it was rotated; a layer never
    moves by itself, and one that was moved refuses.
    """
    layer, x, trained = build(name), tokens(17), 16
    cache = layer(x[:, :trained], return_cache=True)[1]
    assert_close(layer.decode(x[:, trained:], cache)[0], layer(x)[:, trained:], 1e-12)
    layer.rope = ROPE.clone()
    layer.decode(x[:, trained:], cache)  # the same frequencies
    layer.rope = rope_frequencies(D_K, base=400.0)
    with complains("cache.rope"):
        layer.decode(x[:, trained:], cache)
    anew = layer(x)  # prefilled again, every key at the new frequencies
    assert_close(anew, truth(layer, x), 1e-12)
    mixed = type(cache)(**vars(cache) | {"rope": layer.rope})  # what the reports did
    assert (layer.decode(x[:, trained:], mixed)[0] - anew[:, trained:]).abs().max() > 1e-3


@every_layer
def test_report_sizes_read_after_the_transpose(name):
    """huggingface/transformers #41036, #40963: seven tokens of three heads taken for three tokens of seven heads."""
    torch.manual_seed(0)
    shape = {"heads": 3, "head_dim": D_K, "rope": ROPE}
    layer = {
        "mha": lambda: GroupedQueryAttention(D_MODEL, **shape),
        "gqa": lambda: GroupedQueryAttention(D_MODEL, **shape | {"heads": 6}, kv_heads=3),
        "mqa": lambda: GroupedQueryAttention(D_MODEL, **shape, kv_heads=1),
        "mla": lambda: LatentAttention(D_MODEL, **shape, latent=4),
        "mla with compressed queries": lambda: LatentAttention(D_MODEL, **shape, latent=4, query_latent=5),
        "tpa": lambda: TensorProductAttention(D_MODEL, **shape, ranks=(3, 3, 3)),
    }[name]().double()
    for T in (7, 3):
        out, cache = layer(tokens(T), return_cache=True)
        assert out.shape == (2, T, D_MODEL) and cache.tokens == T
        assert_close(out, truth(layer, tokens(T)), 1e-12)


# --- wrong input -----------------------------------------------------------------------------------------------------

RIGHT = {
    GroupedQueryAttention: {"kv_heads": 2, "head_dim": 6, "rope": torch.ones(3)},
    LatentAttention: {"latent": 3, "query_latent": 3, "head_dim": 6, "rope": torch.ones(3)},
    TensorProductAttention: {"ranks": (3, 2, 1), "head_dim": 6, "rope": torch.ones(3)},
}
WRONG_EVERYWHERE = [
    ("d_model", {"d_model": 0}),
    ("d_model", {"d_model": 12.0}),
    ("heads", {"heads": 0}),
    ("heads", {"heads": True}),
    ("head_dim", {"d_model": 11, "head_dim": None}),
    ("head_dim", {"head_dim": 0}),
    ("value_dim", {"value_dim": 0}),
    ("rope", {"rope": [1.0, 0.1, 0.01]}),
    ("rope", {"rope": torch.ones(3, dtype=torch.long)}),
    ("rope", {"rope": torch.ones(1, 3)}),
    ("rope", {"rope": torch.ones(3).half()}),
    ("rope", {"rope": torch.ones(3).bfloat16()}),
    ("rope", {"rope": torch.tensor([1.0, math.nan, 0.1])}),
    ("rope", {"rope": torch.tensor([math.inf, 0.1, 0.1])}),
    ("rope", {"rope": torch.ones(0)}),
    ("layout", {"layout": "split"}),
]
WRONG_IN_ONE = {
    GroupedQueryAttention: [
        ("kv_heads", {"kv_heads": 3}),
        ("kv_heads", {"kv_heads": 0}),
        ("kv_heads", {"kv_heads": 8}),
        ("rope", {"rope": torch.ones(4)}),
        ("rope", {"head_dim": 7, "rope": torch.ones(4)}),
    ],
    LatentAttention: [
        ("latent", {"latent": 0}),
        ("query_latent", {"query_latent": 0}),
        ("rope", {"rope": None}),
    ],
    TensorProductAttention: [
        ("ranks", {"ranks": (2, 2)}),
        ("ranks", {"ranks": 2}),
        ("ranks", {"ranks": [3, 2, 1]}),
        ("ranks", {"ranks": (2, 0, 1)}),
        ("rope", {"rope": torch.ones(4)}),
        ("rope", {"head_dim": 7, "rope": torch.ones(4)}),
    ],
}


@pytest.mark.parametrize("kind", RIGHT, ids=lambda kind: kind.__name__)
def test_a_wrong_layer_is_named(kind):
    right = {"d_model": 12, "heads": 4} | RIGHT[kind]
    kind(**right)
    for name, wrong in WRONG_EVERYWHERE + WRONG_IN_ONE[kind]:
        with complains(name):
            kind(**right | wrong)
    with pytest.raises(TypeError):
        kind(12, 4, **RIGHT[kind])


WRONG_X = {
    "an array": lambda x: x.numpy(),
    "integers": lambda x: x.long(),
    "a vector": lambda x: x[0, 0],
    "width": lambda x: x[..., 1:],
    "dtype": lambda x: x.float(),
}


@every_layer
@pytest.mark.parametrize("wrong", WRONG_X)
def test_a_wrong_x_is_named(name, wrong):
    layer, x = build(name), tokens(5)
    _, cache = layer(x, return_cache=True)
    for call in (layer, lambda x: layer.decode(x, cache)):
        with complains("x"):
            call(WRONG_X[wrong](x))


@every_layer
def test_a_parameter_of_another_dtype_or_device_is_named(name):
    keys = [key for key, _ in build(name).named_parameters()]
    for key in keys:
        for wrong in ({"dtype": torch.float32}, {"device": "meta"}):
            layer = build(name)
            layer.get_submodule(key.split(".")[0]).to(**wrong)
            with complains("x" if key == keys[0] else key):  # x is compared with the first, the others with x
                layer(tokens(5))
        layer = build(name, dtype=torch.bfloat16)
        layer.get_submodule(key.split(".")[0]).float()
        with complains("x" if key == keys[0] else key):
            layer(tokens(5, dtype=torch.bfloat16))
    if "mla" in name:
        layer = build(name, dtype=torch.float32)
        layer.norm_kv = torch.nn.RMSNorm(7, dtype=torch.float64)  # fp32 fits where x is half, nothing else does
        with complains("norm_kv.weight"):
            layer(tokens(5, dtype=torch.float32))


@every_layer
@pytest.mark.parametrize("wrong", ["no", 1, None, torch.tensor(True)])
def test_a_flag_is_true_or_false(name, wrong):
    layer, x = build(name), tokens(5)
    with complains("return_cache"):
        layer(x, return_cache=wrong)
    if "mla" in name:
        for call in (layer, layer.decode):
            with complains("absorb"):
                call(x, absorb=wrong)


@every_layer
def test_a_cache_knows_its_layout(name):
    layer, other, x = build(name), build(name, layout="interleaved"), tokens(5)
    for one, another in ((layer, other), (other, layer)):
        _, cache = one(x, return_cache=True)
        assert cache.layout == one.layout and one.decode(x, cache)[1].layout == one.layout
        with complains("cache.layout"):
            another.decode(x, cache)
    if "mla" not in name:  # without a rotation there is nothing to lay out
        _, cache = build(name, rope=None)(x, return_cache=True)
        build(name, rope=None, layout="interleaved").decode(x, cache)


@every_layer
def test_caches_of_two_kinds_or_dtypes_do_not_join(name):
    layer, x = build(name), tokens(5)
    _, cache = layer(x, return_cache=True)
    for wrong in (build("mla" if name == "tpa" else "tpa")(x, return_cache=True)[1], "cache", None):
        with complains("new"):
            cache.append(wrong)
    first = next(iter(vars(cache)))
    halves = replace(cache, **{key: x.half() for key, x in vars(cache).items() if key not in ("rope", "layout")})
    with pytest.raises(ValueError, match=rf"^cache\.{first}: got torch.float64 on cpu, want .* like new\.{first}$"):
        cache.append(halves)


def test_a_cache_made_by_hand_is_checked():
    def key_values(k=(2, 4, 5, 6), v=(2, 4, 5, 3), **options):
        return KeyValueCache(torch.ones(k), torch.ones(v), **options)

    def latents(latent=(2, 5, 6), rotary=(2, 5, 4), rope=torch.ones(2), **options):
        return LatentCache(torch.ones(latent), torch.ones(rotary), rope, **options)

    def factors(a_k=(2, 3, 5, 4), b_k=(2, 3, 5, 6), a_v=(2, 1, 5, 4), b_v=(2, 1, 5, 7), **options):
        return FactorCache(*map(torch.ones, (a_k, b_k, a_v, b_v)), **options)

    assert key_values().layout == latents().layout == factors().layout == "half"
    for make in (key_values, latents, factors):
        for wrong in (torch.ones(2).half(), torch.ones(1, 2), torch.ones(0), [1.0]):
            with complains("rope"):
                make(rope=wrong)
        with complains("layout"):
            make(layout="split")
    with complains("rope"):
        latents(rope=None)
    for name, make, shape in (
        ("k", key_values, (5, 6)),
        ("k", key_values, (2, 4, 5, 0)),
        ("v", key_values, (5, 3)),
        ("v", key_values, (3, 4, 5, 3)),
        ("v", key_values, (2, 2, 5, 3)),
        ("v", key_values, (2, 4, 6, 3)),
        ("latent", latents, (6,)),
        ("rotary", latents, (3, 5, 4)),
        ("rotary", latents, (2, 6, 4)),
        ("rotary", latents, (5, 4)),
        ("a_k", factors, (5, 4)),
        ("b_v", factors, (5, 7)),
        ("b_k", factors, (2, 2, 5, 6)),
        ("a_v", factors, (3, 1, 5, 4)),
        ("a_v", factors, (2, 1, 6, 4)),
        ("b_v", factors, (2, 2, 5, 7)),
        ("b_v", factors, (3, 1, 5, 7)),
    ):
        with complains(name):
            make(**{name: shape})


@every_layer
def test_a_wrong_cache_is_named(name):
    layer, x = build(name), tokens(5)
    _, cache = layer(x, return_cache=True)
    first = next(iter(vars(cache)))
    _, other_kind = build("mla" if name == "tpa" else "tpa")(x, return_cache=True)
    for wrong in (other_kind, kept(cache), {}):
        with complains("cache"):
            layer.decode(x, wrong)
    with complains(rf"cache\.{first}"):  # another batch
        layer.decode(x[:1], cache)
    with complains(rf"cache\.{first}"):  # another dtype
        layer.decode(x, build(name, dtype=torch.float32)(x.float(), return_cache=True)[1])
    for key, tensor in vars(cache).items():
        if key not in ("rope", "layout"):
            with complains(rf"cache\.{key}"):  # another width
                layer.decode(x, type(cache)(**vars(cache) | {key: tensor[..., 1:]}))
            for wrong in (tensor.detach().numpy(), tensor.long(), tensor.flatten()):
                with complains(key):
                    type(cache)(**vars(cache) | {key: wrong})
            if key != first:
                with complains(key):  # fewer tokens than the others
                    type(cache)(**vars(cache) | {key: tensor[..., 1:, :]})
    with complains("rope"):
        type(cache)(**vars(cache) | {"rope": [1.0]})


def test_a_wrong_cache_of_the_same_kind_is_named():
    x = tokens(5)
    with complains(r"cache\.k"):  # four heads kept, two wanted
        build("gqa").decode(x, build("mha")(x, return_cache=True)[1])
    with complains(r"cache\.rope"):
        build("gqa").decode(x, build("gqa", rope=None)(x, return_cache=True)[1])
    with complains(r"cache\.rope"):
        build("gqa", rope=None).decode(x, build("gqa")(x, return_cache=True)[1])


def test_other_wrong_arguments_are_named():
    k, a, b = torch.ones(2, 5, 3), torch.ones(2, 3, 5, 4), torch.ones(2, 3, 5, 6)
    layer = build("mha")
    for name, call in (
        ("x", lambda: repeat_heads(k.numpy(), 2)),
        ("x", lambda: repeat_heads(k[0], 2)),
        ("heads", lambda: repeat_heads(k, 3)),
        ("heads", lambda: repeat_heads(k, 0)),
        ("heads", lambda: repeat_heads(k, 4.0)),
        ("heads", lambda: repeat_heads(k[:0], 2)),
        ("a", lambda: tensor_product(a.numpy(), b)),
        ("a", lambda: tensor_product(a[0, 0], b[0, 0])),
        ("a", lambda: tensor_product(a[:, :0], b[:, :0])),
        ("b", lambda: tensor_product(a, b[0, 0])),
        ("b", lambda: tensor_product(a, b[:, :2])),
        ("b", lambda: tensor_product(a, b[..., 1:, :])),
        ("b", lambda: tensor_product(a, b[:1])),
        ("b", lambda: tensor_product(a, b.double())),
        ("module", lambda: pool_kv_heads(build("tpa"), 1)),
        ("kv_heads", lambda: pool_kv_heads(layer, 3)),
        ("kv_heads", lambda: pool_kv_heads(layer, 0)),
        ("kv_heads", lambda: pool_kv_heads(build("mqa"), 2)),
    ):
        with complains(name):
            call()
