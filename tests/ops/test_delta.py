"""The delta rules: the recurrence against its matrices, the chunked form against the recurrence, both at the edges."""

import math

import numpy as np
import pytest
import torch

from attnledger.ops import delta
from attnledger.ops.delta import (
    bounded_gate,
    chunked_delta_rule,
    delta_rule,
    recurrent_delta_rule,
    softplus_gate,
)

from .matrix import (
    CHUNKS,
    LENGTHS,
    SPLITS,
    Inputs,
    assert_close,
    assert_same_gradients,
    complains,
    gradients,
    made_elsewhere,
    routes,
)

GATES = ("none", "head", "channel")
D_K, D_V = 6, 5


def arguments(T, gate, lead=(2,), d_k=D_K, d_v=D_V, seed=0, dtype=torch.float64):
    """q, k, v, beta, state and, with a gate, g: unit keys, beta in [0, 2], decays from 1 down to e^-800."""
    draw = Inputs(seed, dtype)
    q, k, v = draw.normal(*lead, T, d_k), draw.unit(*lead, T, d_k), draw.normal(*lead, T, d_v)
    beta, state = 2 * draw.uniform(*lead, T), draw.normal(*lead, d_k, d_v)
    if gate == "none":
        return [q, k, v, beta, state]
    shape = (*lead, T) if gate == "head" else (*lead, T, d_k)
    strengths = torch.tensor([0.0, 1.0, 1.0, 20.0, 800.0], dtype=dtype)
    g = -draw.uniform(*shape) * draw.choice(strengths, *shape)
    return [q, k, v, beta, state, g]


def run(rule, **options):
    """The rule as a function of its tensors alone, returning output and state."""

    def call(q, k, v, beta, state, g=None):
        return rule(q, k, v, beta=beta, g=g, state=state, return_state=True, **options)

    return call


def by_definition(q, k, v, beta, S, g, scale):
    """One head, with the matrices of the papers written out: S <- (I - beta k^T k) Diag(alpha) S + beta k^T v."""
    outputs = []
    for t in range(len(q)):
        alpha = np.ones(len(S)) if g is None else np.broadcast_to(np.exp(g[t]), len(S))
        erase = np.eye(len(S)) - beta[t] * np.outer(k[t], k[t])
        S = erase @ np.diag(alpha) @ S + beta[t] * np.outer(k[t], v[t])
        outputs.append(scale * q[t] @ S)
    return np.array(outputs).reshape(len(q), v.shape[1]), S


@pytest.mark.parametrize("gate", GATES)
def test_the_recurrence_is_the_definition(gate):
    tensors = arguments(20, gate, lead=())
    out, state = run(recurrent_delta_rule, scale=0.7)(*tensors)
    q, k, v, beta, S, *g = (x.numpy() for x in tensors)
    want_out, want_state = by_definition(q, k, v, beta, S, g[0] if g else None, 0.7)
    assert_close(out, torch.from_numpy(want_out), 1e-13)
    assert_close(state, torch.from_numpy(want_state), 1e-13)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("T", LENGTHS)
def test_chunks_are_the_recurrence_gradients_included(T, gate):
    tensors = arguments(T, gate)
    names = "q k v beta state g"[: None if gate != "none" else -2]
    recurrence = run(recurrent_delta_rule, scale=0.7)
    want, want_gradients = recurrence(*tensors), gradients(recurrence, tensors)
    for chunk in CHUNKS:
        chunked = run(chunked_delta_rule, scale=0.7, chunk=chunk)
        for got, wanted in zip(chunked(*tensors), want, strict=True):
            assert_close(got, wanted, 1e-12, f"chunk {chunk}")
        assert_same_gradients(gradients(chunked, tensors), want_gradients, 1e-11, names)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("T", LENGTHS)
def test_the_state_carries_over_any_split(T, gate):
    q, k, v, beta, state, *g = arguments(T, gate)
    for rule in (recurrent_delta_rule, chunked_delta_rule, delta_rule):
        whole, end = run(rule)(q, k, v, beta, state, *g)
        for split in (s for s in SPLITS if s <= T):
            first, carried = run(rule)(*(x[:, :split] for x in (q, k, v, beta)), state, *(x[:, :split] for x in g))
            second, last = run(rule)(*(x[:, split:] for x in (q, k, v, beta)), carried, *(x[:, split:] for x in g))
            assert_close(torch.cat((first, second), dim=1), whole, 1e-12, f"split at {split}")
            assert_close(last, end, 1e-12, f"state after a split at {split}")


def test_segments_carry_the_state():
    """Longer than one segment, and not a multiple of one."""
    tensors = arguments(1100, "channel", lead=())
    for got, want in zip(run(delta_rule)(*tensors), run(recurrent_delta_rule)(*tensors), strict=True):
        assert_close(got, want, 1e-11)


@pytest.mark.parametrize("gate", GATES)
def test_every_head_is_its_own_matrix(gate):
    tensors = arguments(40, gate, lead=(2, 3))
    together = run(delta_rule)(*tensors)
    for b in range(2):
        for h in range(3):
            alone = run(delta_rule)(*(x[b, h] for x in tensors))
            for got, want in zip(together, alone, strict=True):
                assert_close(got[b, h], want, 1e-13)
    assert run(delta_rule)(*(x[:0] for x in tensors))[0].shape == (0, 3, 40, D_V)


def test_strided_inputs_are_read_right():
    """Kernels' layout (B, T, h, d), transposed."""
    q, k, v, beta, state, g = arguments(40, "channel", lead=(2, 3))
    moved = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v, beta)]
    got = run(delta_rule)(*moved, state, g.transpose(1, 2).contiguous().transpose(1, 2))
    for a, b in zip(got, run(delta_rule)(q, k, v, beta, state, g), strict=True):
        assert_close(a, b, 1e-13)


# --- precision: fp32 against the fp64 recurrence, a tolerance for each case -------------------------------------------

KEYS = ("random", "near-identical", "identical")
LOG_DECAYS = {"0": 0.0, "-0.01": -0.01, "-5": -5.0, "-20": -20.0, "-100": -100.0, "mixed": None, "-inf": -math.inf}


def hard_case(keys, beta, decay, gate, T=512, d=32, dtype=torch.float32):
    draw = Inputs(3, dtype)
    q, v = draw.normal(2, T, d) * d**-0.5, draw.normal(2, T, d)
    k = draw.normal(2, T if keys == "random" else 1, d).expand(2, T, d)
    if keys == "near-identical":
        k = k + 0.1 * draw.normal(2, T, d)
    k = torch.nn.functional.normalize(k, dim=-1)
    shape = (2, T) if gate == "head" else (2, T, d)
    mixed = torch.tensor([0.0, -0.003, -0.7, -200.0], dtype=dtype)
    g = draw.choice(mixed, *shape) if decay is None else torch.full(shape, decay, dtype=dtype)
    return [q, k, v, torch.full((2, T), float(beta), dtype=dtype), torch.zeros(2, d, d, dtype=dtype), g]


@pytest.mark.parametrize("gate", ["head", "channel"])
@pytest.mark.parametrize("decay", LOG_DECAYS)
def test_no_decay_overflows_and_fp32_keeps_its_digits(decay, gate):
    """Only repeated keys at beta 2 with hardly any decay are ill-conditioned; they alone get a wide tolerance."""
    for keys in KEYS:
        for beta in (0, 1, 2):
            tensors = hard_case(keys, beta, LOG_DECAYS[decay], gate)
            got = run(chunked_delta_rule)(*tensors)
            want = run(recurrent_delta_rule)(*(x.double() for x in tensors))
            ill = beta == 2 and keys != "random" and decay in ("0", "-0.01")
            for a, b in zip(got, want, strict=True):
                assert_close(a, b, 5e-4 if ill else 3e-6, f"{keys} keys, beta {beta}")


@pytest.mark.parametrize("gate", ["head", "channel"])
@pytest.mark.parametrize("decay", LOG_DECAYS)
def test_gradients_at_every_decay_are_finite_and_right(decay, gate):
    for keys in KEYS:
        for beta in (0, 1, 2):
            tensors = hard_case(keys, beta, LOG_DECAYS[decay], gate, T=64, d=8, dtype=torch.float64)
            got = gradients(run(chunked_delta_rule), tensors)
            assert_same_gradients(got, gradients(run(recurrent_delta_rule), tensors), 1e-9, "q k v beta state g")


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_values_of_any_size_scale_through(size):
    q, k, v, beta, state, g = arguments(65, "channel", dtype=torch.float32)
    out, end = run(delta_rule)(q, k, size * v, beta, size * state, g)
    want, want_end = run(recurrent_delta_rule)(*(x.double() for x in (q, k, v, beta, state, g)))
    assert_close(out, size * want, 3e-6)
    assert_close(end, size * want_end, 3e-6)


def test_sums_of_strong_decays_do_not_swallow_weak_ones():
    """After g = -300 in every other token a cumulative sum in fp32 has lost the 0.001 between neighbours."""
    q, k, v, beta, state, _ = arguments(64, "head", dtype=torch.float32)
    g = torch.tensor([-300.0, -0.001, -0.002, -0.0005], dtype=torch.float32).repeat(2, 16)
    for gate in (g, g.unsqueeze(-1).expand(2, 64, D_K)):
        want, _ = run(recurrent_delta_rule)(*(x.double() for x in (q, k, v, beta, state, gate)))
        assert_close(run(chunked_delta_rule, chunk=64)(q, k, v, beta, state, gate)[0], want, 1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gate", GATES)
def test_half_inputs_are_computed_in_fp32(gate, dtype):
    q, k, v, beta, state, *g = arguments(65, gate, dtype=dtype)
    state = state.float()
    for rule in (recurrent_delta_rule, chunked_delta_rule):
        out, end = run(rule)(q, k, v, beta, state, *g)
        want, want_end = run(rule)(*(x.float() for x in (q, k, v, beta, state, *g)))
        assert out.dtype == dtype and end.dtype == torch.float32
        assert rule(q, k, v, beta=beta).dtype == dtype
        assert torch.equal(out, want.to(dtype)) and torch.equal(end, want_end)
    gates_in_fp32 = run(chunked_delta_rule)(q, k, v, beta.float(), state, *(x.float() for x in g))
    assert torch.equal(gates_in_fp32[0], out)
    assert all(x.isfinite().all() for x in gradients(run(delta_rule), [q, k, v, beta, state, *g]))


@pytest.mark.parametrize("gate", GATES)
def test_the_future_changes_no_bit_of_the_past(gate):
    q, k, v, beta, state, *g = arguments(129, gate, dtype=torch.float32)
    other = arguments(129, gate, dtype=torch.float32, seed=1)
    for rule in (
        run(recurrent_delta_rule),
        run(chunked_delta_rule, chunk=16),
        run(chunked_delta_rule, chunk=48),
        run(delta_rule),
    ):
        before = rule(q, k, v, beta, state, *g)[0]
        for t in (1, 16, 17, 63, 64, 100, 128):
            changed = [
                torch.cat((x[:, :t], 3 * y[:, t:]), dim=1)
                for x, y in zip((q, k, v, beta, *g), other[:4] + other[5:], strict=True)
            ]
            after = rule(*changed[:4], state, *changed[4:])[0]
            assert torch.equal(after[:, :t], before[:, :t])
            assert not torch.equal(after[:, t:], before[:, t:])


# --- what the rule means ---------------------------------------------------------------------------------------------


def test_beta_one_recovers_the_last_write():
    keys, values = torch.eye(2)[[0, 1, 0]], torch.tensor([[1.0, 0.0], [5.0, 5.0], [0.0, 3.0]])
    for rule in (recurrent_delta_rule, chunked_delta_rule):
        out = rule(torch.eye(2)[[0, 0, 0]], keys, values, beta=torch.ones(3))
        assert out.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]]


def test_beta_zero_writes_nothing():
    q, k, v, beta, state = arguments(33, "none")
    out, end = run(delta_rule)(q, k, v, 0 * beta, state)
    assert torch.equal(end, state)
    assert_close(out, q @ state, 1e-14)


def test_decay_comes_before_erase_and_write():
    """Written at full strength in this very token, a value is read back undecayed."""
    k, v = torch.eye(1), torch.full((1, 1), 3.0)
    out = recurrent_delta_rule(k, k, v, beta=torch.ones(1), g=torch.full((1,), -2.0), state=torch.full((1, 1), 7.0))
    assert out.item() == 3.0


def test_one_decay_for_all_channels_is_the_gated_delta_rule():
    *tensors, g = arguments(65, "head")
    per_channel = g.unsqueeze(-1).expand(2, 65, D_K)
    for a, b in zip(run(delta_rule)(*tensors, per_channel), run(delta_rule)(*tensors, g), strict=True):
        assert_close(a, b, 1e-12)


@pytest.mark.parametrize("T", [1, 4, 5, 40])
def test_the_dispatcher_takes_either_form(T):
    tensors = arguments(T, "channel")
    for chunk in (None, 1, 16):
        for a, b in zip(run(delta_rule, chunk=chunk)(*tensors), run(recurrent_delta_rule)(*tensors), strict=True):
            assert_close(a, b, 1e-12)
    q, k, v, beta, state, g = tensors
    assert torch.equal(delta_rule(q, k, v, beta=beta), run(delta_rule)(q, k, v, beta, torch.zeros_like(state))[0])


def test_up_to_four_tokens_go_by_recurrence_and_more_by_chunks_of_32(monkeypatch):
    taken = routes(monkeypatch, delta, "recurrent_delta_rule", "chunked_delta_rule")
    for T, chunk in ((1, None), (4, None), (5, None), (4, 7), (5, 7)):
        q, k, v, beta, _ = arguments(T, "none")
        delta_rule(q, k, v, beta=beta, chunk=chunk)
    assert taken == [("recurrent", None), ("recurrent", None), ("chunked", 32), ("chunked", 7), ("chunked", 7)]


@pytest.mark.parametrize("scale", [2.0, 0.25])
def test_the_scale_multiplies_the_queries(scale):
    q, k, v, beta, _ = arguments(9, "none")
    for rule in (recurrent_delta_rule, chunked_delta_rule, delta_rule):
        assert torch.equal(rule(q, k, v, beta=beta, scale=scale), rule(scale * q, k, v, beta=beta))


@pytest.mark.parametrize("d_k", [1, 2])
def test_few_channels_with_decays_of_their_own(d_k):
    tensors = arguments(21, "channel", d_k=d_k)
    for chunk in (2, 8):
        got, want = run(chunked_delta_rule, chunk=chunk)(*tensors), run(recurrent_delta_rule)(*tensors)
        for a, b in zip(got, want, strict=True):
            assert_close(a, b, 1e-12)


@pytest.mark.parametrize("gate", GATES)
def test_states_and_gates_are_made_where_the_tensors_are(gate):
    q, k, v, beta, _, *g = arguments(20, gate)
    gates = {"beta": beta, "g": g[0] if g else None}
    for rule in (recurrent_delta_rule, chunked_delta_rule):
        want = rule(q, k, v, **gates)
        with made_elsewhere():
            assert torch.equal(rule(q, k, v, **gates), want)
            assert softplus_gate(beta, 0.5, -0.5).device == bounded_gate(beta, 0.5).device == beta.device


@pytest.mark.parametrize("gate", GATES)
def test_a_huge_key_does_not_reach_the_tokens_before_it(gate):
    """A query, or the key itself, on a key that is not yet there: a score that overflows, and 0 times it is NaN."""
    q, k, v, beta, state, *g = arguments(8, gate, dtype=torch.float32)
    q[:, 0], k[:, 5], beta[:, 5] = 1e20, 1e20, 0.0  # the key writes nothing, so the tokens after it are ordinary too

    def before(rule, dtype=torch.float32):
        return gradients(lambda *tensors: run(rule)(*tensors)[0][:, :5],
                         [x.to(dtype) for x in (q, k, v, beta, state, *g)])  # fmt: skip

    want = run(recurrent_delta_rule)(*(x.double() for x in (q, k, v, beta, state, *g)))
    for rule in (delta_rule, chunked_delta_rule, recurrent_delta_rule):
        out, end = run(rule)(q, k, v, beta, state, *g)
        assert_close(out[:, 0], want[0][:, 0], 3e-6)
        assert_close(out[:, 1:], want[0][:, 1:], 3e-6)
        assert_close(end, want[1], 3e-6)
        names = "q k v beta state g"[: None if g else -2]
        assert_same_gradients(before(rule), before(recurrent_delta_rule, torch.float64), 3e-6, names)


@pytest.mark.parametrize("gate", GATES)
def test_the_state_after_no_token_is_a_copy(gate):
    q, k, v, beta, state, *g = arguments(0, gate)
    for rule in (delta_rule, recurrent_delta_rule, chunked_delta_rule):
        _, end = run(rule)(q, k, v, beta, state, *g)
        assert torch.equal(end, state)
        end.zero_()
        assert state.all()


def test_without_a_gate_the_rule_is_vmapped_and_traced():
    """No number is looked at, so none is needed: neither one for all of a batch nor any at all."""
    q, k, v, beta, _ = arguments(40, "none", lead=(3, 2))
    for rule in (delta_rule, recurrent_delta_rule, chunked_delta_rule):
        mapped = torch.vmap(lambda q, k, v, beta, rule=rule: rule(q, k, v, beta=beta))(q, k, v, beta)
        assert_close(mapped, rule(q, k, v, beta=beta), 1e-13)
        traced = rule(*(x.to("meta") for x in (q, k, v)), beta=beta.to("meta"))
        assert traced.device.type == "meta" and traced.shape == (3, 2, 40, D_V)


# --- gates -----------------------------------------------------------------------------------------------------------


def test_softplus_gate_is_its_formula():
    z = torch.linspace(-30, 30, 25, dtype=torch.float64)
    want = [-math.exp(0.3) * math.log1p(math.exp(x + 0.2)) for x in z.tolist()]
    assert_close(softplus_gate(z, 0.3, 0.2), torch.tensor(want, dtype=torch.float64), 1e-15)
    assert softplus_gate(torch.tensor(-30.0), 0.0, 0.0).item() == pytest.approx(-math.exp(-30), rel=1e-6, abs=0)


def test_gates_of_halves_are_computed_in_fp32():
    z, parameter = Inputs().normal(50).bfloat16(), torch.tensor([0.3]).bfloat16()
    for gate in (lambda z, x: softplus_gate(z, x, 0.2), lambda z, x: softplus_gate(z, 0.3, x), bounded_gate):
        for x in (0.3, torch.tensor([0.3])):
            assert torch.equal(gate(z, x), gate(z.float(), x).bfloat16())
        assert torch.equal(gate(z, parameter), gate(z.float(), parameter.float()).bfloat16())


def test_gate_parameters_name_their_axes():
    draw = Inputs()
    z, a_log, dt_bias = draw.normal(2, 3, 7, 4), draw.normal(1, 3, 1, 1), draw.normal(1, 3, 1, 4)
    g = softplus_gate(z, a_log, dt_bias)
    assert_close(g[1, 2, 5], softplus_gate(z[1, 2, 5], a_log[0, 2, 0, 0], dt_bias[0, 2, 0]), 1e-15)
    assert_close(bounded_gate(z, a_log)[1, 2], bounded_gate(z[1, 2], a_log[0, 2]), 1e-15)
    assert softplus_gate(z.bfloat16(), a_log.float(), dt_bias.bfloat16()).dtype == torch.bfloat16
    for bad in (a_log[0], a_log.expand(2, 3, 2, 1), draw.normal(3)):
        with complains("a_log"):
            bounded_gate(z, bad)
        with complains("dt_bias"):
            softplus_gate(z, 0.0, bad)
    with complains("a_log"):
        softplus_gate(z, a_log.half(), 0.0)
    with complains("z"):
        bounded_gate(torch.ones(3, dtype=torch.int64), 0.0)
    for bound in (0.0, 1.0, -math.inf, math.nan, None, "-5", -5j, [-5.0], torch.tensor(-5.0)):
        with complains("lower_bound"):
            bounded_gate(z, 0.0, bound)
    assert torch.equal(bounded_gate(z, 0.0, np.float32(-5)), bounded_gate(z, np.float64(0.0), -5))


NO_PARAMETERS = [[0.0, 1.0], np.zeros(3), None, 1j, True, "0", math.nan, math.inf]
NO_PARAMETERS += [torch.tensor(x) for x in (0, True, 1j)]
NO_PARAMETERS += [torch.tensor(0.0, dtype=torch.float64), torch.tensor(0.0).half(), torch.tensor(0.0, device="meta")]


@pytest.mark.parametrize("wrong", NO_PARAMETERS, ids=repr)
def test_wrong_gate_parameters_are_named(wrong):
    z = torch.zeros(3)
    for gate in (lambda: bounded_gate(z, wrong), lambda: softplus_gate(z, wrong, 0.0)):
        with complains("a_log"):
            gate()
    with complains("dt_bias"):
        softplus_gate(z, 0.0, wrong)


@pytest.mark.parametrize(("dtype", "large"), [(torch.float32, 89.0), (torch.float64, 710.0)])
def test_no_parameter_makes_a_gate_nan(dtype, large):
    """e^89 is infinite in fp32, and infinity times 0 is NaN."""
    z, a_log = torch.tensor([0.0, -1e4], dtype=dtype), torch.tensor([large], dtype=dtype)
    for parameter in (large, a_log):
        assert bounded_gate(z, parameter)[0].item() == -2.5
        assert softplus_gate(z, parameter, 0.0)[1].item() == 0.0
    for gate in (bounded_gate, lambda z, a_log: softplus_gate(z, a_log, 0.0)):
        assert all(x.isfinite().all() for x in gradients(gate, [z, a_log]))
    a_log = torch.tensor(math.floor(large) - 1.0, dtype=dtype)  # the largest whole one below is taken as it is
    assert softplus_gate(z, a_log, 0.0)[0] == -a_log.exp() * math.log(2)


# --- bug reports -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", ["head", "channel"])
def test_report_inverse_of_the_cumulative_decay_overflows(gate):
    """fla-org/flash-linear-attention #701, MoonshotAI/FlashKDA #7, flashinfer-ai/flashinfer #5032: e^320 in fp32."""
    tensors = hard_case("random", 1, -20.0, gate, T=16)
    got, want = run(chunked_delta_rule)(*tensors), run(recurrent_delta_rule)(*(x.double() for x in tensors))
    assert_close(got[0], want[0], 3e-6)


@pytest.mark.parametrize("gate", ["head", "channel"])
def test_report_gradient_of_a_masked_positive_exponent_is_nan(gate):
    """huggingface/transformers #48455: g = -5, T = 64, backward."""
    tensors = hard_case("random", 1, -5.0, gate, T=64)
    got = gradients(run(chunked_delta_rule, chunk=64), tensors)
    want = gradients(run(recurrent_delta_rule), [x.double() for x in tensors])
    assert_same_gradients(got, want, 1e-5, "q k v beta state g")


def test_report_gradient_of_a_hand_written_softplus_is_nan():
    """fla-org/flash-linear-attention #77, pytorch/pytorch #68425: exp overflows in the branch not taken."""
    for dtype in (torch.float32, torch.float64):
        z = torch.tensor([-1000.0, -100.0, 0.0, 89.0, 100.0, 1000.0], dtype=dtype, requires_grad=True)
        (slope,) = torch.autograd.grad(softplus_gate(z, 0.0, 0.0).sum(), z)
        assert_close(slope, -torch.sigmoid(z.detach()), 1e-6)


def test_report_midpoint_reference_is_not_causal():
    """meta-pytorch/attention-gym #337: a later gate changes the rounding of an earlier output."""
    q, k, v, beta, state, g = hard_case("random", 1, -3.0, "channel", T=16)
    before = run(chunked_delta_rule, chunk=16)(q, k, v, beta, state, g)[0]
    for t in range(1, 16):
        later = g.clone()
        later[:, t:] = -0.5
        assert torch.equal(run(chunked_delta_rule, chunk=16)(q, k, v, beta, state, later)[0][:, :t], before[:, :t])


def test_report_gate_read_as_a_power_of_two():
    """sgl-project/sglang #31904: exp and exp2 mixed, so chunks and recurrence disagree at g = -1."""
    one = torch.ones(1, 1)
    for g in (torch.full((1,), -1.0), torch.full((1, 1), -1.0)):
        for rule in (recurrent_delta_rule, chunked_delta_rule):
            out = rule(one, one, one, beta=torch.zeros(1), g=g, state=one)
            assert out.item() == pytest.approx(math.exp(-1), rel=1e-6)


def test_report_lower_bound_is_a_sigmoid_not_a_clamp():
    """lightseekorg/tokenspeed #847, ggml-org/llama.cpp #26185: z = 0 gives half the bound."""
    assert bounded_gate(torch.zeros(1), 0.0).item() == -2.5
    assert bounded_gate(torch.tensor([100.0]), 0.0, -4.0).item() == -4.0


@pytest.mark.parametrize("gate", ["head", "channel"])
def test_report_decay_of_exactly_one_or_zero(gate):
    """fla-org/flash-linear-attention #389, #104: alpha = 1 all along, and alpha = 0, whose logarithm is -inf."""
    q, k, v, beta, state, g = arguments(64, gate)
    for a, b in zip(run(delta_rule)(q, k, v, beta, state, 0 * g), run(delta_rule)(q, k, v, beta, state), strict=True):
        assert_close(a, b, 1e-12)
    g[:, 37] = -math.inf
    fresh = run(recurrent_delta_rule)(*(x[:, 37:] for x in (q, k, v, beta)), 0 * state, g[:, 37:].clamp(min=-1e4))
    for rule in (run(recurrent_delta_rule), run(chunked_delta_rule, chunk=64), run(chunked_delta_rule, chunk=16)):
        out, end = rule(q, k, v, beta, state, g)
        assert_close(out[:, 37:], fresh[0], 1e-12)
        assert_close(end, fresh[1], 1e-12)
        assert all(x.isfinite().all() for x in gradients(rule, [q, k, v, beta, state, g]))


def test_report_wy_form_breaks_on_repeated_keys():
    """fla-org/flash-linear-attention #99: identical unit keys, beta = 2, 64 of them; a Neumann series is lost here."""
    tensors = hard_case("identical", 2, 0.0, "head", T=64)
    want = run(recurrent_delta_rule)(*(x.double() for x in tensors))
    for a, b in zip(run(chunked_delta_rule, chunk=64)(*tensors), want, strict=True):
        assert_close(a, b, 5e-4)
    tensors = [x.double() for x in tensors]
    for a, b in zip(run(chunked_delta_rule, chunk=64)(*tensors), want, strict=True):
        assert_close(a, b, 1e-12)


@pytest.mark.parametrize("T", [63, 65])
def test_report_final_state_of_a_broken_chunk(T):
    """gittensor-ai-lab/sparkinfer #604, inclusionAI/cuLA #38: the state is wrong when the chunk does not divide T."""
    tensors = arguments(T, "channel")
    got, want = run(chunked_delta_rule, chunk=64)(*tensors)[1], run(recurrent_delta_rule)(*tensors)[1]
    assert_close(got, want, 1e-12)


def test_report_carried_state_is_ignored_by_many_tokens():
    """huggingface/transformers #45513, sparkinfer #1071: 40 tokens and then 24 are 64."""
    q, k, v, beta, state, g = arguments(64, "head")
    whole = run(delta_rule)(q, k, v, beta, state, g)[0]
    _, carried = run(delta_rule)(*(x[:, :40] for x in (q, k, v, beta)), state, g[:, :40])
    rest, _ = run(delta_rule)(*(x[:, 40:] for x in (q, k, v, beta)), carried, g[:, 40:])
    assert_close(rest, whole[:, 40:], 1e-12)


def test_report_heads_and_tokens_are_swapped():
    """huggingface/transformers #41036, #40963: sizes unpacked after the transpose; T = 7 beside 3 heads."""
    tensors = arguments(7, "head", lead=(1, 3))
    out, end = run(delta_rule)(*tensors)
    assert out.shape == (1, 3, 7, D_V) and end.shape == (1, 3, D_K, D_V)
    assert_close(out[0, 1], run(recurrent_delta_rule)(*(x[0, 1] for x in tensors))[0], 1e-12)


def test_report_padding_writes_into_the_state():
    """huggingface/transformers #47087, state-spaces/mamba #66: left padding with beta = 0, g = 0 leaves no trace."""
    q, k, v, beta, state, g = arguments(40, "channel")
    padding = arguments(9, "channel", seed=5)
    padded = [torch.cat((a, b), dim=1) for a, b in zip(padding[:3], (q, k, v), strict=True)]
    silent = torch.nn.functional.pad(beta, (9, 0)), state, torch.nn.functional.pad(g, (0, 0, 9, 0))
    out, end = run(delta_rule)(*padded, *silent)
    want, want_end = run(delta_rule)(q, k, v, beta, state, g)
    assert_close(out[:, 9:], want, 1e-12)
    assert_close(end, want_end, 1e-12)


def test_report_unnormalised_keys_diverge():
    """randn keys of 128 channels, beta = 1: a hundredfold per token, in both forms; unit keys do not."""
    draw = Inputs()
    q, k, v = (draw.normal(12, 128) for _ in range(3))
    ones = torch.ones(12, dtype=torch.float64)
    wild = recurrent_delta_rule(q, k, v, beta=ones)
    assert wild[-1].abs().max() > 1e8
    assert_close(chunked_delta_rule(q, k, v, beta=ones), wild, 1e-6)
    tame = recurrent_delta_rule(q, torch.nn.functional.normalize(k, dim=-1), v, beta=ones)
    assert tame.abs().max() < 100


def test_report_half_precision_products_on_a_cpu():
    """pytorch/pytorch #146508, #83863: bf16 products on a CPU are slow and inexact, so none is taken in bf16."""
    tensors = [x.bfloat16() for x in hard_case("random", 1, -0.01, "head", T=256)]
    out, _ = run(delta_rule)(*tensors[:4], tensors[4].float(), tensors[5])
    want, _ = run(recurrent_delta_rule)(*(x.double() for x in tensors))
    assert_close(out, want.bfloat16(), 2**-7)
    assert (out == want.bfloat16()).double().mean() > 0.99


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG = {
    "q: a list": ("q", lambda a: a | {"q": [[1.0]]}),
    "q: integers": ("q", lambda a: a | {"q": a["q"].long()}),
    "q: a vector": ("q", lambda a: a | {"q": a["q"][0, 0]}),
    "q: no channels": ("q", lambda a: a | {"q": a["q"][..., :0]}),
    "k: a vector": ("k", lambda a: a | {"k": a["k"][0, 0]}),
    "v: a vector": ("v", lambda a: a | {"v": a["v"][0, 0]}),
    "k: T": ("k", lambda a: a | {"k": a["k"][:, 1:]}),
    "k: d_k": ("k", lambda a: a | {"k": a["k"][..., 1:]}),
    "k: one head for all": ("k", lambda a: a | {"k": a["k"][:1]}),
    "k: dtype": ("k", lambda a: a | {"k": a["k"].double()}),
    "v: T": ("v", lambda a: a | {"v": a["v"][:, 1:]}),
    "v: heads": ("v", lambda a: a | {"v": a["v"][:1]}),
    "v: dtype": ("v", lambda a: a | {"v": a["v"].bfloat16()}),
    "v: no channels": ("v", lambda a: a | {"v": a["v"][..., :0]}),
    "beta: a number": ("beta", lambda a: a | {"beta": 1.0}),
    "beta: axis too many": ("beta", lambda a: a | {"beta": a["beta"].unsqueeze(-1)}),
    "beta: one for all": ("beta", lambda a: a | {"beta": a["beta"][:, :1]}),
    "beta: dtype": ("beta", lambda a: a | {"beta": a["beta"].double()}),
    "g: T": ("g", lambda a: a | {"g": a["g"][:, 1:]}),
    "g: channels": ("g", lambda a: a | {"g": a["g"][..., 1:]}),
    "g: one channel": ("g", lambda a: a | {"g": a["g"][..., :1]}),
    "g: growth": ("g", lambda a: a | {"g": a["g"] + 1e-3}),
    "g: growth at one token": ("g", lambda a: a | {"g": torch.cat((a["g"][:, 1:] - 1, a["g"][:, :1] + 1e-3), dim=1)}),
    "g: NaN": ("g", lambda a: a | {"g": a["g"] * math.nan}),
    "g: dtype": ("g", lambda a: a | {"g": a["g"].double()}),
    "state: shape": ("state", lambda a: a | {"state": a["state"].mT}),
    "state: heads": ("state", lambda a: a | {"state": a["state"][0]}),
    "state: dtype": ("state", lambda a: a | {"state": a["state"].bfloat16()}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_named(wrong):
    name, spoil = WRONG[wrong]
    q, k, v, beta, state, g = arguments(8, "channel", dtype=torch.float32)
    right = {"q": q, "k": k, "v": v, "beta": beta, "state": state, "g": torch.zeros_like(g)}
    for rule in (delta_rule, recurrent_delta_rule, chunked_delta_rule):
        rule(**right)
        with complains(name):
            rule(**spoil(right))


def test_numbers_may_come_from_numpy():
    q, k, v, beta, *_ = arguments(20, "none")
    for rule in (delta_rule, chunked_delta_rule):
        got = rule(q, k, v, beta=beta, chunk=np.int8(7), scale=np.float32(0.5))
        assert torch.equal(got, rule(q, k, v, beta=beta, chunk=7, scale=0.5))


@pytest.mark.parametrize("scale", [None, "2", True, 1j, math.nan, math.inf, torch.tensor(2.0), np.ones(2)], ids=repr)
def test_a_scale_is_a_finite_number(scale):
    q, k, v, beta, *_ = arguments(8, "none")
    for rule in (delta_rule, recurrent_delta_rule, chunked_delta_rule):
        with complains("scale"):
            rule(q, k, v, beta=beta, scale=scale)


def test_wrong_chunk_and_positional_gates_are_refused():
    q, k, v, beta, *_ = arguments(8, "none")
    for chunk in (0, -1, 2.0, True):
        for rule in (delta_rule, chunked_delta_rule):
            with complains("chunk"):
                rule(q, k, v, beta=beta, chunk=chunk)
    with pytest.raises(TypeError):
        delta_rule(q, k, v, beta)
