"""flash-linear-attention's naive forms: the field's reference, (B, T, H, d), fp32, q scaled by d_k^-1/2 by default."""

import pytest
import torch

from attnledger.ops.delta import chunked_delta_rule, delta_rule, recurrent_delta_rule
from attnledger.ops.linear import (
    chunked_linear_attention,
    elu_plus_one,
    identity,
    linear_attention,
    recurrent_linear_attention,
)
from bench import fla_naive

pytest.importorskip("einops", reason="the peers have an environment of their own: make peers")
try:
    linear, delta, gated, kda = map(fla_naive, ("linear_attn", "delta_rule", "gated_delta_rule", "kda"))
except ModuleNotFoundError:
    pytest.skip("fla-core is not installed; the peers have an environment: make peers", allow_module_level=True)

LENGTHS = (1, 17, 64, 65, 129)


def both_forms(q, k, v, **options):
    """Outputs and states of this library's two forms, with the peers' scale."""
    options |= {"scale": q.shape[-1] ** -0.5, "return_state": True}
    return [form(q, k, v, **options) for form in (recurrent_delta_rule, chunked_delta_rule)]


@pytest.mark.parametrize("T", LENGTHS)
def test_recurrent_linear_attention_agrees(T, inputs, close, swap):
    q, k, v, *_ = inputs(T)
    out, S = linear.naive_recurrent_linear_attn(*swap(q, k, v), scale=1.0, output_final_state=True)
    for form in (recurrent_linear_attention, chunked_linear_attention):
        ours, state = form(q, k, v, feature_map=identity, normalize=False, return_state=True)
        close(ours, out.transpose(1, 2), 6e-6)
        close(state, S, 6e-6)


@pytest.mark.parametrize("T", LENGTHS)
def test_normalised_linear_attention_agrees_on_positive_features(T, inputs, close, swap):
    q, k, v, *_ = inputs(T)
    features = swap(elu_plus_one(q), elu_plus_one(k), v)
    out, (S, z) = linear.naive_recurrent_linear_attn(*features, scale=1.0, normalize=True, output_final_state=True)
    ours, state = linear_attention(q, k, v, return_state=True)
    close(ours, out.transpose(1, 2), 6e-6)
    close(state[0], S, 6e-6)
    close(state[1], z.squeeze(1), 6e-6)


@pytest.mark.parametrize("T", [64, 128])
def test_chunked_linear_attention_agrees_in_fp64(T, inputs, close, swap):
    q, k, v, *_ = inputs(T, dtype=torch.float64)
    out = linear.naive_chunk_linear_attn(*swap(q, k, v), scale=1.0)
    close(chunked_linear_attention(q, k, v, feature_map=identity, normalize=False), out.transpose(1, 2), 1e-13)


@pytest.mark.parametrize("T", LENGTHS)
def test_delta_rule_agrees(T, inputs, close):
    """This one peer is (B, H, T, d), as everything here."""
    q, k, v, beta, _ = inputs(T)
    out, S = delta.delta_rule_recurrence(q, k, v, beta)
    for ours, state in both_forms(q, k, v, beta=beta):
        close(ours, out, 6e-6)
        close(state, S, 6e-6)


def test_chunked_delta_rule_agrees(inputs, close):
    q, k, v, beta, _ = inputs(128)
    out, S = delta.delta_rule_chunkwise(q, k, v, beta)
    ours, state = both_forms(q, k, v, beta=beta)[1]
    close(ours, out, 6e-6)
    close(state, S, 6e-6)


@pytest.mark.parametrize("g", [None, 0.0, -5.0, -100.0])
@pytest.mark.parametrize("T", LENGTHS)
def test_gated_delta_rule_agrees(T, g, inputs, close, swap):
    """beta comes before g in one of the two and after it in the other: hence keywords, there and here."""
    arguments = q, k, v, beta, g = inputs(T, g=g)
    q_, k_, v_, beta_, g_ = swap(*arguments)
    for peer in (gated.naive_recurrent_gated_delta_rule, gated.naive_chunk_gated_delta_rule):
        out, S = peer(q_, k_, v_, beta=beta_, g=g_, output_final_state=True)
        for ours, state in both_forms(q, k, v, beta=beta, g=g):
            close(ours, out.transpose(1, 2), 6e-6)
            close(state, S, 6e-6)


@pytest.mark.parametrize("g", [None, 0.0, -5.0, -100.0])
@pytest.mark.parametrize("T", LENGTHS)
def test_kda_agrees(T, g, inputs, close, swap):
    arguments = q, k, v, beta, g = inputs(T, gate="channel", g=g)
    q_, k_, v_, beta_, g_ = swap(*arguments)
    out, S = kda.naive_recurrent_kda(q_, k_, v_, g_, beta_, output_final_state=True)
    for ours, state in both_forms(q, k, v, beta=beta, g=g):
        close(ours, out.transpose(1, 2), 6e-6)
        close(state, S, 6e-6)


def test_chunked_kda_agrees_where_its_exponents_are_small(inputs, close, swap):
    """It forms e^(g_i − g_j) above the diagonal too and masks afterwards: fine while 64 |g| stays below 88."""
    arguments = q, k, v, beta, g = inputs(128, gate="channel", g=-1.0)
    q_, k_, v_, beta_, g_ = swap(*arguments)
    out, S = kda.naive_chunk_kda(q_, k_, v_, g_, beta_, output_final_state=True)
    ours, state = both_forms(q, k, v, beta=beta, g=g)[1]
    close(ours, out.transpose(1, 2), 6e-6)
    close(state, S, 6e-6)


def test_peer_is_wrong_chunked_kda_has_no_gradient_from_minus_five_down(inputs, close, swap):
    """Forward finite, backward not: e^(g_i − g_j) overflows where masked, 0 · ∞ is NaN (transformers issue 48455)."""
    arguments = [x.requires_grad_() for x in inputs(64, gate="channel", g=-5.0)]
    q, k, v, beta, g = arguments
    q_, k_, v_, beta_, g_ = swap(*arguments)
    out, _ = kda.naive_chunk_kda(q_, k_, v_, g_, beta_)
    assert out.isfinite().all()
    assert not all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), arguments))
    right, _ = kda.naive_recurrent_kda(q_, k_, v_, g_, beta_)
    wanted = torch.autograd.grad(right.sum(), arguments)
    ours = delta_rule(q, k, v, beta=beta, g=g, scale=q.shape[-1] ** -0.5)
    for x, y in zip(torch.autograd.grad(ours.sum(), arguments), wanted, strict=True):
        close(x, y, 2e-5)


def test_peer_is_wrong_normalised_sum_of_signed_features_is_divided_by_1e_minus_10():
    """k = 1, −1: nothing is left in z, and the peer's −1 becomes −10¹⁰ (fla issue 1198); here 0/0 is 0, no epsilon."""
    q, k, v = (torch.tensor(x).view(1, 1, 2, 1) for x in ([1.0, 1.0], [1.0, -1.0], [1.0, 2.0]))
    theirs, _ = linear.naive_recurrent_linear_attn(*(x.transpose(1, 2) for x in (q, k, v)), normalize=True)
    assert theirs[0, 1, 0, 0].item() == pytest.approx(-1e10, rel=1e-3)
    for form in (recurrent_linear_attention, chunked_linear_attention):
        assert form(q, k, v, feature_map=identity).flatten().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("T", [1, 17, 65])
def test_peer_is_limited_to_whole_chunks(T, inputs, swap):
    """Three chunked forms refuse a last chunk that is not full; they raise, at least. Here every T has an answer."""
    q, k, v, beta, g = inputs(T, gate="channel")
    q_, k_, v_, beta_, g_ = swap(q, k, v, beta, g)
    with pytest.raises(Exception):  # noqa: B017 (einops has an error of its own)
        linear.naive_chunk_linear_attn(q_, k_, v_)
    with pytest.raises(AssertionError):
        delta.delta_rule_chunkwise(q, k, v, beta)
    with pytest.raises(AssertionError):
        kda.naive_chunk_kda(q_, k_, v_, g_, beta_)
    assert chunked_delta_rule(q, k, v, beta=beta, g=g).isfinite().all()
