"""Linear attention: the recurrence against sums over all pairs, the chunked form against the recurrence, the maps."""

import math

import numpy as np
import pytest
import torch

from attnledger.ops import linear
from attnledger.ops.linear import (
    chunked_linear_attention,
    elu_plus_one,
    favor_plus,
    identity,
    linear_attention,
    recurrent_linear_attention,
    relu,
)
from attnledger.ops.softmax import attention

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

D, D_V = 6, 5
KINDS = {"elu_plus_one": (elu_plus_one, True), "relu": (relu, True), "identity": (identity, False)}
RULES = (recurrent_linear_attention, chunked_linear_attention, linear_attention)


def arguments(T, lead=(2,), seed=0, dtype=torch.float64):
    draw = Inputs(seed, dtype)
    return [draw.normal(*lead, T, D), draw.normal(*lead, T, D), draw.normal(*lead, T, D_V)]


def entering(lead=(2,), features=D, dtype=torch.float64):
    """A state as positive features leave it: S and z."""
    draw = Inputs(11, dtype)
    return [draw.normal(*lead, features, D_V), draw.uniform(*lead, features)]


def run(rule, kind, **options):
    """The rule as a function of its tensors alone, returning output and state."""
    feature_map, normalize = KINDS[kind]

    def call(q, k, v, S, z):
        state = (S, z) if normalize else S
        options_ = options | {"feature_map": feature_map, "normalize": normalize, "state": state}
        out, end = rule(q, k, v, return_state=True, **options_)
        return (out, *end) if normalize else (out, end)

    return call


def all_pairs(q, k, v, feature_map, normalize, causal=True):
    """Katharopoulos et al., Eq. 8: the similarity of every query and key, no state anywhere."""
    similarity = feature_map(q) @ feature_map(k).mT
    similarity = similarity.tril() if causal else similarity
    total = similarity.sum(-1, keepdim=True)
    return similarity @ v / torch.where(total == 0, 1.0, total) if normalize else similarity @ v


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", LENGTHS)
def test_the_state_is_the_sum_over_all_pairs(T, kind):
    feature_map, normalize = KINDS[kind]
    tensors = arguments(T)

    def pairs(q, k, v):
        return all_pairs(q, k, v, feature_map, normalize)

    want, want_gradients = pairs(*tensors), gradients(pairs, tensors)
    for rule in RULES:

        def state(q, k, v, rule=rule):
            return rule(q, k, v, feature_map=feature_map, normalize=normalize)

        assert_close(state(*tensors), want, 1e-12)
        assert_same_gradients(gradients(state, tensors), want_gradients, 1e-11, "q k v")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", LENGTHS)
def test_chunks_are_the_recurrence_gradients_included(T, kind):
    tensors = [*arguments(T), *entering()]
    recurrence = run(recurrent_linear_attention, kind)
    want, want_gradients = recurrence(*tensors), gradients(recurrence, tensors)
    for chunk in CHUNKS:
        chunked = run(chunked_linear_attention, kind, chunk=chunk)
        for a, b in zip(chunked(*tensors), want, strict=True):
            assert_close(a, b, 1e-12, f"chunk {chunk}")
        assert_same_gradients(gradients(chunked, tensors), want_gradients, 1e-11, "q k v S z")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("T", LENGTHS)
def test_the_state_carries_over_any_split(T, kind):
    q, k, v = arguments(T)
    for rule in RULES:
        whole, *end = run(rule, kind)(q, k, v, *entering())
        for split in (s for s in SPLITS if s <= T):
            first, *carried = run(rule, kind)(*(x[:, :split] for x in (q, k, v)), *entering())
            carried = carried if KINDS[kind][1] else [*carried, None]
            second, *last = run(rule, kind)(*(x[:, split:] for x in (q, k, v)), *carried)
            assert_close(torch.cat((first, second), dim=1), whole, 1e-12, f"split at {split}")
            for a, b in zip(last, end, strict=True):
                assert_close(a, b, 1e-12, f"state after a split at {split}")


@pytest.mark.parametrize("normalize", [True, False])
def test_without_a_mask_every_query_reads_the_last_state(normalize):
    q, k, v = arguments(20)

    def pairs(q, k, v):
        return all_pairs(q, k, v, elu_plus_one, normalize, causal=False)

    def state(q, k, v):
        return linear_attention(q, k, v, causal=False, normalize=normalize)

    tensors = [q[:, :7], k, v]
    assert_close(state(*tensors), pairs(*tensors), 1e-13)
    assert_same_gradients(gradients(state, tensors), gradients(pairs, tensors), 1e-12, "q k v")
    _, carried = linear_attention(
        q[:, :0], k[:, :9], v[:, :9], causal=False, normalize=normalize, return_state=True, chunk=8
    )
    rest = linear_attention(q, k[:, 9:], v[:, 9:], causal=False, normalize=normalize, state=carried)
    assert_close(rest, pairs(q, k, v), 1e-13)


def test_normalised_output_is_a_weighted_mean():
    q, k, _ = arguments(65)
    ones = torch.ones(2, 65, D_V, dtype=torch.float64)
    for rule in RULES:
        assert_close(rule(q, k, ones), ones, 1e-13)


def test_every_head_is_its_own_matrix():
    q, k, v = arguments(40, lead=(2, 3))
    out = linear_attention(q, k, v)
    assert_close(out[1, 2], linear_attention(q[1, 2], k[1, 2], v[1, 2]), 1e-13)
    assert linear_attention(q[:0], k[:0], v[:0]).shape == (0, 3, 40, D_V)


@pytest.mark.parametrize("T", [1, 2, 70])
def test_the_dispatcher_takes_either_form(T):
    q, k, v = arguments(T)
    want = recurrent_linear_attention(q, k, v)
    for chunk in (None, 1, 16):
        assert_close(linear_attention(q, k, v, chunk=chunk), want, 1e-13)


def test_one_token_goes_by_recurrence_and_more_by_chunks_of_64(monkeypatch):
    taken = routes(monkeypatch, linear, "recurrent_linear_attention", "chunked_linear_attention")
    for T, chunk in ((0, None), (1, None), (2, None), (1, 7), (2, 7)):
        linear_attention(*arguments(T), chunk=chunk)
    assert taken == [("recurrent", None), ("recurrent", None), ("chunked", 64), ("chunked", 7), ("chunked", 7)]


def test_states_are_made_where_the_tensors_are():
    tensors = arguments(20)
    for options in ({"chunk": 8}, {"causal": False}, {"normalize": False}, {"feature_map": favor_plus(D, 8)}):
        want = linear_attention(*tensors, **options)
        with made_elsewhere():
            assert torch.equal(linear_attention(*tensors, **options), want)


@pytest.mark.parametrize("kind", KINDS)
def test_the_future_changes_no_bit_of_the_past(kind):
    q, k, v = arguments(129, dtype=torch.float32)
    other = arguments(129, seed=1, dtype=torch.float32)
    feature_map, normalize = KINDS[kind]
    maps = [feature_map] if normalize is False else [feature_map, favor_plus(D, 32)]
    for phi in maps:
        for rule in RULES:
            before = rule(q, k, v, feature_map=phi, normalize=normalize)
            for t in (1, 16, 17, 63, 64, 100, 128):
                changed = [torch.cat((x[:, :t], 3 * y[:, t:]), dim=1) for x, y in zip((q, k, v), other, strict=True)]
                after = rule(*changed, feature_map=phi, normalize=normalize)
                assert torch.equal(after[:, :t], before[:, :t])
                assert not torch.equal(after[:, t:], before[:, t:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_inputs_are_computed_in_fp32(kind, dtype):
    tensors, state = arguments(65, dtype=dtype), entering(dtype=torch.float32)
    for rule in RULES:
        out, *end = run(rule, kind)(*tensors, *state)
        want, *want_end = run(rule, kind)(*(x.float() for x in tensors), *state)
        assert out.dtype == dtype and torch.equal(out, want.to(dtype))
        assert linear_attention(*tensors, causal=False).dtype == dtype
        assert all(a.dtype == torch.float32 and torch.equal(a, b) for a, b in zip(end, want_end, strict=True))


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_numbers_of_any_size_scale_through(size):
    q, k, v = arguments(100, dtype=torch.float32)
    want = recurrent_linear_attention(*(x.double() for x in (q, k, v)), feature_map=relu)
    assert_close(linear_attention(q, k, size * v, feature_map=relu), size * want, 3e-6)
    assert_close(linear_attention(q, size * k, v, feature_map=relu), want, 3e-6)


FORMS = (*RULES[:2], lambda *x, **options: linear_attention(*x, causal=False, **options))


@pytest.mark.parametrize("dtype, small", [(torch.float32, 110), (torch.float64, 980)])
def test_the_size_of_a_querys_features_changes_no_bit(dtype, small):
    """φ(q) stands above and below; only the size of φ(q)·z would leave the range."""
    q, k, v = arguments(20, dtype=dtype)
    sizes = 2.0 ** (small * torch.linspace(-1, 1, 20, dtype=dtype).round(decimals=1)).round().unsqueeze(-1)
    for form in FORMS:
        for feature_map in (relu, identity):
            want = form(q, k, v, feature_map=feature_map)
            assert torch.equal(form(sizes * q, k, v, feature_map=feature_map), want)
            for size in (2.0**-small, 2.0**small):
                k_ = k / 2.0**60 if size < 1 else k * 2.0**12  # both small: the product would be 0; both large: ∞
                assert torch.equal(form(size * q, k_, v, feature_map=feature_map), want)


def test_normalising_is_a_division_to_the_last_bit():
    q, k, v = arguments(20, dtype=torch.float32)

    def undivided(x):
        return recurrent_linear_attention(q, k, x, feature_map=elu_plus_one, normalize=False)

    assert torch.equal(recurrent_linear_attention(q, k, v), undivided(v) / undivided(torch.ones_like(v[..., :1])))


def test_features_that_are_all_small_or_large_still_have_a_mean():
    """exp(−60) is a number in fp32, its square is not; relu(1e−20) is one, and the slope of a quotient squares it."""
    v = arguments(5, dtype=torch.float32)[2]
    want = {False: v.cumsum(1) / torch.arange(1, 6).unsqueeze(-1), True: v.mean(1, keepdim=True).expand_as(v)}
    kinds = [(x, x, elu_plus_one) for x in (-46.0, -60.0, -87.0)] + [(1e-20, 1e-20, relu), (3.4e38, 1.0, relu)]
    kinds += [(-1e-20, -1e-20, identity)]
    for x, y, feature_map in kinds:
        q, k = torch.full((2, 5, D), x), torch.full((2, 5, D), y)
        for form in FORMS:
            out = form(q, k, v, feature_map=feature_map)
            assert_close(out, want[form is FORMS[-1]], 1e-6)
            got = gradients(lambda *x, form=form, phi=feature_map: form(*x, feature_map=phi), [q, k, v])
            assert all(x.isfinite().all() for x in got)


def test_random_features_of_long_inputs_are_those_of_fp64():
    q, k, v = (4 * Inputs(seed).normal(30, 64) for seed in range(3))  # features from 0 to 1e-6
    phi = favor_plus(64, 256)
    for form in FORMS:
        got, want = form(q.float(), k.float(), v.float(), feature_map=phi), form(q, k, v, feature_map=phi)
        assert_close(got, want, 1e-4)


def test_a_query_without_features_is_answered_with_0():
    q, k, v = arguments(6)
    q[:, 3] = -1.0
    for form in FORMS:
        assert not form(q, k, v, feature_map=relu)[:, 3].any()
        assert all(x.isfinite().all() for x in gradients(lambda *x, form=form: form(*x, feature_map=relu), [q, k, v]))


def test_how_far_a_nan_reaches():
    tensors = arguments(20)
    want = chunked_linear_attention(*tensors, chunk=8)
    for spoilt, first, last in ((0, 10, 11), (1, 10, 20), (2, 8, 20)):  # q: its token, k: from it on, v: its chunk, too
        bad = [x.clone() for x in tensors]
        bad[spoilt][:, 10] = math.nan
        out = chunked_linear_attention(*bad, chunk=8)
        assert out[:, first:last].isnan().all()
        assert torch.equal(out[:, :first], want[:, :first]) and torch.equal(out[:, last:], want[:, last:])
        out = recurrent_linear_attention(*bad)
        assert out[:, 10:last].isnan().all() and out[:, :10].isfinite().all()


@pytest.mark.parametrize("normalize", [True, False])
def test_no_tokens_return_a_state_of_their_own(normalize):
    q, k, v = arguments(0)
    S, z = entering()
    for form in FORMS:
        _, end = form(q, k, v, normalize=normalize, state=(S, z) if normalize else S, return_state=True)
        end = end if normalize else (end,)
        for got, given in zip(end, (S, z), strict=False):
            assert torch.equal(got, given) and got.data_ptr() != given.data_ptr()


def test_a_feature_map_is_given_the_dtype_that_is_computed_in():
    for dtype, computing in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        seen = []
        linear_attention(*arguments(4, dtype=dtype), feature_map=lambda x, seen=seen: seen.append(x.dtype) or x.exp())
        assert seen == [computing] * 2


# --- feature maps ----------------------------------------------------------------------------------------------------


def test_elu_plus_one_is_elu_plus_one_and_stays_positive():
    x = torch.linspace(-12, 12, 49, dtype=torch.float64)
    assert_close(elu_plus_one(x), torch.nn.functional.elu(x) + 1, 1e-15)
    assert elu_plus_one(torch.tensor(-60.0)).item() == pytest.approx(math.exp(-60), rel=1e-6, abs=0)
    ends = torch.tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
    assert torch.autograd.grad(elu_plus_one(ends).sum(), ends)[0].tolist() == [0.0, 1.0, 1.0]


def test_favor_plus_estimates_the_exponential_without_bias():
    """The mean over 200 draws lies within four standard errors of exp(q.k / sqrt(d))."""
    draw = Inputs(2)
    q, k = draw.normal(5, 4), draw.normal(5, 4)
    maps = [favor_plus(4, features=16, seed=seed) for seed in range(200)]
    draws = torch.stack([phi(q) @ phi(k).mT for phi in maps])
    error = (draws.mean(0) - torch.exp(q @ k.mT / 2)).abs()
    assert (error <= 4 * draws.std(0) / math.sqrt(200)).all()


def test_favor_plus_approaches_softmax_attention():
    """256 times the features, about 16 times the accuracy."""
    q, k, v = arguments(64, lead=())
    errors = []
    for features in (16, 4096):
        out = linear_attention(q / 2, k / 2, v, feature_map=favor_plus(D, features))
        errors.append((out - attention(q / 2, k / 2, v)).square().mean().sqrt().item())
    assert errors[1] < 0.02 and errors[1] < errors[0] / 6


def test_favor_plus_directions_are_orthogonal_in_groups_and_seeded():
    phi = favor_plus(4, features=6, seed=3)
    scale = 4**0.25 / math.sqrt(2)  # at x = scale * e_c: log phi = omega_c / sqrt(2) - 1/4 - log sqrt(m)
    omega = (phi(scale * torch.eye(4, dtype=torch.float64)).log() + 0.25 + math.log(6) / 2) * math.sqrt(2)
    gram = omega.mT @ omega
    for group in (gram[:4, :4], gram[4:, 4:]):
        assert_close(group, torch.diag(group.diagonal()), 1e-12)
    x = Inputs().normal(3, 4)
    assert torch.equal(phi(x), favor_plus(4, features=6, seed=3)(x))
    assert not torch.equal(phi(x), favor_plus(4, features=6, seed=4)(x))
    assert (phi(x) > 0).all() and phi(x).shape == (3, 6)
    assert phi(x.float()).dtype == torch.float32


def test_favor_plus_has_256_features_of_seed_0_unless_told_otherwise():
    x = Inputs().normal(3, D)
    assert torch.equal(favor_plus(D)(x), favor_plus(D, features=256, seed=0)(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_favor_plus_computes_halves_in_fp32(dtype):
    x, phi = Inputs(4).normal(20, D).to(dtype), favor_plus(D, 16)
    assert phi(x).dtype == dtype and torch.equal(phi(x), phi(x.float()).to(dtype))


def test_favor_plus_is_the_same_whatever_the_default_device():
    x = Inputs().normal(3, 4)
    with made_elsewhere():
        phi = favor_plus(4, 8)
    assert torch.equal(phi(x), favor_plus(4, 8)(x))


def test_any_function_of_the_last_axis_is_a_feature_map():
    q, k, v = arguments(33)

    def squares(x):
        return torch.cat((x.square(), torch.ones_like(x[..., :1])), dim=-1)

    want = all_pairs(q, k, v, squares, True)
    for rule in RULES:
        assert_close(rule(q, k, v, feature_map=squares), want, 1e-12)


# --- bug reports -----------------------------------------------------------------------------------------------------


def test_report_signed_features_have_a_zero_denominator():
    """fla-org/flash-linear-attention #1198: k = [1, -1] sums to nothing; an epsilon of 1e-10 answers with 1e10."""
    k, v = torch.tensor([[1.0], [-1.0], [2.0]]), torch.tensor([[3.0], [4.0], [5.0]])
    q = torch.ones(3, 1)
    for rule in RULES:
        out = rule(q, k, v, feature_map=identity)
        assert out.tolist() == [[3.0], [0.0], [4.5]]
        got = gradients(lambda *x, rule=rule: rule(*x, feature_map=identity), [q, k, v])
        assert all(x.isfinite().all() for x in got)


def test_report_no_feature_fires():
    """relu features that meet nothing: 0, not NaN, and no gradient but zeros (the same report, unsigned)."""
    q, k, v = torch.ones(4, 2), -torch.ones(4, 2), torch.ones(4, 3)
    for rule in RULES:
        assert torch.equal(rule(q, k, v, feature_map=relu), torch.zeros(4, 3))
        assert all((x == 0).all() for x in gradients(lambda *x, rule=rule: rule(*x, feature_map=relu), [q, k, v]))
    empty = linear_attention(q, k[:0], v[:0], causal=False)
    assert torch.equal(empty, torch.zeros(4, 3))


def test_report_feature_map_knows_the_future():
    """lucidrains/performer-pytorch, causal: a maximum over the whole sequence moves earlier outputs."""
    q, k, v = arguments(20, lead=(), dtype=torch.float32)
    phi = favor_plus(D)
    before = linear_attention(q, k, v, feature_map=phi)
    k_later = k.clone()
    k_later[-1] *= 4
    assert torch.equal(linear_attention(q, k_later, v, feature_map=phi)[:-1], before[:-1])


@pytest.mark.parametrize("T", [63, 65])
def test_report_chunk_does_not_divide_the_length(T):
    """fla-org/flash-linear-attention, the chunked reference, and gittensor-ai-lab/sparkinfer #604: T % 64 != 0."""
    q, k, v = arguments(T)
    out, (S, z) = chunked_linear_attention(q, k, v, chunk=64, return_state=True)
    assert_close(out, all_pairs(q, k, v, elu_plus_one, True), 1e-12)
    assert_close(S, elu_plus_one(k).mT @ v, 1e-12)
    assert_close(z, elu_plus_one(k).sum(-2), 1e-12)


def test_report_carried_state_is_ignored_by_many_tokens():
    """huggingface/transformers #45513: 40 tokens and then 24 are 64."""
    q, k, v = arguments(64)
    _, carried = linear_attention(q[:, :40], k[:, :40], v[:, :40], return_state=True)
    rest = linear_attention(q[:, 40:], k[:, 40:], v[:, 40:], state=carried)
    assert_close(rest, linear_attention(q, k, v)[:, 40:], 1e-12)


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG = {
    "q: a list": ("q", lambda a: a | {"q": [[1.0]]}),
    "q: integers": ("q", lambda a: a | {"q": a["q"].long()}),
    "q: a vector": ("q", lambda a: a | {"q": a["q"][0, 0]}),
    "k: T": ("k", lambda a: a | {"k": a["k"][:, 1:]}),
    "k: a vector": ("k", lambda a: a | {"k": a["k"][0, 0]}),
    "v: a vector": ("v", lambda a: a | {"v": a["v"][0, 0]}),
    "k: channels": ("k", lambda a: a | {"k": a["k"][..., 1:]}),
    "k: one head for all": ("k", lambda a: a | {"k": a["k"][:1]}),
    "k: dtype": ("k", lambda a: a | {"k": a["k"].double()}),
    "v: T": ("v", lambda a: a | {"v": a["v"][:, 1:]}),
    "v: heads": ("v", lambda a: a | {"v": a["v"][:1]}),
    "v: dtype": ("v", lambda a: a | {"v": a["v"].half()}),
    "state: only S": ("state", lambda a: a | {"state": a["state"][0]}),
    "state: a triple": ("state", lambda a: a | {"state": (*a["state"], None)}),
    "state S: transposed": ("state S", lambda a: a | {"state": (a["state"][0].mT, a["state"][1])}),
    "state z: heads": ("state z", lambda a: a | {"state": (a["state"][0], a["state"][1][:1])}),
    "state z: dtype": ("state z", lambda a: a | {"state": (a["state"][0], a["state"][1].half())}),
    "state: a pair unnormalised": ("state(?! S)", lambda a: a | {"normalize": False}),
    "feature_map: tokens": (r"feature_map\(q\)", lambda a: a | {"feature_map": lambda x: x[:, 1:]}),
    "feature_map: dtype": (r"feature_map\(q\)", lambda a: a | {"feature_map": lambda x: x.double()}),
    "feature_map: channels": ("x", lambda a: a | {"feature_map": favor_plus(D + 1)}),
    "feature_map: None": ("feature_map", lambda a: a | {"feature_map": None}),
    "feature_map: a tensor": ("feature_map", lambda a: a | {"feature_map": a["q"]}),
    "feature_map: a list comes": (r"feature_map\(q\)", lambda a: a | {"feature_map": lambda x: [x]}),
    "feature_map: a number comes": (r"feature_map\(q\)", lambda a: a | {"feature_map": lambda x: x.sum()}),
    "feature_map: a vector comes": (r"feature_map\(q\)", lambda a: a | {"feature_map": lambda x: x[0, 0]}),
    "feature_map: no channels come": (r"feature_map\(q\)", lambda a: a | {"feature_map": lambda x: x[..., :0]}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_named(wrong):
    name, spoil = WRONG[wrong]
    q, k, v = arguments(8, dtype=torch.float32)
    right = {"q": q, "k": k, "v": v, "state": tuple(entering(dtype=torch.float32))}
    for rule in RULES:
        rule(**right)
        with complains(name):
            rule(**spoil(right))
    if wrong not in ("k: T",):
        with complains(name):
            linear_attention(**spoil(right), causal=False)


def test_wrong_sizes_are_named():
    q, k, v = arguments(8)
    for chunk in (0, -1, 2.0, True):
        for rule in (linear_attention, chunked_linear_attention):
            with complains("chunk"):
                rule(q, k, v, chunk=chunk)
        with complains("chunk"):
            linear_attention(q, k, v, chunk=chunk, causal=False)
    for causal in (torch.ones(8, 8, dtype=torch.bool), None, 1):
        with complains("causal"):
            linear_attention(q, k, v, causal=causal)
    with complains("v"):
        linear_attention(q, k[:, 1:], v, causal=False)
    for spoil in (torch.Tensor.double, lambda x: x[:, 1:], lambda x: x[..., 1:]):  # of the keys alone
        with complains(r"feature_map\(k\)"):
            map_ = lambda x, spoil=spoil: spoil(x) if x.shape[-2] == 5 else x  # noqa: E731
            linear_attention(q.float(), k[:, :5].float(), v[:, :5].float(), feature_map=map_, causal=False)
    assert favor_plus(1, features=1)(torch.ones(2, 1)).shape == (2, 1)
    with complains("d"):
        favor_plus(0)
    with complains("features"):
        favor_plus(4, features=0)
    for seed in ("a", 1.5, None, True, 2**64, -(2**63) - 1):
        with complains("seed"):
            favor_plus(4, seed=seed)
    for seed in (2**64 - 1, -(2**63), np.int64(3)):
        assert favor_plus(4, seed=seed)(torch.ones(2, 4)).shape == (2, 256)
    for x in ([[1.0] * 4], torch.ones(3, 4, dtype=torch.long), torch.ones(4), torch.ones(3, 0), torch.ones(3, 5)):
        with complains("x"):
            favor_plus(4)(x)
    for feature_map in (identity, relu, elu_plus_one):
        for x in ([[1.0]], torch.ones(3, 4, dtype=torch.long)):
            with complains("x"):
                feature_map(x)
    with pytest.raises(TypeError):
        linear_attention(q, k, v, relu)
