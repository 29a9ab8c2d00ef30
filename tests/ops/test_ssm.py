"""State-space models: recurrences written out, Mamba-2 as masked and as gated linear attention, Mamba-1 per channel."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnledger.ops import ssm
from attnledger.ops.delta import softplus_gate
from attnledger.ops.linear import identity, linear_attention
from attnledger.ops.ssm import (
    chunked_ssd,
    recurrent_ssd,
    selective_scan,
    semiseparable_mask,
    short_convolution,
    ssd,
)

from .matrix import (
    CHUNKS,
    LENGTHS,
    Inputs,
    assert_close,
    assert_same_gradients,
    complains,
    gradients,
    made_elsewhere,
    routes,
)

N, D = 6, 5  # state rows (keys) and channels (values)
RULES = (recurrent_ssd, chunked_ssd, ssd)
DECAYS = ("none", "slow", "mixed", "forget")


def decays(kind, draw, *shape):
    """Natural-log decays: none at all, a percent a token, anything down to e^-800, now and then everything."""
    if kind == "mixed":
        return -draw.uniform(*shape) * draw.choice(torch.tensor([0.0, 1.0, 1.0, 20.0, 800.0], dtype=draw.dtype), *shape)
    if kind == "forget":
        return draw.choice(torch.tensor([0.0, -0.1, -math.inf], dtype=draw.dtype), *shape)
    return torch.full(shape, 0.0 if kind == "none" else -0.01, dtype=draw.dtype)


def arguments(T, kind="mixed", lead=(2,), seed=0, dtype=torch.float64, n=N, d=D):
    """x, g, B, C and a state."""
    draw = Inputs(seed, dtype)
    x, B, C = draw.normal(*lead, T, d), draw.normal(*lead, T, n), draw.normal(*lead, T, n)
    return [x, decays(kind, draw, *lead, T), B, C, draw.normal(*lead, n, d)]


def scan_arguments(T, lead=(2,), seed=0, dtype=torch.float64, n=N, d=D):
    """x, delta, A, B, C, D and a state, as a layer of Mamba makes them: A is -1 to -n, and half the steps are small."""
    draw = Inputs(seed, dtype)
    x, B, C = draw.normal(*lead, T, d), draw.normal(*lead, T, n), draw.normal(*lead, T, n)
    delta = draw.uniform(*lead, T, d) * draw.choice(torch.tensor([0.01, 1.0], dtype=dtype), *lead, T, d) + 1e-3
    A = -(1.0 + torch.arange(n, dtype=dtype)) * (0.5 + draw.uniform(d, n))
    return [x, delta, A, B, C, draw.normal(d), draw.normal(*lead, n, d)]


def run(rule, **options):
    """SSD as a function of its tensors alone, returning output and state."""

    def call(x, g, B, C, state=None):
        return rule(x, B, C, g=g, state=state, return_state=True, **options)

    return call


def scan(x, delta, A, B, C, D=None, state=None, **options):
    """The selective scan as a function of its tensors alone, returning output and state."""
    return selective_scan(x, delta, A, B, C, D=D, state=state, return_state=True, **options)


def gated_linear_attention(q, k, v, g, S=None):
    """S_t = Diag(e^{g_t}) S_{t-1} + k_t^T v_t and o_t = q_t S_t, with g `(..., T)` or, for each key channel, as k."""
    g = g.unsqueeze(-1).expand_as(k) if g.ndim < k.ndim else g
    S = v.new_zeros(*k.shape[:-2], k.shape[-1], v.shape[-1]) if S is None else S
    outputs = [v[..., :0, :]]
    for t in range(k.shape[-2]):
        S = torch.diag_embed(g[..., t, :].exp()) @ S + torch.einsum("...k,...v->...kv", k[..., t, :], v[..., t, :])
        outputs.append(torch.einsum("...k,...kv->...v", q[..., t, :], S).unsqueeze(-2))
    return torch.cat(outputs, dim=-2), S


def scan_by_definition(x, delta, A, B, C, D, h):
    """One sequence in plain numbers: Algorithm 2 of the Mamba paper with h (d, n) as it stands there."""
    h, y = h.T.copy(), np.zeros_like(x)
    for t in range(len(x)):
        for c in range(x.shape[1]):
            for s in range(A.shape[1]):
                h[c, s] = np.exp(delta[t, c] * A[c, s]) * h[c, s] + delta[t, c] * B[t, s] * x[t, c]
            y[t, c] = C[t] @ h[c] + D[c] * x[t, c]
    return y, h.T


# --- SSD -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DECAYS)
@pytest.mark.parametrize("T", LENGTHS)
def test_ssd_is_gated_linear_attention(T, kind):
    """C asks, B is the key, x the value; no delta term. Both forms and the dispatcher, states and gradients."""
    x, g, B, C, S = tensors = arguments(T, kind)

    def attention(x, g, B, C, S):
        return gated_linear_attention(C, B, x, g, S)

    want, want_gradients = attention(*tensors), gradients(attention, tensors)
    for rule in RULES:
        for got, wanted in zip(run(rule)(*tensors), want, strict=True):
            assert_close(got, wanted, 1e-12, rule.__name__)
        assert_same_gradients(gradients(run(rule), tensors), want_gradients, 1e-11, "x g B C state")


@pytest.mark.parametrize("kind", DECAYS)
@pytest.mark.parametrize("T", LENGTHS)
def test_chunks_are_the_recurrence_gradients_included(T, kind):
    tensors = arguments(T, kind)
    want, want_gradients = run(recurrent_ssd)(*tensors), gradients(run(recurrent_ssd), tensors)
    for chunk in CHUNKS:
        chunked = run(chunked_ssd, chunk=chunk)
        for got, wanted in zip(chunked(*tensors), want, strict=True):
            assert_close(got, wanted, 1e-12, f"chunk {chunk}")
        assert_same_gradients(gradients(chunked, tensors), want_gradients, 1e-11, "x g B C state")


@pytest.mark.parametrize("T", LENGTHS)
def test_without_decay_it_is_linear_attention(T):
    x, g, B, C, S = arguments(T, "none")
    want = linear_attention(C, B, x, feature_map=identity, normalize=False, state=S, return_state=True)
    for rule in RULES:
        for got, wanted in zip(run(rule)(x, g, B, C, S), want, strict=True):
            assert_close(got, wanted, 1e-12)


@pytest.mark.parametrize("kind", DECAYS)
def test_the_quadratic_form_is_masked_attention(kind):
    """Y = (L ∘ C Bᵀ) X with L written out as products of decays."""
    x, g, B, C, _ = arguments(20, kind, lead=())
    a = g.exp()
    L = torch.tensor([[a[j + 1 : i + 1].prod() if j <= i else 0.0 for j in range(20)] for i in range(20)]).double()
    assert_close(semiseparable_mask(g), L, 1e-14)
    for rule in RULES:
        assert_close(rule(x, B, C, g=g), (L * (C @ B.mT)) @ x, 1e-13)


def test_the_mask_of_any_length_and_kind():
    for T in LENGTHS:
        for kind in DECAYS:
            g = decays(kind, Inputs(3), 2, T)
            L = semiseparable_mask(g)
            assert L.shape == (2, T, T) and ((L >= 0) & (L <= 1)).all()
            assert torch.equal(L, L.tril()) and torch.equal(L.diagonal(dim1=1, dim2=2), torch.ones_like(g))
            if T > 1:  # its first subdiagonal is the decay itself
                assert_close(L.diagonal(-1, 1, 2), g[:, 1:].exp(), 1e-15)
    assert semiseparable_mask(torch.zeros(3, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("T", (1, 2, 17, 65))
def test_the_state_carries_over_a_split_at_every_point(T):
    x, g, B, C, S = arguments(T)
    for rule in RULES:
        whole, end = run(rule)(x, g, B, C, S)
        for split in range(T + 1):
            first, carried = run(rule)(*(y[:, :split] for y in (x, g, B, C)), S)
            second, last = run(rule)(*(y[:, split:] for y in (x, g, B, C)), carried)
            assert_close(torch.cat((first, second), dim=1), whole, 1e-12, f"split at {split}")
            assert_close(last, end, 1e-12, f"state after a split at {split}")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    pieces=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    lead=st.sampled_from([(), (1,), (3,), (2, 2), (0,)]),
    n=st.integers(1, 4),
    d=st.integers(1, 4),
    chunk=st.integers(1, 20),
    kind=st.sampled_from(DECAYS),
    seed=st.integers(0, 99),
)
def test_any_split_of_any_shape(pieces, lead, n, d, chunk, kind, seed):
    x, g, B, C, state = arguments(sum(pieces), kind, lead, seed, n=n, d=d)
    want, end = gated_linear_attention(C, B, x, g, state)
    outs, parts = [], (y.split(pieces, dim=-2) for y in (x, g.unsqueeze(-1), B, C))
    for x_p, g_p, B_p, C_p in zip(*parts, strict=True):
        out, state = run(ssd, chunk=chunk)(x_p, g_p.squeeze(-1), B_p, C_p, state)
        outs.append(out)
    assert_close(torch.cat(outs, dim=-2), want, 1e-12)
    assert_close(state, end, 1e-12)


def test_every_head_is_its_own_matrix():
    tensors = arguments(40, lead=(2, 3))
    out, state = run(ssd)(*tensors)
    for b in range(2):
        for h in range(3):
            alone, alone_state = run(ssd)(*(y[b, h] for y in tensors))
            assert_close(out[b, h], alone, 1e-13)
            assert_close(state[b, h], alone_state, 1e-13)


def test_heads_may_share_keys_and_queries_through_a_view():
    """Mamba-2's groups: one B and C for several heads."""
    x, g, *_ = arguments(70, lead=(2, 4))
    _, _, B, C, _ = arguments(70, lead=(2, 1), seed=1)
    views = [y.expand(2, 4, 70, N) for y in (B, C)]
    for rule in RULES:
        assert_close(rule(x, *views, g=g), rule(x, *(y.clone() for y in views), g=g), 1e-14)


@pytest.mark.parametrize("T", [1, 2, 70])
def test_the_dispatcher_takes_either_form(T):
    tensors = arguments(T)
    want = run(recurrent_ssd)(*tensors)
    for chunk in (None, 1, 16, 1000):
        for got, wanted in zip(run(ssd, chunk=chunk)(*tensors), want, strict=True):
            assert_close(got, wanted, 1e-12)


def test_one_token_goes_by_recurrence_and_more_by_chunks_of_64(monkeypatch):
    taken = routes(monkeypatch, ssm, "recurrent_ssd", "chunked_ssd")
    for T, chunk in ((0, None), (1, None), (2, None), (1, 7), (2, 7)):
        run(ssd, chunk=chunk)(*arguments(T))
    assert taken == [("recurrent", None), ("recurrent", None), ("chunked", 64), ("chunked", 7), ("chunked", 7)]


def test_states_are_made_where_the_tensors_are():
    (v, g, B, C, _), steps = arguments(20), scan_arguments(20)[:5]
    x, weight, _ = convolution_arguments(20, 3)
    wants = ssd(v, B, C, g=g), recurrent_ssd(v, B, C, g=g), selective_scan(*steps), short_convolution(x, weight)
    with made_elsewhere():
        got = ssd(v, B, C, g=g), recurrent_ssd(v, B, C, g=g), selective_scan(*steps), short_convolution(x, weight)
    assert all(torch.equal(a, b) for a, b in zip(got, wants, strict=True))


def test_the_gradients_are_those_of_finite_differences():
    x, _, B, C, S = arguments(5, n=2, d=3)
    g = -0.1 - Inputs(4).uniform(2, 5)
    leaves = [y.requires_grad_() for y in (x, g, B, C, S)]
    for options in ({"chunk": 2}, {"chunk": 64}):
        assert torch.autograd.gradcheck(run(ssd, **options), leaves)
    assert torch.autograd.gradcheck(run(recurrent_ssd), leaves)


@pytest.mark.parametrize("kind", DECAYS)
def test_the_future_changes_no_bit_of_the_past(kind):
    tensors = arguments(129, kind, dtype=torch.float32)[:4]
    other = arguments(129, "slow", seed=1, dtype=torch.float32)[:4]
    for rule in RULES:
        before, _ = run(rule)(*tensors)
        for t in (1, 16, 17, 63, 64, 100, 128):
            changed = [torch.cat((y[:, :t], 3 * z[:, t:]), dim=1) for y, z in zip(tensors, other, strict=True)]
            after, _ = run(rule)(*changed)
            assert torch.equal(after[:, :t], before[:, :t])
            assert not torch.equal(after[:, t:], before[:, t:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_inputs_are_computed_in_fp32(dtype):
    x, g, B, C, _ = arguments(65, "slow", dtype=dtype)
    state = arguments(65, dtype=torch.float32)[-1]
    assert torch.equal(semiseparable_mask(g), semiseparable_mask(g.float()).to(dtype))
    for rule in RULES:
        assert rule(x, B, C, g=g).dtype == dtype
        for g_ in (g, g.float()):
            out, end = run(rule)(x, g_, B, C, state)
            want, want_end = run(rule)(x.float(), g_.float(), B.float(), C.float(), state)
            assert out.dtype == dtype and torch.equal(out, want.to(dtype))
            assert end.dtype == torch.float32 and torch.equal(end, want_end)


@pytest.mark.parametrize("size", [1e-18, 1e18])
def test_numbers_of_any_size_scale_through(size):
    x, g, B, C, _ = arguments(100, dtype=torch.float32)
    want = recurrent_ssd(x.double(), B.double(), C.double(), g=g.double())
    for rule in RULES:
        assert_close(rule(size * x, B, C, g=g), size * want, 3e-6)
        assert_close(rule(x, size * B, C, g=g), size * want, 3e-6)
        assert_close(rule(x, size * B, C / size, g=g), want, 3e-6)


@pytest.mark.parametrize("strength", [0.0, -1e-3, -0.1, -1.0, -5.0, -20.0, -100.0])
def test_fp32_is_exact_for_any_decay(strength):
    x, _, B, C, S = arguments(512, dtype=torch.float32)
    g = strength * 2 * Inputs(6, torch.float32).uniform(2, 512)
    want = run(recurrent_ssd)(*(y.double() for y in (x, g, B, C, S)))
    for got, wanted in zip(run(chunked_ssd)(x, g, B, C, S), want, strict=True):
        assert_close(got, wanted, 3e-6)


def test_a_huge_key_does_not_reach_the_tokens_before_it():
    """A query on a key that is not yet there: a score that overflows, and 0 times it is NaN."""
    x, g, B, C, S = arguments(8, "slow", dtype=torch.float32)
    C[:, 0], B[:, 5] = 1e20, 1e20
    tensors = [x, g, B, C, S]
    want = run(recurrent_ssd)(*(y.double() for y in tensors))
    want_gradients = gradients(run(recurrent_ssd), [y.double() for y in tensors])
    for rule in RULES:
        out, end = run(rule)(*tensors)
        for rows in (slice(0, 1), slice(1, 5), slice(5, 8)):
            assert_close(out[:, rows], want[0][:, rows], 3e-6)
        assert_close(end, want[1], 3e-6)
        assert_same_gradients(gradients(run(rule), tensors), want_gradients, 1e-5, "x g B C state")


def test_the_state_after_no_token_is_a_copy():
    x, g, B, C, S = arguments(0)
    steps = scan_arguments(0)
    outs = [(run(rule)(x, g, B, C, S), S) for rule in RULES]
    for (_, end), state in [*outs, (scan(*steps), steps[-1])]:
        assert torch.equal(end, state)
        end.zero_()
        assert state.all()


def test_a_chunk_may_come_from_numpy():
    """And is no longer one of its eight bits when it is added to a position beyond them."""
    x, g, B, C, _ = arguments(200)
    for rule in (ssd, chunked_ssd):
        assert torch.equal(rule(x, B, C, g=g, chunk=np.int8(7)), rule(x, B, C, g=g, chunk=7))


# --- the selective scan ----------------------------------------------------------------------------------------------


def test_the_scan_is_algorithm_2():
    tensors = scan_arguments(20, lead=())
    want = scan_by_definition(*(y.numpy() for y in tensors))
    for got, wanted in zip(scan(*tensors), want, strict=True):
        assert_close(got, torch.from_numpy(wanted), 1e-13)


@pytest.mark.parametrize("T", LENGTHS)
def test_mamba_is_gated_linear_attention_of_heads_one_channel_wide(T):
    """Where the identity ends: every channel has a decay of its own for every state row, so it is a head of its own."""
    tensors = scan_arguments(T)

    def attention(x, delta, A, B, C, D, S):
        heads = (2, D.shape[0], x.shape[-2])
        q, k = (y.unsqueeze(1).expand(*heads, y.shape[-1]) for y in (C, B))
        v = (delta * x).mT.unsqueeze(-1)  # (2, d, T, 1)
        g = delta.mT.unsqueeze(-1) * A.unsqueeze(-2)  # (2, d, T, n)
        out, S = gated_linear_attention(q, k, v, g, S.mT.unsqueeze(-1))
        return out.squeeze(-1).mT + D * x, S.squeeze(-1).mT

    for got, want in zip(scan(*tensors), attention(*tensors), strict=True):
        assert_close(got, want, 1e-12)
    names = "x delta A B C D state"
    assert_same_gradients(gradients(scan, tensors), gradients(attention, tensors), 1e-11, names)


@pytest.mark.parametrize("T", LENGTHS)
def test_with_one_decay_per_head_the_scan_is_ssd(T):
    """Mamba-2's layer: one step per token and head, one number A per head, D x beside."""
    draw = Inputs(5)
    x, B, C, S = draw.normal(2, 3, T, D), draw.normal(2, 3, T, N), draw.normal(2, 3, T, N), draw.normal(2, 3, N, D)
    steps, a, skip = draw.uniform(2, 3, T), -4 * draw.uniform(3), draw.normal(3)
    want, end = selective_scan(
        x,
        steps.unsqueeze(-1).expand_as(x),
        a[:, None, None].expand(3, D, N),
        B,
        C,
        D=skip[:, None].expand(3, D),
        state=S,
        return_state=True,
    )
    for rule in RULES:
        out, last = run(rule)(steps.unsqueeze(-1) * x, steps * a[:, None], B, C, S)
        assert_close(out + skip[:, None, None] * x, want, 1e-12)
        assert_close(last, end, 1e-12)


def test_with_a_decay_per_channel_there_is_no_one_score_matrix():
    """What a token passes on to a later one: the same for all channels in SSD, different in each in Mamba-1."""
    x, delta, A, B, C, *_ = scan_arguments(6, lead=())

    def passed_on(function):
        jacobian = torch.autograd.functional.jacobian(function, x)  # (T, d, T, d)
        crossed = jacobian.masked_fill(torch.eye(D, dtype=torch.bool)[:, None, :], 0.0)
        assert not crossed.any(), "channels never mix"
        return jacobian.diagonal(dim1=1, dim2=3).movedim(-1, 0)  # (d, T, T)

    g = delta.mean(-1) * A.mean()
    shared = passed_on(lambda x: ssd(x, B, C, g=g))
    for channel in shared:
        assert_close(channel, semiseparable_mask(g) * (C @ B.mT), 1e-13)
    own = passed_on(lambda x: selective_scan(x, delta, A, B, C) / delta.mean())
    for c in range(1, D):
        assert (own[c] - own[0]).abs().max() > 0.1 * own[0].abs().max()


@pytest.mark.parametrize("T", (1, 2, 17, 40))
def test_the_scan_carries_its_state_over_a_split_at_every_point(T):
    x, delta, A, B, C, skip, S = scan_arguments(T)
    whole, end = scan(x, delta, A, B, C, skip, S)
    for split in range(T + 1):
        first, carried = scan(x[:, :split], delta[:, :split], A, B[:, :split], C[:, :split], skip, S)
        second, last = scan(x[:, split:], delta[:, split:], A, B[:, split:], C[:, split:], skip, carried)
        assert torch.equal(torch.cat((first, second), dim=1), whole)
        assert torch.equal(last, end)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    pieces=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    lead=st.sampled_from([(), (1,), (3,), (2, 2), (0,)]),
    n=st.integers(1, 4),
    d=st.integers(1, 4),
    per_head=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_any_split_of_any_scan(pieces, lead, n, d, per_head, seed):
    x, delta, A, B, C, skip, state = scan_arguments(sum(pieces), lead, seed, n=n, d=d)
    front = lead[len(lead) - min(per_head, len(lead)) :]  # A and D for all heads alike, for each head, for each matrix
    draw = Inputs(seed + 1)
    A, skip = A * (0.5 + draw.uniform(*front, d, n)), skip + draw.normal(*front, d)
    outs, state_, parts = [], state, (y.split(pieces, dim=-2) for y in (x, delta, B, C))
    for x_p, delta_p, B_p, C_p in zip(*parts, strict=True):
        out, state_ = scan(x_p, delta_p, A, B_p, C_p, skip, state_)
        outs.append(out)
    got = torch.cat(outs, dim=-2)
    everywhere = [y.expand(*lead, *y.shape[len(front) :]) for y in (A, skip)]
    for at in np.ndindex(*lead):
        one = [y[at].numpy() for y in (x, delta, everywhere[0], B, C, everywhere[1], state)]
        want, end = scan_by_definition(*one)
        assert_close(got[at], torch.from_numpy(want), 1e-12)
        assert_close(state_[at], torch.from_numpy(end), 1e-12)


def test_the_gradients_of_the_scan_are_those_of_finite_differences():
    leaves = [y.requires_grad_() for y in scan_arguments(4, n=2, d=3)]
    assert torch.autograd.gradcheck(scan, leaves)
    x, delta, *rest = leaves
    raw = Inputs(8).normal(*delta.shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, raw, *rest: scan(x, raw, *rest, delta_softplus=True), [x, raw, *rest])


def test_softplus_inside_is_softplus_outside():
    x, _, A, B, C, *_ = scan_arguments(30)
    raw = 4 * Inputs(7).normal(*x.shape)
    want = selective_scan(x, torch.nn.functional.softplus(raw), A, B, C)
    assert_close(selective_scan(x, raw, A, B, C, delta_softplus=True), want, 1e-8)  # torch's is linear beyond 20
    decay = softplus_gate(raw[..., 0], 0.0, 0.0)  # the gate of the delta rules is the same thing
    assert_close(decay, -torch.nn.functional.softplus(raw[..., 0]), 1e-8)


def test_the_future_changes_no_bit_of_the_past_in_the_scan():
    x, delta, A, B, C, *_ = scan_arguments(129, dtype=torch.float32)
    x_other, delta_other, _, B_other, C_other, *_ = scan_arguments(129, seed=1, dtype=torch.float32)
    before = selective_scan(x, delta, A, B, C)
    for t in (1, 16, 17, 63, 64, 100, 128):
        for later in (1.0, math.nan):
            pairs = ((x, later * x_other), (delta, delta_other), (B, later * B_other), (C, later * C_other))
            x_, delta_, B_, C_ = (torch.cat((y[:, :t], z[:, t:]), dim=1) for y, z in pairs)
            after = selective_scan(x_, delta_, A, B_, C_)
            assert torch.equal(after[:, :t], before[:, :t])
            assert not torch.equal(after[:, t:], before[:, t:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_scan_computes_halves_in_fp32(dtype):
    x, delta, A, B, C, skip, _ = scan_arguments(65, dtype=dtype)
    state = scan_arguments(65, dtype=torch.float32)[-1]
    for delta_, A_, skip_ in ((delta, A, skip), (delta.float(), A.float(), skip.float())):
        out, end = scan(x, delta_, A_, B, C, skip_, state)
        assert selective_scan(x, delta_, A_, B, C).dtype == dtype
        soft = selective_scan(x, delta_, A_, B, C, delta_softplus=True)
        want = selective_scan(*(y.float() for y in (x, delta, A, B, C)), delta_softplus=True)
        assert torch.equal(soft, want.to(dtype))
        want, want_end = scan(*(y.float() for y in (x, delta, A, B, C, skip)), state)
        assert out.dtype == dtype and torch.equal(out, want.to(dtype))
        assert end.dtype == torch.float32 and torch.equal(end, want_end)


@pytest.mark.parametrize("size", [1e-15, 1e15])
def test_the_scan_scales_through(size):
    x, delta, A, B, C, skip, _ = scan_arguments(60, dtype=torch.float32)
    want = selective_scan(*(y.double() for y in (x, delta, A, B, C)), D=skip.double())
    assert_close(selective_scan(size * x, delta, A, B, C, D=skip), size * want, 3e-6)
    assert_close(selective_scan(x, delta, A, size * B, C / size, D=skip), want, 3e-6)
    assert_close(selective_scan(x / size, delta * size, A / size, B, C, D=size * skip), want, 3e-6)


def test_huge_and_zero_steps_forget_and_keep():
    x, delta, A, B, C, _, S = scan_arguments(3, dtype=torch.float32)
    y, kept = scan(x, 0 * delta, A, B, C, state=S)
    assert torch.equal(kept, S) and torch.equal(y, C @ S)
    y, new = scan(x, 0 * delta + 1e6, A, B, C, state=S)
    assert_close(new, 1e6 * B[:, -1:].mT @ x[:, -1:], 1e-6)
    assert_close(scan(x, delta, 0 * A, B, C, state=S)[1], S + B.mT @ (delta * x), 1e-6)


# --- the short convolution -------------------------------------------------------------------------------------------


def convolution_arguments(T, width, lead=(2,), seed=0, dtype=torch.float64, d=D):
    draw = Inputs(seed, dtype)
    return [draw.normal(*lead, T, d), draw.normal(d, width), draw.normal(*lead, width - 1, d)]


def convolve(x, weight, state=None):
    return short_convolution(x, weight, state=state, return_state=True)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("T", LENGTHS)
def test_the_short_convolution_is_torchs(T, width):
    x, weight, state = tensors = convolution_arguments(T, width)

    def torchs(x, weight, state):
        padded = torch.cat((state, x), dim=1)
        if not T:
            return x, padded
        out = torch.nn.functional.conv1d(padded.mT, weight.unsqueeze(1), groups=D).mT
        return out, padded[:, T:]

    for got, want in zip(convolve(*tensors), torchs(*tensors), strict=True):
        assert_close(got, want, 1e-14)
    assert_same_gradients(gradients(convolve, tensors), gradients(torchs, tensors), 1e-13, "x weight state")
    assert torch.equal(short_convolution(x, weight), short_convolution(x, weight, state=torch.zeros_like(state)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    pieces=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    width=st.integers(1, 6),
    lead=st.sampled_from([(), (1,), (2, 3), (0,)]),
    seed=st.integers(0, 99),
)
def test_any_split_of_any_convolution(pieces, width, lead, seed):
    x, weight, state = convolution_arguments(sum(pieces), width, lead, seed)
    whole, end = convolve(x, weight, state)
    outs = []
    for piece in x.split(pieces, dim=-2):
        out, state = convolve(piece, weight, state)
        outs.append(out)
    assert torch.equal(torch.cat(outs, dim=-2), whole) and torch.equal(state, end)


def test_the_convolution_sees_no_future_and_takes_halves():
    x, weight, state = convolution_arguments(20, 4, dtype=torch.float32)
    changed = torch.cat((x[:, :9], math.nan * x[:, 9:]), dim=1)
    assert torch.equal(short_convolution(changed, weight)[:, :9], short_convolution(x, weight)[:, :9])
    for dtype in (torch.bfloat16, torch.float16):
        for weight_ in (weight.to(dtype), weight):
            out, end = convolve(x.to(dtype), weight_, state)
            want, want_end = convolve(x.to(dtype).float(), weight_.float(), state)
            assert out.dtype == dtype and torch.equal(out, want.to(dtype))
            assert end.dtype == torch.float32 and torch.equal(end, want_end)


def test_the_state_of_the_convolution_is_not_a_view_of_all_tokens():
    x, weight, state = convolution_arguments(1000, 4)
    for T in (0, 1, 1000):
        _, end = convolve(x[:, :T], weight, state)
        assert end.untyped_storage().nbytes() == end.nbytes == state.nbytes
        assert end.data_ptr() not in (x.data_ptr(), state.data_ptr())


# --- bug reports -----------------------------------------------------------------------------------------------------


def test_report_exp_of_a_cumulative_gate_overflows():
    """fla-org/flash-linear-attention #701; MoonshotAI/FlashKDA #7; attention-gym #394; flashinfer #5032; tt-metal
    #56240: exp(-cumsum g) overflows. g = -20 for 16 tokens."""
    x, _, B, C, S = arguments(16, dtype=torch.float32)
    g = torch.full((2, 16), -20.0)
    want = run(recurrent_ssd)(*(y.double() for y in (x, g, B, C, S)))
    for chunk in (8, 16, 64):
        for got, wanted in zip(run(chunked_ssd, chunk=chunk)(x, g, B, C, S), want, strict=True):
            assert_close(got, wanted, 1e-6)


@pytest.mark.parametrize("strength", [-5.0, -100.0, -math.inf])
def test_report_gradient_of_a_masked_exponent_is_nan(strength):
    """huggingface/transformers #48455; fla naive_chunk_kda: NaN gradients of exp at masked positive exponents.
    g = -5 for 64 tokens."""
    x, _, B, C, S = arguments(64, dtype=torch.float32)
    tensors = [x, torch.full((2, 64), strength), B, C, S]
    for rule in RULES:
        got = gradients(run(rule), tensors)
        assert all(y.isfinite().all() for y in got)
        want = gradients(run(recurrent_ssd), [y.double() for y in tensors])
        assert_same_gradients(got, want, 1e-5, "x g B C state")


def test_report_softplus_by_where_has_nan_gradients():
    """fla #77; pytorch/pytorch #68425, #17455: where(x > 20, x, log(1 + exp(x))) has a NaN gradient at x = 100."""
    x, _, A, B, C, *_ = scan_arguments(3, lead=(), dtype=torch.float32)
    raw = torch.tensor([[100.0, -100.0, 0.0, 1000.0, 20.5]]).expand(3, 5)
    for y in gradients(lambda *tensors: scan(*tensors, delta_softplus=True), [x, raw, A, B, C]):
        assert y.isfinite().all()


def test_report_base_two_and_base_e_are_mixed():
    """sgl-project/sglang #31904: exp2 where exp was meant, in the chunk form only. g = -1 halves nothing, it keeps
    1/e."""
    one, zeros, g = torch.ones(1, 1).double(), torch.zeros(3, 1).double(), torch.full((3,), -1.0).double()
    for options in ({"chunk": 1}, {"chunk": 2}, {"chunk": 64}):
        _, state = ssd(zeros, zeros, zeros, g=g, state=one, return_state=True, **options)
        assert state.item() == pytest.approx(math.exp(-3))
    _, state = recurrent_ssd(zeros, zeros, zeros, g=g, state=one, return_state=True)
    assert state.item() == pytest.approx(math.exp(-3))


def test_report_gate_of_exactly_zero_and_of_minus_infinity():
    """fla #389, #104: alpha = 1 and alpha = 0, whose logarithm is -inf."""
    x, _, B, C, S = arguments(64)
    for rule in RULES:
        assert_close(run(rule)(x, torch.zeros(2, 64).double(), B, C, S)[1], S + B.mT @ x, 1e-13)
        out, state = run(rule)(x, torch.full((2, 64), -math.inf).double(), B, C, S)
        assert_close(out, (C * B).sum(-1, keepdim=True) * x, 1e-13)
        assert_close(state, B[:, -1:].mT @ x[:, -1:], 1e-13)


@pytest.mark.parametrize("T", [63, 65])
def test_report_final_state_of_a_ragged_chunk(T):
    """gittensor-ai-lab/sparkinfer #604; inclusionAI/cuLA #38: a wrong state where T is no multiple of the chunk."""
    tensors = arguments(T, "slow")
    want = run(recurrent_ssd)(*tensors)[1]
    for chunk in (16, 32, 64):
        assert_close(run(chunked_ssd, chunk=chunk)(*tensors)[1], want, 1e-13)


def test_report_carried_state_is_ignored_when_many_tokens_follow():
    """huggingface/transformers #45513; sparkinfer #1071: 40 tokens, then 24 more at once."""
    tensors = arguments(64, "slow")[:4]
    for rule in RULES:
        _, carried = run(rule)(*(y[:, :40] for y in tensors))
        out, _ = run(rule)(*(y[:, 40:] for y in tensors), carried)
        assert_close(out, run(rule)(*tensors)[0][:, 40:], 1e-13)
    x, delta, A, B, C, *_ = scan_arguments(64)
    _, carried = scan(x[:, :40], delta[:, :40], A, B[:, :40], C[:, :40])
    out, _ = scan(x[:, 40:], delta[:, 40:], A, B[:, 40:], C[:, 40:], state=carried)
    assert_close(out, selective_scan(x, delta, A, B, C)[:, 40:], 1e-13)


def test_report_sizes_are_read_after_the_transpose():
    """huggingface/transformers #41036, #40963: 7 tokens, 3 heads."""
    tensors = arguments(7, "slow", lead=(2, 3))
    want = gated_linear_attention(tensors[3], tensors[2], tensors[0], tensors[1], tensors[4])
    for rule in RULES:
        for got, wanted in zip(run(rule)(*tensors), want, strict=True):
            assert_close(got, wanted, 1e-13)


def test_report_padding_updates_the_state():
    """huggingface/transformers #47087; state-spaces/mamba #66: a batch of 9 and 6 tokens, padded on the left. A step of
    0, or no decay and nothing written, leaves the state alone."""
    x, delta, A, B, C, skip, _ = scan_arguments(9)
    pad = torch.tensor([[False] * 9, [True] * 3 + [False] * 6]).unsqueeze(-1)
    y, state = scan(x, delta.masked_fill(pad, 0.0), A, B, C, skip)
    alone, alone_state = scan(x[1, 3:], delta[1, 3:], A, B[1, 3:], C[1, 3:], skip)
    assert_close(y[1, 3:], alone, 1e-14)
    assert_close(state[1], alone_state, 1e-14)
    x, g, B, C, _ = arguments(9, "slow")
    g_pad, x_pad = g.masked_fill(pad.squeeze(-1), 0.0), x.masked_fill(pad, 0.0)
    for rule in RULES:
        y, state = run(rule)(x_pad, g_pad, B, C)
        alone, alone_state = run(rule)(x[1, 3:], g[1, 3:], B[1, 3:], C[1, 3:])
        assert_close(y[1, 3:], alone, 1e-14)
        assert_close(state[1], alone_state, 1e-14)


def test_report_negative_powers_of_a_ratio():
    """cpcp1998/PermuteFormer #2: ratio ** (-t) overflows. Ratio 0.9, 1000 tokens, all in one chunk."""
    x, _, B, C, S = arguments(1000, lead=(), dtype=torch.float32)
    g = torch.full((1000,), math.log(0.9))
    want = run(recurrent_ssd)(*(y.double() for y in (x, g, B, C, S)))
    for got, wanted in zip(run(chunked_ssd, chunk=1000)(x, g, B, C, S), want, strict=True):
        assert_close(got, wanted, 3e-6)


def test_report_softplus_of_the_step_is_missing():
    """alxndrTL/mamba.py #53; fla #90: a step of -3 before the softplus is one of 0.0486, and without it an error."""
    x, _, A, B, C, *_ = scan_arguments(5)
    raw = torch.full_like(x, -3.0)
    want = selective_scan(x, torch.full_like(x, math.log1p(math.exp(-3))), A, B, C)
    assert_close(selective_scan(x, raw, A, B, C, delta_softplus=True), want, 1e-14)
    with pytest.raises(ValueError, match="delta: got values from -3 to -3, want steps >= 0.*softplus"):
        selective_scan(x, raw, A, B, C)


def test_report_fewer_tokens_than_the_convolution_is_wide():
    """fla #1141, #1127: one token at a time through a convolution of four, with the past carried along."""
    x, weight, _ = convolution_arguments(9, 4)
    want, state = short_convolution(x, weight), None
    for t in range(9):
        out, state = convolve(x[:, t : t + 1], weight, state)
        assert state.shape == (2, 3, D)
        assert torch.equal(out, want[:, t : t + 1])
    assert torch.equal(state, x[:, -3:])
    _, state = convolve(x[:, :1], weight)
    assert torch.equal(state, torch.cat((torch.zeros(2, 2, D).double(), x[:, :1]), dim=1))


def test_report_half_precision_products_on_a_cpu():
    """pytorch/pytorch #146508, #83863: bf16 products on a CPU are slow and inexact, so none is taken in bf16."""
    tensors = arguments(256, "slow", dtype=torch.bfloat16)[:4]
    want = run(recurrent_ssd)(*(y.double() for y in tensors))[0].bfloat16()
    assert (run(ssd)(*tensors)[0] == want).double().mean() > 0.99


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG_SSD = {
    "x: a list": ("x", lambda a: a | {"x": [[1.0]]}),
    "x: integers": ("x", lambda a: a | {"x": a["x"].long()}),
    "x: a vector": ("x", lambda a: a | {"x": a["x"][0, 0]}),
    "x: no channels": ("x", lambda a: a | {"x": a["x"][..., :0]}),
    "g: T": ("g", lambda a: a | {"g": a["g"][:, 1:]}),
    "g: per channel": ("g", lambda a: a | {"g": a["g"].unsqueeze(-1).expand_as(a["B"])}),
    "g: one for all": ("g", lambda a: a | {"g": a["g"][:1]}),
    "g: growth": ("g", lambda a: a | {"g": a["g"] + 1.0}),
    "g: growth at one token": ("g", lambda a: a | {"g": torch.cat((a["g"][:, 1:], a["g"][:, :1] + 1.0), dim=1)}),
    "g: NaN": ("g", lambda a: a | {"g": a["g"] * math.nan}),
    "g: dtype": ("g", lambda a: a | {"g": a["g"].double()}),
    "g: a number": ("g", lambda a: a | {"g": -0.1}),
    "B: T": ("B", lambda a: a | {"B": a["B"][:, 1:]}),
    "B: one head for all": ("B", lambda a: a | {"B": a["B"][:1]}),
    "B: dtype": ("B", lambda a: a | {"B": a["B"].double()}),
    "B: a vector": ("B", lambda a: a | {"B": a["B"][0, 0]}),
    "C: rows": ("C", lambda a: a | {"C": a["C"][..., 1:]}),
    "C: dtype": ("C", lambda a: a | {"C": a["C"].bfloat16()}),
    "C: no rows": ("C", lambda a: a | {"C": a["C"][..., :0]}),
    "state: transposed": ("state", lambda a: a | {"state": a["state"].mT}),
    "state: heads": ("state", lambda a: a | {"state": a["state"][0]}),
    "state: dtype": ("state", lambda a: a | {"state": a["state"].bfloat16()}),
}


@pytest.mark.parametrize("wrong", WRONG_SSD)
def test_wrong_input_of_ssd_is_named(wrong):
    name, spoil = WRONG_SSD[wrong]
    x, g, B, C, state = arguments(8, "slow", dtype=torch.float32)
    right = {"x": x, "g": g, "B": B, "C": C, "state": state}
    for rule in RULES:
        rule(**right)
        with complains(name):
            rule(**spoil(right))


WRONG_SCAN = {
    "x: an array": ("x", lambda a: a | {"x": a["x"].numpy()}),
    "x: a vector": ("x", lambda a: a | {"x": a["x"][0, 0]}),
    "delta: per head": ("delta", lambda a: a | {"delta": a["delta"][..., 0]}),
    "delta: one channel": ("delta", lambda a: a | {"delta": a["delta"][..., :1]}),
    "delta: negative": ("delta", lambda a: a | {"delta": a["delta"] - 0.5}),
    "delta: NaN": ("delta", lambda a: a | {"delta": a["delta"] * math.nan}),
    "delta: infinite": ("delta", lambda a: a | {"delta": a["delta"] * math.inf}),
    "delta: dtype": ("delta", lambda a: a | {"delta": a["delta"].double()}),
    "delta: a number": ("delta", lambda a: a | {"delta": 0.1}),
    "A: transposed": ("A", lambda a: a | {"A": a["A"].mT}),
    "A: a vector": ("A", lambda a: a | {"A": a["A"][0]}),
    "A: heads": ("A", lambda a: a | {"A": a["A"].expand(3, D, N)}),
    "A: axis too many": ("A", lambda a: a | {"A": a["A"].expand(1, 2, D, N)}),
    "A: growth": ("A", lambda a: a | {"A": -a["A"]}),
    "A: slow growth of one channel": ("A", lambda a: a | {"A": torch.cat((a["A"][:-1], -0.01 * a["A"][-1:]))}),
    "A: infinite": ("A", lambda a: a | {"A": a["A"] * math.inf}),
    "A: NaN": ("A", lambda a: a | {"A": a["A"] * math.nan}),
    "A: complex": ("A", lambda a: a | {"A": a["A"] * 1j}),
    "A: dtype": ("A", lambda a: a | {"A": a["A"].double()}),
    "B: T": ("B", lambda a: a | {"B": a["B"][:, 1:]}),
    "B: rows": ("(A|C)", lambda a: a | {"B": a["B"][..., 1:]}),
    "C: rows": ("C", lambda a: a | {"C": a["C"][..., 1:]}),
    "D: channels": ("D", lambda a: a | {"D": a["D"][1:]}),
    "D: a number": ("D", lambda a: a | {"D": 1.0}),
    "D: a scalar": ("D", lambda a: a | {"D": a["D"][0]}),
    "D: axis too many": ("D", lambda a: a | {"D": a["D"].expand(1, 2, D)}),
    "D: dtype": ("D", lambda a: a | {"D": a["D"].double()}),
    "state: as in the paper": ("state", lambda a: a | {"state": a["state"].mT}),
    "state: dtype": ("state", lambda a: a | {"state": a["state"].double()}),
}


@pytest.mark.parametrize("wrong", WRONG_SCAN)
def test_wrong_input_of_the_scan_is_named(wrong):
    name, spoil = WRONG_SCAN[wrong]
    names = ("x", "delta", "A", "B", "C", "D", "state")
    right = dict(zip(names, scan_arguments(4, dtype=torch.float32), strict=True))
    selective_scan(**right)
    with complains(name):
        selective_scan(**spoil(right))


def test_other_wrong_input_is_named():
    x, weight, state = convolution_arguments(4, 3, dtype=torch.float32)
    for name, spoilt in (
        ("x", {"x": [[1.0]]}),
        ("x", {"x": x[0, 0]}),
        ("weight", {"weight": weight.mT}),
        ("weight", {"weight": weight.unsqueeze(1)}),
        ("weight", {"weight": weight[:, :0]}),
        ("weight", {"weight": weight.double()}),
        ("weight", {"weight": 1.0}),
        ("state", {"state": state[:, 1:]}),
        ("state", {"state": state[:1]}),
        ("state", {"state": state.bfloat16()}),
    ):
        with complains(name):
            short_convolution(**({"x": x, "weight": weight, "state": state} | spoilt))
    for g in ([-1.0], torch.zeros(3).long(), torch.tensor(-1.0), torch.tensor([-1.0, 0.1])):
        with complains("g"):
            semiseparable_mask(g)
    for chunk in (0, -1, 2.0, True):
        for rule in (ssd, chunked_ssd):
            with complains("chunk"):
                run(rule, chunk=chunk)(*arguments(8))


def test_steps_before_the_softplus_are_named_as_they_were_given():
    """Below infinity, that is: what was NaN or infinite is said, not its softplus; −∞ is a step of 0."""
    x, delta, A, B, C, _, state = scan_arguments(4, dtype=torch.float32)
    for wrong in (math.nan, math.inf):
        raw = delta.clone()
        raw[0, 1, 2], raw[1, 3, 4] = -3.0, wrong
        with pytest.raises(ValueError, match=f"^delta: got values from (-3|nan) to {wrong}, want numbers below ∞"):
            selective_scan(x, raw, A, B, C, delta_softplus=True)
    asleep = torch.full_like(delta, -math.inf)
    assert torch.equal(scan(x, asleep, A, B, C, state=state, delta_softplus=True)[1], state)


def test_states_of_half_inputs_are_fp32():
    """What comes back is fp32, and only that goes in: rounding a state at every call would add up."""
    *tensors, state = arguments(4, "slow", dtype=torch.bfloat16)
    for rule in RULES:
        with complains("state"):
            run(rule)(*tensors, state)
    with complains("state"):
        scan(*scan_arguments(4, dtype=torch.bfloat16))
    with complains("state"):
        convolve(*convolution_arguments(4, 3, dtype=torch.bfloat16))


def test_options_are_keywords():
    with pytest.raises(TypeError):
        ssd(*arguments(4)[:4])
    with pytest.raises(TypeError):
        selective_scan(*scan_arguments(4)[:6])
    with pytest.raises(TypeError):
        short_convolution(*convolution_arguments(4, 3))
