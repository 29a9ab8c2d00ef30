"""Where a token is: sinusoids added to it, rotations of queries and keys, or a penalty on distance.

Rotary embeddings turn channel pair ``i`` of the token at position ``p`` by the angle ``p θ_i``, ``θ_i = base^(−2i/d)``;
turning keeps lengths, and the product of a turned query and a turned key depends on their distance only (Su et al.,
*RoFormer*, 2021). Longer contexts than trained are reached by slowing the rotations down: all alike (Chen et al.,
*Position Interpolation*, 2023), the slow ones more than the fast (NTK-aware), or only those that never came round
(Peng et al., *YaRN*, 2024). ALiBi rotates nothing and subtracts a multiple of the distance from the scores (Press et
al., *Train Short, Test Long*, 2022). Frequencies are fp64 and angles are computed in fp64, whatever the inputs: at
position 10⁶ the fastest pair turns by a whole number of radians, which fp32 holds, but the second of 32 pairs would be
off by up to 0.04 radians in fp32.
"""

import math

import torch
from torch import Tensor

from . import _check

LAYOUTS = ("half", "interleaved")
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def sinusoidal(positions: Tensor, d: int, base: float = 10000.0) -> Tensor:
    """Absolute positions as ``d/2`` sines and cosines: channel ``2i`` is ``sin(p θ_i)``, channel ``2i + 1`` the cosine.

    Args:
        positions: integers of any shape (or fp32 or fp64 numbers).
        d: channels, even.
        base: of the frequencies ``θ_i = base^(−2i/d)``.

    Returns:
        ``(*positions.shape, d)`` in the default dtype, to be added to the tokens.

    Raises:
        ValueError: positions that are no such tensor, an odd ``d`` or one below 2, or a base that is not positive.

    Source: Vaswani et al. 2017, section 3.5. Page: ``position/rotary``.
    """
    _check_positions(positions)
    angles = _angles(positions, rope_frequencies(d, base))  # (..., d / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(torch.get_default_dtype())


def rope_frequencies(d: int, base: float = 10000.0) -> Tensor:
    """The angles per token of the ``d/2`` channel pairs, fastest first: ``θ_i = base^(−2i/d)``.

    Args:
        d: channels that are rotated, even. For partial rotary embeddings that is fewer than a head has.
        base: the slowest pair turns by ``base^(2/d) / base`` radians per token.

    Returns:
        fp64 ``(d/2,)``, in radians per token.

    Raises:
        ValueError: an odd ``d`` or one below 2, or a base that is not positive.

    Source: Su et al. 2021, Eq. 15. Page: ``position/rotary``.
    """
    d, base = _even(d, 2), _number("base", base)
    return base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def apply_rope(x: Tensor, positions: Tensor, frequencies: Tensor, *, layout: str = "half") -> Tensor:
    """Turn each channel pair of queries or keys by position times frequency.

    Pair ``i`` of ``m`` is channels ``(i, i + m)`` in the layout ``"half"`` (GPT-NeoX, the Llama of ``transformers``)
    and ``(2i, 2i + 1)`` in ``"interleaved"`` (the paper; Llama's own code, DeepSeek). The two differ by a permutation
    of the channels: weights trained for one are wrong in the other. Only the first ``2m`` channels turn; the others, if
    there are any (partial rotary embeddings), pass through.

    Args:
        x: ``(..., T, d)``.
        positions: integers (or fp32 or fp64 numbers) shaped like the axes of ``x`` before the channels, or like the
            last of them: ``(T,)`` for all alike. They lie on the device of ``x``.
        frequencies: fp64 (or fp32) ``(m,)`` with ``2m <= d``, in radians per token, from any of the functions here, on
            the device of ``x``. A negative one turns back; the sum of two turns by both.
        layout: ``"half"`` or ``"interleaved"``.

    Returns:
        Shaped like ``x`` and in its dtype; half inputs are turned in fp32.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, more pairs than channels, or another layout.

    Source: Su et al. 2021, Eq. 34. Page: ``position/rotary``.
    """
    computing = _check.floating(x=x)
    _check.matrix("x", x)
    if x.shape[-1] < 2:
        _check.complain("x", f"shape {tuple(x.shape)}", "(..., T, d) with at least the two channels of a pair")
    _check_frequencies("frequencies", frequencies)
    m = len(frequencies)
    if m > x.shape[-1] // 2:
        got, most = f"shape {tuple(frequencies.shape)}", x.shape[-1] // 2
        _check.complain("frequencies", got, f"(pairs,) with 1 to {most} pairs of the {x.shape[-1]} channels of x")
    _check_positions(positions)
    for name, other in (("positions", positions), ("frequencies", frequencies)):
        if other.device != x.device:
            _check.complain(name, other.device, f"{x.device} like x")
    angles = _angles(positions, frequencies)  # (T, m) or (..., T, m)
    trailing = tuple(x.shape[-positions.ndim - 1 : -1])
    if positions.ndim == 0 or tuple(positions.shape) != trailing:
        want = f"(..., T) = {tuple(x.shape[:-1])}, or its last one or more axes"
        _check.complain("positions", f"shape {tuple(positions.shape)}", want)
    _check_layout(layout)
    cos, sin = angles.cos().to(computing), angles.sin().to(computing)
    turning, rest = x[..., : 2 * m], x[..., 2 * m :]  # a product with cos or sin is in the computing dtype
    pairs = turning.unflatten(-1, (2, m)) if layout == "half" else turning.unflatten(-1, (m, 2)).mT  # (..., 2, m)
    a, b = pairs.unbind(-2)
    pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-2)
    turned = (pairs if layout == "half" else pairs.mT).flatten(-2)  # (..., 2m)
    return torch.cat([turned.to(x.dtype), rest], dim=-1)


def linear_frequencies(d: int, base: float = 10000.0, *, scale: float) -> Tensor:
    """Position interpolation: every pair turns ``scale`` times slower, as if positions were divided by ``scale``.

    Args:
        d, base: as in ``rope_frequencies``.
        scale: how many times longer the context is than the trained one.

    Returns:
        fp64 ``(d/2,)``, in radians per token.

    Raises:
        ValueError: as in ``rope_frequencies``, or a scale that is not positive.

    Source: Chen et al. 2023, Eq. 4. Page: ``position/extrapolation``.
    """
    return rope_frequencies(d, base) / _number("scale", scale)


def ntk_base(base: float, scale: float, d: int) -> float:
    """NTK-aware interpolation: the larger base ``base · scale^(d/(d−2))``.

    With it the slowest pair turns exactly ``scale`` times slower, the fastest as before, the others in between. Change
    the base within a sequence (dynamic NTK) only if the cache holds keys that have not been turned yet, or turn them on
    by the difference of the frequencies: keys turned under one base do not know their distance to queries turned under
    another.

    Args:
        base: the trained base.
        scale: how many times longer the context is than the trained one.
        d: channels that are rotated, even and at least 4.

    Returns:
        The new base, for ``rope_frequencies``.

    Raises:
        ValueError: an odd ``d`` or one below 4, a base or scale that is not positive, or a new base beyond fp64.

    Source: Peng et al. 2024, section 3.1. Page: ``position/extrapolation``.
    """
    d, base, scale = _even(d, 4), _number("base", base), _number("scale", scale)
    try:
        larger = base * scale ** (d / (d - 2))
    except OverflowError:
        larger = math.inf
    if larger == math.inf:
        _check.complain("scale", scale, f"one whose base, from {base} with d={d}, is a number of fp64")
    return larger


def yarn_frequencies(
    d: int,
    base: float = 10000.0,
    *,
    scale: float,
    original: int,
    beta_fast: float = 32,
    beta_slow: float = 1,
    truncate: bool = True,
) -> Tensor:
    """YaRN: interpolate the pairs that turned less than once in the trained context, keep those that turned often.

    Pairs with more than ``beta_fast`` turns in ``original`` tokens keep their frequency, those with fewer than
    ``beta_slow`` are divided by ``scale``, and between the two the weight changes linearly **with the pair's number**.
    That is the authors' code and what models run; the paper's Eq. 11 lets the weight change linearly with the number of
    turns instead.

    The ramp goes from the whole number below to the whole number above in the authors' code and in Llama 2, Qwen and
    DeepSeek with YaRN, and from bound to bound as real numbers in gpt-oss; ``truncate`` is what ``transformers`` calls
    the difference. The bounds are cut off at 0 and at ``d − 1``, as in the authors' code, though there are ``d/2``
    pairs. Where both bounds fall outside the pairs (6 trained tokens or fewer; a base so small that every pair turns
    often) this follows the paper, while the authors' code keeps pairs that never came round and interpolates pairs that
    turned often.

    Args:
        d, base: as in ``rope_frequencies``; the base must be above 1.
        scale: how many times longer the context is than the trained one.
        original: tokens of the trained context.
        beta_fast: turns from which a pair is kept.
        beta_slow: turns up to which a pair is interpolated.
        truncate: whether the ramp's bounds are rounded to whole pairs; False for gpt-oss.

    Returns:
        fp64 ``(d/2,)``, in radians per token.

    Raises:
        ValueError: as in ``rope_frequencies``, a base of 1 or less, a scale or number of turns that is not positive,
            ``beta_fast`` not above ``beta_slow``, an ``original`` that is not a whole number of at least 1 and within
            fp64, or a ``truncate`` that is no bool.

    Source: Peng et al. 2024, section 3.2 (Definition 1) and the released code; unrounded: the released code of gpt-oss.
    Page: ``position/extrapolation``.
    """
    frequencies = rope_frequencies(d, base)
    if base <= 1:
        _check.complain("base", base, "a number above 1")
    scale, beta_slow, beta_fast = (
        _number(name, value) for name, value in (("scale", scale), ("beta_slow", beta_slow), ("beta_fast", beta_fast))
    )
    if beta_fast <= beta_slow:
        _check.complain("beta_fast", beta_fast, f"more than beta_slow = {beta_slow}")
    original = _number("original", _check.at_least("original", original, 1))
    _check.flag("truncate", truncate)
    low, high = (
        d * (math.log(original) - math.log(2 * math.pi) - math.log(turns)) / (2 * math.log(base))
        for turns in (beta_fast, beta_slow)
    )  # the pair, as a real number, that makes so many turns
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    high = min(high, d - 1)
    if high > 0:  # the ramp reaches into the pairs there are; otherwise none comes round and all are interpolated
        low = max(low, 0)
    pair = torch.arange(d // 2, dtype=torch.float64)
    interpolated = ((pair - low) / max(high - low, 0.001)).clamp(0, 1)
    return frequencies * (1 - interpolated) + frequencies / scale * interpolated


def yarn_attention_factor(scale: float, mscale: float = 1.0, mscale_all_dim: float = 0.0) -> float:
    """What YaRN multiplies turned queries and turned keys with, so that the softmax is as sharp as it was.

    ``(0.1 mscale ln scale + 1) / (0.1 mscale_all_dim ln scale + 1)``, and 1 for a scale of at most 1. It multiplies
    queries **and** keys, so scores grow with its square; in partial rotary embeddings only the channels that turn.
    Models that set ``mscale_all_dim`` (DeepSeek) put what it takes out here back into the scale of all scores,
    ``d ** -0.5 * yarn_attention_factor(scale, mscale_all_dim) ** 2``: equal values give 1 here, not no correction.

    Args:
        scale: how many times longer the context is than the trained one.
        mscale: weight of the correction; 1 is the paper.
        mscale_all_dim: weight of the correction that the model applies to the scale instead.

    Returns:
        The factor ``√(1/t)``, without unit.

    Raises:
        ValueError: a scale that is not positive or a weight below 0.

    Source: Peng et al. 2024, Eq. 15; the two weights: the released code of DeepSeek-V2. Page:
    ``position/extrapolation``.
    """
    scale = _number("scale", scale)
    mscale = _number("mscale", mscale, positive=False)
    mscale_all_dim = _number("mscale_all_dim", mscale_all_dim, positive=False)
    growth = 0.1 * math.log(max(scale, 1.0))
    return (mscale * growth + 1.0) / (mscale_all_dim * growth + 1.0)


def alibi_slopes(h: int) -> Tensor:
    """The slope of each head: for ``h`` a power of two ``2^(−8/h), 2^(−16/h), …, 2^(−8)``.

    For other numbers of heads: the slopes of the next lower power ``p``, then every other slope of ``2p``, the first,
    the third and so on, ``h − p`` of them. So they do not fall from head to head, and no two are equal.

    Args:
        h: number of heads.

    Returns:
        ``(h,)`` in the default dtype, in logits per token.

    Raises:
        ValueError: ``h`` that is not a whole number of at least 1.

    Source: Press et al. 2022, section 3 and, for other than powers of two, the released code. Page: ``position/alibi``.
    """
    h = _check.at_least("h", h, 1)
    p = 1 << (h.bit_length() - 1)  # the largest power of two up to h
    exponents = [8 * i / p for i in range(1, p + 1)] + [4 * i / p for i in range(1, 2 * (h - p), 2)]
    return torch.tensor([2.0**-e for e in exponents])


def alibi_bias(slopes: Tensor, queries: int, keys: int | None = None) -> Tensor:
    """The penalty ``−slope · |i − j|`` on the score of query ``i`` and key ``j``, for ``attention(..., bias=...)``.

    The paper's bias is causal; on the keys after a query, which a causal mask hides, this one is symmetric. It is added
    to the scaled scores, never multiplied by the scale.

    Args:
        slopes: ``(h,)``, from ``alibi_slopes``.
        queries: ``T_q``, number of queries; with ``T_q < T_k`` they are the last ones.
        keys: ``T_k``, number of keys; as many as queries if None.

    Returns:
        ``(h, T_q, T_k)`` in the dtype of ``slopes``; for halves the product is rounded, not its factors.

    Raises:
        ValueError: slopes of another shape or dtype, or sizes that are not whole numbers of at least 0.

    Source: Press et al. 2022, section 3. Page: ``position/alibi``.
    """
    computing = _check.floating(slopes=slopes)
    if slopes.ndim != 1:
        _check.complain("slopes", f"shape {tuple(slopes.shape)}", "(h,)")
    queries = _check.at_least("queries", queries, 0)
    keys = queries if keys is None else _check.at_least("keys", keys, 0)
    query = torch.arange(keys - queries, keys, device=slopes.device).unsqueeze(-1)
    distance = (query - torch.arange(keys, device=slopes.device)).abs()  # (T_q, T_k)
    return (-slopes[:, None, None].to(computing) * distance).to(slopes.dtype)


def _check_layout(layout: str) -> None:
    """Check that ``layout`` is one of the two."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        _check.complain("layout", repr(layout), " or ".join(map(repr, LAYOUTS)))


def _check_frequencies(name: str, x: Tensor) -> None:
    """Check that ``x`` is a vector of one or more fp64 or fp32 numbers: halves would round every angle."""
    if not isinstance(x, Tensor) or x.dtype not in (torch.float32, torch.float64):
        _check.complain(name, _kind(x), "a tensor of float64 or float32 numbers")
    if x.ndim != 1 or len(x) == 0:
        _check.complain(name, f"shape {tuple(x.shape)}", "(pairs,), at least one")


def _angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """``position · frequency`` in fp64, ``(*positions.shape, m)``."""
    return positions.to(torch.float64).unsqueeze(-1) * frequencies.to(positions.device, torch.float64)


def _check_positions(positions: Tensor) -> None:
    """Check that positions are integers, fp32 or fp64; halves are refused, bf16 has no 257."""
    allowed = (*SIGNED, *UNSIGNED, torch.float32, torch.float64)
    if not isinstance(positions, Tensor) or positions.dtype not in allowed:
        _check.complain("positions", _kind(positions), "a tensor of integers, or of float32 or float64 numbers")


def _kind(x: object) -> object:
    """What a complaint says it got: the dtype of a tensor, the type of anything else."""
    return x.dtype if isinstance(x, Tensor) else type(x).__name__


def _even(d: int, least: int) -> int:
    """``d``, checked to be an even whole number of at least ``least``."""
    d = _check.at_least("d", d, least)
    if d % 2:
        _check.complain("d", d, "an even number")
    return d


def _number(name: str, value: float, positive: bool = True) -> float:
    """``value``, checked to be a finite number above 0, or at least 0."""
    want = "a number > 0" if positive else "a number >= 0"
    number = _check.number(name, value, want)
    if number < 0 or (positive and number == 0):
        _check.complain(name, repr(value), want)
    return number
