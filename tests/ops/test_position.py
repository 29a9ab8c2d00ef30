"""Positions against complex numbers, loops and the arithmetic of the papers; both layouts, any number of heads."""

import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnledger.ops.position import (
    alibi_bias,
    alibi_slopes,
    apply_rope,
    linear_frequencies,
    ntk_base,
    rope_frequencies,
    sinusoidal,
    yarn_attention_factor,
    yarn_frequencies,
)
from attnledger.ops.softmax import attention, attention_weights

from .matrix import LENGTHS, Inputs, assert_close, assert_same_gradients, complains, gradients, made_elsewhere

D = 6
LAYOUTS = ("half", "interleaved")
few = settings(max_examples=40, deadline=None)


def pairs_of(d, m, layout):
    """The two channels of each pair."""
    return [(i, i + m) if layout == "half" else (2 * i, 2 * i + 1) for i in range(m)]


def turned_by_hand(x, positions, frequencies, layout):
    """Token by token and pair by pair, each pair a complex number."""
    rows = []
    for t in range(x.shape[-2]):
        row = list(x[t].unbind())
        for (a, b), theta in zip(pairs_of(x.shape[-1], len(frequencies), layout), frequencies.tolist(), strict=True):
            turn = cmath.exp(1j * positions[t].item() * theta)
            row[a], row[b] = (
                turn.real * x[t, a] - turn.imag * x[t, b],
                turn.real * x[t, b] + turn.imag * x[t, a],
            )
        rows.append(torch.stack(row))
    return torch.stack(rows) if rows else x


# --- sinusoids and frequencies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [10000.0, 500, 1.0])
@pytest.mark.parametrize("d", [2, 4, 64])
def test_frequencies_are_powers_of_the_base(d, base):
    frequencies = rope_frequencies(d, base)
    assert frequencies.dtype == torch.float64
    assert_close(frequencies, torch.tensor([base ** (-2 * i / d) for i in range(d // 2)], dtype=torch.float64), 1e-15)


def test_sinusoids_are_sines_and_cosines_in_turn():
    positions = torch.tensor([[0, 1, 5], [1000, 10**6, 2**31]])
    usual = torch.get_default_dtype()
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            got = sinusoidal(positions, 8, base=100)
        finally:
            torch.set_default_dtype(usual)
        assert got.dtype == dtype and got.shape == (2, 3, 8)
        for p, row in zip(positions.flatten().tolist(), got.flatten(0, 1).tolist(), strict=True):
            for i in range(4):
                angle = p * 100 ** (-2 * i / 8)
                assert row[2 * i] == pytest.approx(math.sin(angle), abs=1e-6 if dtype == torch.float32 else 1e-9)
                assert row[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6 if dtype == torch.float32 else 1e-9)
    assert sinusoidal(torch.arange(0), 4).shape == (0, 4)
    assert torch.equal(sinusoidal(torch.tensor(0), 4), torch.tensor([0.0, 1.0, 0.0, 1.0]))


def test_the_product_of_two_sinusoids_depends_on_their_distance():
    table = sinusoidal(torch.arange(50), 16)
    gram = table @ table.mT
    for distance in (0, 1, 7, 30):
        diagonal = gram.diagonal(distance)
        assert_close(diagonal, diagonal[:1].expand_as(diagonal), 1e-5)


# --- rotations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("m", [1, 2, 3])
def test_pairs_turn_like_complex_numbers_gradients_included(T, layout, m):
    draw = Inputs()
    x, frequencies = draw.normal(2, 3, T, D), rope_frequencies(2 * m, 100.0)
    positions = torch.randint(-50, 5000, (T,), generator=torch.Generator().manual_seed(0))
    out = apply_rope(x, positions, frequencies, layout=layout)
    for n in range(2):
        for h in range(3):
            assert_close(out[n, h], turned_by_hand(x[n, h], positions, frequencies, layout), 1e-12)
    if T and T < 20:
        got = gradients(lambda x: apply_rope(x, positions, frequencies, layout=layout), [x[0, 0]])
        want = gradients(lambda x: turned_by_hand(x, positions, frequencies, layout), [x[0, 0]])
        assert_same_gradients(got, want, 1e-12, "x")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rotation_keeps_lengths_and_orientation(layout):
    frequencies = rope_frequencies(8)
    for p in (0, 1, 777, 10**6):
        R = apply_rope(torch.eye(8, dtype=torch.float64), torch.full((8,), p), frequencies, layout=layout)
        assert_close(R @ R.mT, torch.eye(8, dtype=torch.float64), 1e-15)
        assert torch.linalg.det(R).item() == pytest.approx(1, abs=1e-13)


@few
@given(st.integers(-(10**6), 10**6), st.integers(1, 20), st.sampled_from(LAYOUTS), st.integers(1, 3))
def test_scores_depend_on_distance_only(offset, T, layout, m):
    """Every query and every key moved by the same number of tokens."""
    draw = Inputs()
    q, k, frequencies = draw.normal(T, D), draw.normal(T, D), rope_frequencies(2 * m)

    def scores(start):
        positions = torch.arange(start, start + T)
        turned_q, turned_k = (apply_rope(x, positions, frequencies, layout=layout) for x in (q, k))
        return turned_q @ turned_k.mT

    assert_close(scores(offset), scores(0), 1e-8)
    assert_close(scores(0).diagonal(), (q * k).sum(-1), 1e-14)  # no distance, no rotation


def test_the_layouts_differ_by_a_permutation_of_channels():
    x, positions, frequencies = Inputs().normal(5, 8), torch.arange(5), rope_frequencies(8)
    to_half = [0, 2, 4, 6, 1, 3, 5, 7]  # channel 2i goes to i, channel 2i + 1 to i + 4
    interleaved = apply_rope(x, positions, frequencies, layout="interleaved")
    assert torch.equal(apply_rope(x[:, to_half], positions, frequencies), interleaved[:, to_half])
    assert not torch.allclose(apply_rope(x, positions, frequencies), interleaved)
    assert torch.equal(apply_rope(x, positions, frequencies), apply_rope(x, positions, frequencies, layout="half"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_partial_rotation_leaves_the_other_channels_alone(layout, dtype):
    """Only the first 2m channels turn, and as if there were no others; an odd number of channels may be left."""
    x, positions, frequencies = Inputs(dtype=dtype).normal(2, 9, 11), torch.arange(9), rope_frequencies(4)
    out = apply_rope(x, positions, frequencies, layout=layout)
    assert torch.equal(out[..., 4:], x[..., 4:])
    assert torch.equal(out[..., :4], apply_rope(x[..., :4], positions, frequencies, layout=layout))
    assert not torch.equal(out[:, 1:, :4], x[:, 1:, :4])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_pair_is_enough(layout):
    x, positions = Inputs().normal(5, 2), torch.arange(5)
    want = turned_by_hand(x, positions, rope_frequencies(2), layout)
    assert_close(apply_rope(x, positions, rope_frequencies(2), layout=layout), want, 1e-14)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turns_add_up_and_turn_back(layout):
    x, frequencies = Inputs().normal(7, 8), rope_frequencies(8)
    first, second = torch.arange(7), torch.arange(100, 107)
    both = apply_rope(apply_rope(x, first, frequencies, layout=layout), second, frequencies, layout=layout)
    assert_close(both, apply_rope(x, first + second, frequencies, layout=layout), 1e-13)
    back = apply_rope(apply_rope(x, second, frequencies, layout=layout), -second, frequencies, layout=layout)
    assert_close(back, x, 1e-14)
    assert torch.equal(apply_rope(x, torch.zeros(7, dtype=torch.int32), frequencies, layout=layout), x)
    twice = apply_rope(apply_rope(x, first, frequencies, layout=layout), first, frequencies / 3, layout=layout)
    assert_close(twice, apply_rope(x, first, frequencies * 4 / 3, layout=layout), 1e-13)


@few
@given(st.integers(0, 60), st.lists(st.integers(0, 60), max_size=4), st.sampled_from(LAYOUTS))
def test_prefill_and_decoding_in_any_parts_turn_alike(T, cuts, layout):
    x, frequencies = Inputs(dtype=torch.float32).normal(2, T, D), rope_frequencies(D)
    whole = apply_rope(x, torch.arange(T), frequencies, layout=layout)
    bounds = sorted({0, T, *(c for c in cuts if c < T)})
    for a, b in zip(bounds, bounds[1:], strict=False):
        assert torch.equal(apply_rope(x[:, a:b], torch.arange(a, b), frequencies, layout=layout), whole[:, a:b])


def test_every_sequence_may_have_its_own_positions():
    """A batch padded on the left: positions of shape (B, h, T) or (h, T), and any kind of integer."""
    x, frequencies = Inputs().normal(2, 3, 10, D), rope_frequencies(D)
    positions = torch.stack([torch.arange(10), torch.arange(10) - 4])[:, None].expand(2, 3, 10)
    out = apply_rope(x, positions, frequencies)
    for n in range(2):
        for h in range(3):
            assert torch.equal(out[n, h], apply_rope(x[n, h], positions[n, h], frequencies))
    assert torch.equal(apply_rope(x[0], positions[1], frequencies), apply_rope(x[:1], positions[1:], frequencies)[0])
    signed = (torch.int8, torch.int16, torch.int32, torch.int64)
    unsigned = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
    for dtype in (*signed, *unsigned, torch.float32, torch.float64):
        assert torch.equal(
            apply_rope(x, torch.arange(10).to(dtype), frequencies), apply_rope(x, positions[0, 0], frequencies)
        )
    assert apply_rope(x[:0], positions[0, 0], frequencies).shape == (0, 3, 10, D)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_inputs_are_turned_in_fp32(dtype, layout):
    x, frequencies = Inputs(dtype=dtype).normal(3, 300, D), rope_frequencies(D)
    out = apply_rope(x, torch.arange(300), frequencies, layout=layout)
    want = apply_rope(x.float(), torch.arange(300), frequencies, layout=layout)
    assert out.dtype == dtype and torch.equal(out, want.to(dtype))


@pytest.mark.parametrize("start", [0, 1000, 10**6, 2**30])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 3e-7), (torch.bfloat16, 5e-3), (torch.float16, 7e-4)])
def test_angles_are_exact_far_out(start, dtype, tolerance):
    """In fp32 an angle of 10⁶ radians is off by up to 0.03, and bf16 has no position 257."""
    x, frequencies, positions = Inputs(dtype=dtype).normal(40, D), rope_frequencies(D), torch.arange(start, start + 40)
    want = turned_by_hand(x.double(), positions, frequencies, "half")
    assert_close(apply_rope(x, positions, frequencies), want, tolerance)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_numbers_of_any_size_turn(size):
    x, frequencies = Inputs(dtype=torch.float32).normal(40, D), rope_frequencies(D)
    want = apply_rope(size * x.double(), torch.arange(40), frequencies)
    assert_close(apply_rope(size * x, torch.arange(40), frequencies), want, 1e-6)


def test_a_token_turns_on_its_own():
    """Whatever the other tokens hold, no bit of it changes."""
    x, frequencies = Inputs(dtype=torch.float32).normal(100, D), rope_frequencies(D)
    before = apply_rope(x, torch.arange(100), frequencies)
    for other in (7.0, math.nan, math.inf):
        later = x.clone()
        later[60:] = other
        assert torch.equal(apply_rope(later, torch.arange(100), frequencies)[:60], before[:60])


# --- longer contexts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 2, 7.5])
def test_linear_interpolation_divides_positions(scale):
    x, positions = Inputs().normal(30, 8), torch.arange(30)
    got = apply_rope(x, positions, linear_frequencies(8, 500.0, scale=scale))
    assert_close(got, apply_rope(x, positions / scale, rope_frequencies(8, 500.0)), 1e-6)
    assert_close(got, apply_rope(x, positions.double() / scale, rope_frequencies(8, 500.0)), 1e-14)
    assert torch.equal(linear_frequencies(8, 500.0, scale=1), rope_frequencies(8, 500.0))


@pytest.mark.parametrize("d", [4, 64, 128])
@pytest.mark.parametrize("scale", [1.0, 2, 8.0, 40.0])
def test_ntk_slows_the_slowest_pair_by_the_scale_and_the_fastest_not_at_all(d, scale):
    base = ntk_base(10000.0, scale, d)
    assert base == pytest.approx(10000.0 * scale ** (d / (d - 2)), rel=1e-15)
    slowed = rope_frequencies(d) / rope_frequencies(d, base)
    assert slowed[0] == 1 and slowed[-1].item() == pytest.approx(scale, rel=1e-12)
    assert (slowed.diff() >= 0).all()


def turns(frequencies, tokens):
    return tokens * frequencies / (2 * math.pi)


@pytest.mark.parametrize(
    "d, base, scale, original",
    [(128, 10000.0, 16.0, 4096), (64, 10000.0, 40.0, 4096), (128, 1e6, 4.0, 32768), (64, 150000.0, 32.0, 4096)],
)
def test_yarn_keeps_what_turns_often_and_interpolates_what_never_comes_round(d, base, scale, original):
    plain = rope_frequencies(d, base)
    got = yarn_frequencies(d, base, scale=scale, original=original)
    assert got.dtype == torch.float64
    slowed, n = plain / got, turns(plain, original)
    # Pairs beyond the whole numbers that enclose the ramp are exactly the one or the other.
    kept, slow = (n > 32).sum().item(), (n >= 1).sum().item()
    assert torch.equal(got[:kept], plain[:kept])
    assert_close(got[slow:], plain[slow:] / scale, 1e-15)
    assert (slowed[kept:slow].diff() > 0).all() and (slowed[kept:slow] < scale).all() and slowed[kept] > 1


def test_yarn_weights_change_linearly_with_the_pair():
    """Llama 2 with s = 16: 32 turns at pair 20.9, one at pair 45.03, so from 20 to 46."""
    plain, got = rope_frequencies(128), yarn_frequencies(128, scale=16.0, original=4096)
    assert 20 < 64 * math.log(4096 / (32 * 2 * math.pi)) / math.log(10000) < 21
    assert 45 < 64 * math.log(4096 / (2 * math.pi)) / math.log(10000) < 46
    for i in range(64):
        weight = min(max((i - 20) / 26, 0), 1)
        assert got[i].item() == pytest.approx(plain[i].item() * (1 - weight + weight / 16), rel=1e-14)
    # Eq. 11 of the paper is linear in the number of turns: not the same, though it agrees outside the ramp.
    gamma = ((turns(plain, 4096) - 1) / 31).clamp(0, 1)
    paper = plain * gamma + plain / 16 * (1 - gamma)
    assert_close(got[:21], paper[:21], 1e-14)
    assert_close(got[46:], paper[46:], 1e-14)
    assert (got / paper).max() > 1.5


@pytest.mark.parametrize(
    "d, base, scale, original", [(64, 150000.0, 32.0, 4096), (128, 10000.0, 16.0, 4096), (64, 10000.0, 4.0, 100)]
)
def test_yarn_of_gpt_oss_does_not_round(d, base, scale, original):
    """From the real number of the pair with 32 turns to that of the pair with one; the first is what gpt-oss has."""
    got = yarn_frequencies(d, base, scale=scale, original=original, truncate=False)
    wavelengths = [2 * math.pi * base ** (2 * i / d) for i in range(d // 2)]
    start, end = (max(d / 2 * math.log(original / turns / (2 * math.pi), base), 0) for turns in (32, 1))
    for i in range(d // 2):
        weight = min(max((i - start) / (end - start), 0), 1)
        want = 2 * math.pi / wavelengths[i] * (1 - weight) + 2 * math.pi / (scale * wavelengths[i]) * weight
        assert got[i].item() == pytest.approx(want, rel=1e-12)
    rounded = yarn_frequencies(d, base, scale=scale, original=original)
    assert torch.equal(rounded, yarn_frequencies(d, base, scale=scale, original=original, truncate=True))
    assert (rounded / got).max() > 1.05


def test_unrounded_yarn_at_the_edges():
    plain, small = rope_frequencies(16), {"scale": 4.0, "truncate": False}
    for original in (1, 3, 6):  # nothing comes round
        assert_close(yarn_frequencies(16, original=original, **small), plain / 4, 1e-15)
    assert torch.equal(yarn_frequencies(16, original=10**9, **small), plain)  # everything does, often
    one = yarn_frequencies(16, original=7, **small)  # the fastest pair does, and a little more: end at pair 0.09
    assert one[0] == 1 and torch.equal(one[1:], plain[1:] / 4)
    narrow = yarn_frequencies(16, original=2048, beta_fast=1 + 1e-9, beta_slow=1, **small)  # a ramp of no width
    assert narrow.isfinite().all() and set((plain / narrow).round().tolist()) == {1.0, 4.0}
    # cut off at d − 1
    start = 8 * math.log(1000 / (64 * math.pi), 10.0)
    weight = ((torch.arange(8, dtype=torch.float64) - start) / (15 - start)).clamp(0, 1)
    plain = rope_frequencies(16, 10.0)
    got = yarn_frequencies(16, 10.0, original=1000, **small)
    assert_close(got, plain * (1 - weight) + plain / 4 * weight, 1e-14)


def test_the_base_is_ten_thousand_unless_told_otherwise():
    want = rope_frequencies(16, 10000.0)
    assert torch.equal(rope_frequencies(16), want)
    assert torch.equal(4 * linear_frequencies(16, scale=4.0), want)
    yarn = {"scale": 4.0, "original": 2048}
    assert torch.equal(yarn_frequencies(16, **yarn), yarn_frequencies(16, 10000.0, beta_fast=32, beta_slow=1, **yarn))
    assert torch.equal(sinusoidal(torch.arange(3), 16), sinusoidal(torch.arange(3), 16, 10000.0))


def test_positions_lie_where_they_were_and_biases_where_the_slopes_are():
    assert sinusoidal(torch.arange(3, device="meta"), 4).device.type == "meta"
    x, frequencies, positions, slopes = Inputs().normal(5, D), rope_frequencies(D), torch.arange(5), alibi_slopes(4)
    want, want_bias = apply_rope(x, positions, frequencies), alibi_bias(slopes, 3, 5)
    with made_elsewhere():
        assert torch.equal(apply_rope(x, positions, frequencies), want)
        assert torch.equal(alibi_bias(slopes, 3, 5), want_bias)


def test_yarn_takes_any_base_above_one_and_a_ramp_of_one_pair():
    assert torch.equal(yarn_frequencies(16, 1.5, scale=1.0, original=2048), rope_frequencies(16, 1.5))
    plain, got = rope_frequencies(64), yarn_frequencies(64, scale=4.0, original=4096, beta_fast=2, beta_slow=1.9)
    kept = int((got == plain).sum())
    assert 0 < kept < 32 and torch.equal(got[kept:], plain[kept:] / 4)


def test_yarn_at_the_edges():
    plain = rope_frequencies(16)
    assert torch.equal(yarn_frequencies(16, scale=1.0, original=2048), plain)
    assert_close(yarn_frequencies(16, scale=4.0, original=3), plain / 4, 1e-15)  # nothing comes round in 3 tokens
    assert torch.equal(yarn_frequencies(16, scale=4.0, original=10**9), plain)  # everything does, often
    assert torch.equal(yarn_frequencies(16, scale=4.0, original=10**30), plain)
    assert yarn_frequencies(2, scale=4.0, original=4096).tolist() == [1.0]
    # cut off at pair 0 (twice) and at d − 1 (twice)
    for base, original, low, high in ((1e4, 100, 0, 3), (1e4, 10, 0, 1), (10.0, 1000, 5, 15), (2.0, 300, 4, 15)):
        weight = ((torch.arange(8, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        plain_here = rope_frequencies(16, base)
        want = plain_here * (1 - weight) + plain_here / 4 * weight
        assert_close(yarn_frequencies(16, base, scale=4.0, original=original), want, 1e-15)
    assert_close(yarn_frequencies(16, scale=4.0, original=1), plain / 4, 1e-15)
    narrow = yarn_frequencies(16, scale=4.0, original=2048, beta_fast=1.001, beta_slow=1)  # all between two pairs
    assert narrow.isfinite().all() and (narrow <= plain).all() and (narrow >= plain / 4 - 1e-15).all()


def test_yarn_takes_any_numbers_of_turns():
    plain = rope_frequencies(16)
    rare = yarn_frequencies(16, scale=4.0, original=10**300, beta_fast=1.0, beta_slow=1e-300)
    assert torch.equal(rare, plain)
    often = yarn_frequencies(16, scale=4.0, original=2048, beta_fast=1e308, beta_slow=1e307)
    assert_close(often, plain / 4, 1e-15)


def test_yarn_attention_factor_is_the_papers_and_the_ratio():
    for scale in (1.0, 2, 16.0, 40.0):
        assert yarn_attention_factor(scale) == pytest.approx(0.1 * math.log(scale) + 1, rel=1e-15)
        ratio = (0.0707 * math.log(scale) + 1) / (0.05 * math.log(scale) + 1)
        assert yarn_attention_factor(scale, 0.707, 0.5) == pytest.approx(ratio, rel=1e-15)
        assert yarn_attention_factor(scale, 0.0) == 1.0
    assert yarn_attention_factor(1.0) == yarn_attention_factor(0.25) == 1.0


# --- ALiBi -----------------------------------------------------------------------------------------------------------


def slopes_by_recursion(h):
    """Half of twice as many heads' slopes fills up what the next lower power of two leaves open."""
    if h & (h - 1) == 0:
        return [2 ** (-8 * (i + 1) / h) for i in range(h)]
    p = 2 ** math.floor(math.log2(h))
    return slopes_by_recursion(p) + slopes_by_recursion(2 * p)[0::2][: h - p]


@pytest.mark.parametrize("h", range(1, 130))
def test_slopes_for_any_number_of_heads(h):
    slopes = alibi_slopes(h)
    assert slopes.shape == (h,) and slopes.dtype == torch.get_default_dtype()
    assert_close(slopes, torch.tensor(slopes_by_recursion(h)), 1e-6)
    assert len(set(slopes.tolist())) == h and slopes.min() >= 2**-8 and slopes.max() < 1


def test_slopes_of_the_paper():
    assert alibi_slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert_close(alibi_slopes(16), torch.tensor([2 ** (-i / 2) for i in range(1, 17)]), 1e-7)
    assert alibi_slopes(1).tolist() == [2**-8]


@few
@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 12))
def test_the_penalty_is_slope_times_distance(h, queries, keys):
    slopes = torch.linspace(0.1, 1, h, dtype=torch.float64)
    got = alibi_bias(slopes, queries, keys)
    assert got.dtype == slopes.dtype and got.shape == (h, queries, keys)
    for n in range(h):
        for i in range(queries):
            for j in range(keys):
                assert got[n, i, j].item() == -slopes[n].item() * abs(i + keys - queries - j)
    assert torch.equal(alibi_bias(slopes, keys), alibi_bias(slopes, keys, keys))


def test_a_causal_row_is_the_papers_up_to_a_constant():
    """m · [−(i−1), …, −1, 0] and, in the released code, m · [0, 1, …, i−1] give the same attention."""
    draw = Inputs()
    q, k, v = draw.normal(4, 20, D), draw.normal(4, 20, D), draw.normal(4, 20, D)
    slopes = alibi_slopes(4).double()
    out = attention(q, k, v, bias=alibi_bias(slopes, 20))
    rows = (slopes[:, None, None] * torch.arange(20)).expand(4, 20, 20)
    assert_close(out, attention(q, k, v, bias=rows), 1e-13)
    steps = [
        attention(q[:, t : t + 1], k[:, : t + 1], v[:, : t + 1], bias=alibi_bias(slopes, 1, t + 1)) for t in range(20)
    ]
    assert_close(torch.cat(steps, dim=1), out, 1e-13)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_penalty_fits_attention_in_any_precision(dtype):
    q = Inputs(dtype=dtype).normal(12, 300, D)
    out = attention(q, q, q, bias=alibi_bias(alibi_slopes(12), 300))
    want = attention(q.double(), q.double(), q.double(), bias=alibi_bias(alibi_slopes(12).double(), 300))
    assert out.dtype == dtype
    assert_close(out, want, {torch.bfloat16: 5e-3, torch.float16: 6e-4, torch.float32: 1e-6}[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_slopes_reach_as_far_as_their_product(dtype):
    """Distances beyond 65504 are no number of fp16, and beyond 256 few are one of bf16."""
    slopes = alibi_slopes(12).to(dtype)
    want = -slopes.double()[:, None, None] * torch.arange(69_999, -1, -1)
    got = alibi_bias(slopes, 1, 70_000)
    assert got.dtype == dtype and torch.equal(got, want.to(dtype))
    assert got[-1].isfinite().all()


def test_gradients_reach_learned_slopes():
    got = gradients(lambda slopes: alibi_bias(slopes, 7, 9), [alibi_slopes(3).double()])
    want = gradients(
        lambda slopes: -slopes[:, None, None] * (torch.arange(2, 9)[:, None] - torch.arange(9)).abs(),
        [alibi_slopes(3).double()],
    )
    assert_same_gradients(got, want, 1e-14, "slopes")


# --- bug reports -----------------------------------------------------------------------------------------------------


def test_report_pairs_of_one_layout_with_frequencies_of_the_other():
    """karpathy/nanochat #264; EleutherAI/gpt-neox #834; raiyanyahya/how-to-train-your-gpt #6: d = 6, one token.

    In the last, channels (0, 3), (1, 4), (2, 5) were paired, with the angles of (0, 1), (2, 3), (4, 5).
    """
    x, frequencies = torch.arange(1.0, 7.0, dtype=torch.float64).unsqueeze(0), rope_frequencies(6)
    c, s = [math.cos(3 * f) for f in frequencies], [math.sin(3 * f) for f in frequencies]
    at_three = torch.tensor([3])
    half = [1 * c[0] - 4 * s[0], 2 * c[1] - 5 * s[1], 3 * c[2] - 6 * s[2]]
    half += [4 * c[0] + 1 * s[0], 5 * c[1] + 2 * s[1], 6 * c[2] + 3 * s[2]]
    assert_close(apply_rope(x, at_three, frequencies), torch.tensor([half], dtype=torch.float64), 1e-14)
    interleaved = [1 * c[0] - 2 * s[0], 2 * c[0] + 1 * s[0], 3 * c[1] - 4 * s[1]]
    interleaved += [4 * c[1] + 3 * s[1], 5 * c[2] - 6 * s[2], 6 * c[2] + 5 * s[2]]
    got = apply_rope(x, at_three, frequencies, layout="interleaved")
    assert_close(got, torch.tensor([interleaved], dtype=torch.float64), 1e-14)


def test_report_equal_mscale_and_mscale_all_dim():
    """Megatron-LM #1429; transformers #47435; exllamav3 #259; mobius #548; Rapid-MLX #1225.

    Equal weights give exactly 1 on the turned channels; the correction then belongs into the scale of all scores, where
    DeepSeek-V2-Lite (0.707, s = 40) has 1.59 and DeepSeek-V3 (1.0, s = 40) has 1.87.
    """
    for weight in (0.0, 0.707, 1.0):
        assert yarn_attention_factor(40.0, weight, weight) == 1.0
    assert round(yarn_attention_factor(40.0, 0.707) ** 2, 2) == 1.59
    assert round(yarn_attention_factor(40.0, 1.0) ** 2, 2) == 1.87


def test_report_dynamic_base_with_cached_keys_turned_at_another():
    """transformers #25104, #27227; vllm #3488: one token past the trained length, keys cached under the old base."""
    draw, trained = Inputs(), 16
    q, k = draw.normal(trained + 1, 8), draw.normal(trained + 1, 8)
    positions = torch.arange(trained + 1)
    old, new = rope_frequencies(8), rope_frequencies(8, ntk_base(10000.0, (trained + 1) / trained, 8))
    query = apply_rope(q[-1:], positions[-1:], new)
    whole = query @ apply_rope(k, positions, new).mT  # what a prefill of all 17 tokens scores
    cached = apply_rope(k[:trained], positions[:trained], old)
    stale = torch.cat([cached, apply_rope(k[-1:], positions[-1:], new)])
    assert (query @ stale.mT - whole).abs().max() > 0.01
    turned_on = apply_rope(cached, positions[:trained], new - old)  # what the base changed
    assert_close(query @ turned_on.mT, whole[:, :trained], 1e-13)
    assert torch.equal(rope_frequencies(8, ntk_base(10000.0, 1.0, 8)), old)  # up to the trained length nothing changes


def test_report_decay_as_a_power_of_each_position_overflows():
    """cpcp1998/PermuteFormer #2: queries times r^t and keys times r^−t; 0.9^−1000 is no fp32 number.

    As a penalty on the distance the same decay never leaves [0, 1].
    """
    T = 1000
    assert (torch.tensor(1 / 0.9) ** T).isinf()
    slope = torch.tensor([-math.log(0.9)])
    q = torch.zeros(1, T, D)
    weights = attention_weights(q, q, bias=alibi_bias(slope, T))
    decay = 0.9 ** torch.arange(T - 1, -1, -1, dtype=torch.float64)
    assert_close(weights[0, -1], decay / decay.sum(), 1e-4)
    assert weights.isfinite().all()


def test_report_slopes_for_heads_that_are_no_power_of_two():
    """ml-explore/mlx #343: 12 heads as one geometric sequence. NVIDIA/TensorRT-LLM #1611: they do not fall in order."""
    want = [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    assert_close(alibi_slopes(12), torch.tensor(want), 1e-7)


def test_report_first_slope_is_one():
    """paiml/aprender #2143: head 0 had 2^0, an exponent of −8i/h with i from 0."""
    assert alibi_slopes(8)[0] == 0.5 and alibi_slopes(4)[0] == 0.25


# --- wrong input -----------------------------------------------------------------------------------------------------

WRONG = {
    "x: a list": ("x", lambda a: a | {"x": [[1.0]]}),
    "x: integers": ("x", lambda a: a | {"x": a["x"].long()}),
    "x: a vector": ("x", lambda a: a | {"x": a["x"][0, 0]}),
    "x: one channel": ("x", lambda a: a | {"x": a["x"][..., :1]}),
    "x: an array": ("x", lambda a: a | {"x": a["x"].numpy()}),
    "positions: elsewhere": ("positions", lambda a: a | {"positions": a["positions"].to("meta")}),
    "frequencies: elsewhere": ("frequencies", lambda a: a | {"frequencies": a["frequencies"].to("meta")}),
    "x: elsewhere": ("positions", lambda a: a | {"x": a["x"].to("meta")}),
    "positions: a list": ("positions", lambda a: a | {"positions": [0, 1, 2, 3]}),
    "positions: half": ("positions", lambda a: a | {"positions": a["positions"].bfloat16()}),
    "positions: booleans": ("positions", lambda a: a | {"positions": a["positions"] > 1}),
    "positions: T": ("positions", lambda a: a | {"positions": a["positions"][1:]}),
    "positions: one for all": ("positions", lambda a: a | {"positions": torch.tensor([3])}),
    "positions: a number": ("positions", lambda a: a | {"positions": torch.tensor(3)}),
    "positions: batch before heads": ("positions", lambda a: a | {"positions": a["positions"].expand(3, 4)}),
    "positions: too many axes": ("positions", lambda a: a | {"positions": a["positions"].expand(5, 2, 4)}),
    "frequencies: a list": ("frequencies", lambda a: a | {"frequencies": [1.0]}),
    "frequencies: half": ("frequencies", lambda a: a | {"frequencies": a["frequencies"].half()}),
    "frequencies: none": ("frequencies", lambda a: a | {"frequencies": a["frequencies"][:0]}),
    "frequencies: one per channel": ("frequencies", lambda a: a | {"frequencies": a["frequencies"].repeat(2)}),
    "frequencies: a matrix": ("frequencies", lambda a: a | {"frequencies": a["frequencies"].unsqueeze(0)}),
    "layout": ("layout", lambda a: a | {"layout": "neox"}),
    "layout: None": ("layout", lambda a: a | {"layout": None}),
    "layout: an array": ("layout", lambda a: a | {"layout": torch.arange(2).numpy()}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input_is_named(wrong):
    name, spoil = WRONG[wrong]
    x, positions = Inputs(dtype=torch.float32).normal(2, 4, D), torch.arange(4)
    right = {"x": x, "positions": positions, "frequencies": rope_frequencies(D), "layout": "half"}
    apply_rope(**right)
    with complains(name):
        apply_rope(**spoil(right))


def test_an_array_is_called_an_array_and_a_tensor_by_its_dtype():
    right = {"x": torch.ones(4, D), "positions": torch.arange(4), "frequencies": rope_frequencies(D)}
    for name in ("positions", "frequencies"):
        with pytest.raises(ValueError, match=rf"^{name}: got ndarray, want a tensor"):
            apply_rope(**right | {name: right[name].numpy()})
        with pytest.raises(ValueError, match=rf"^{name}: got torch.float16, want a tensor"):
            apply_rope(**right | {name: right[name].half()})


YARN = {"d": 8, "scale": 4.0, "original": 2048}
HUGE = 10**400  # no number of fp64


@pytest.mark.parametrize(
    "name, function, options",
    [
        ("positions", sinusoidal, {"positions": 3, "d": 4}),
        ("positions", sinusoidal, {"positions": torch.arange(3).half(), "d": 4}),
        ("d", sinusoidal, {"positions": torch.arange(3), "d": 5}),
        ("base", sinusoidal, {"positions": torch.arange(3), "d": 4, "base": 0}),
        ("d", rope_frequencies, {"d": 0}),
        ("d", rope_frequencies, {"d": 7}),
        ("d", rope_frequencies, {"d": 8.0}),
        ("base", rope_frequencies, {"d": 8, "base": -1.0}),
        ("base", rope_frequencies, {"d": 8, "base": "10000"}),
        ("base", rope_frequencies, {"d": 8, "base": math.inf}),
        ("base", rope_frequencies, {"d": 8, "base": math.nan}),
        ("base", rope_frequencies, {"d": 8, "base": True}),
        ("base", rope_frequencies, {"d": 8, "base": HUGE}),
        ("base", rope_frequencies, {"d": 8, "base": 10**5000}),
        ("base", sinusoidal, {"positions": torch.arange(3), "d": 4, "base": HUGE}),
        ("scale", linear_frequencies, {"d": 8, "scale": HUGE}),
        ("base", ntk_base, {"base": HUGE, "scale": 2.0, "d": 8}),
        ("scale", ntk_base, {"base": 1e4, "scale": 1e300, "d": 4}),
        ("scale", ntk_base, {"base": 1e200, "scale": 1e150, "d": 40}),
        ("scale", ntk_base, {"base": 1e4, "scale": HUGE, "d": 4}),
        ("original", yarn_frequencies, YARN | {"original": HUGE}),
        ("scale", yarn_frequencies, YARN | {"scale": HUGE}),
        ("beta_fast", yarn_frequencies, YARN | {"beta_fast": HUGE}),
        ("truncate", yarn_frequencies, YARN | {"truncate": 1}),
        ("truncate", yarn_frequencies, YARN | {"truncate": "no"}),
        ("scale", yarn_attention_factor, {"scale": HUGE}),
        ("d", linear_frequencies, {"d": 3, "scale": 2.0}),
        ("scale", linear_frequencies, {"d": 8, "scale": 0.0}),
        ("d", ntk_base, {"base": 1e4, "scale": 2.0, "d": 2}),
        ("d", ntk_base, {"base": 1e4, "scale": 2.0, "d": 5}),
        ("base", ntk_base, {"base": 0.0, "scale": 2.0, "d": 8}),
        ("scale", ntk_base, {"base": 1e4, "scale": -2.0, "d": 8}),
        ("d", yarn_frequencies, YARN | {"d": 9}),
        ("base", yarn_frequencies, YARN | {"base": 1.0}),
        ("base", yarn_frequencies, YARN | {"base": None}),
        ("scale", yarn_frequencies, YARN | {"scale": 0}),
        ("original", yarn_frequencies, YARN | {"original": 0}),
        ("original", yarn_frequencies, YARN | {"original": 2048.0}),
        ("beta_slow", yarn_frequencies, YARN | {"beta_slow": 0}),
        ("beta_fast", yarn_frequencies, YARN | {"beta_fast": -1}),
        ("beta_fast", yarn_frequencies, YARN | {"beta_fast": 8, "beta_slow": 8}),
        ("beta_fast", yarn_frequencies, YARN | {"beta_fast": 1, "beta_slow": 32}),
        ("scale", yarn_attention_factor, {"scale": 0.0}),
        ("scale", yarn_attention_factor, {"scale": None}),
        ("mscale", yarn_attention_factor, {"scale": 2.0, "mscale": -1.0}),
        ("mscale_all_dim", yarn_attention_factor, {"scale": 2.0, "mscale_all_dim": math.nan}),
        ("h", alibi_slopes, {"h": 0}),
        ("h", alibi_slopes, {"h": 8.0}),
        ("slopes", alibi_bias, {"slopes": [0.5], "queries": 2}),
        ("slopes", alibi_bias, {"slopes": torch.ones(2, 1), "queries": 2}),
        ("slopes", alibi_bias, {"slopes": torch.ones(2, dtype=torch.int64), "queries": 2}),
        ("queries", alibi_bias, {"slopes": torch.ones(2), "queries": -1}),
        ("keys", alibi_bias, {"slopes": torch.ones(2), "queries": 1, "keys": 2.0}),
    ],
)
def test_wrong_numbers_are_named(name, function, options):
    with complains(name):
        function(**options)


def test_options_are_keywords():
    with pytest.raises(TypeError):
        apply_rope(torch.ones(2, 4), torch.arange(2), rope_frequencies(4), "half")
    with pytest.raises(TypeError):
        yarn_frequencies(8, 1e4, 4.0, 2048)
