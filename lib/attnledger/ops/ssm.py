"""State-space models: Mamba's selective scan, Mamba-2's SSD, and the linear attention that both are.

``S_t = Ā_t ⊙ S_{t−1} + B_tᵀ x̄_t`` and ``y_t = C_t S_t``: per token ``O(n d)`` work and a state of ``n × d`` numbers,
whatever the length. With one decay ``a_t`` per token and head (SSD; Dao and Gu 2024) this is linear attention with a
gate: C asks, B is the key, x the value, ``S`` the state ``(d_k, d_v)`` of ``ops.linear`` and ``ops.delta`` (the papers
store it transposed), and nothing is erased: there is no delta term. Written out, ``Y = (L ⊙ C Bᵀ) X`` with
``L_ij = a_i ⋯ a_{j+1}``: a causal mask that fades, and one matrix per head.

The identity ends where the decay no longer is one number per head. In Mamba (Gu and Dao 2023) ``Ā_t = exp(Δ_t A)``
differs in every channel ``c`` and state row: channel ``c`` has a mask for each row of the state, and its own score
matrix. That is still gated linear attention, but of ``d`` heads one value wide with a decay per key channel, and there
is no matrix product left that the channels share. Hence the scan.
"""

import math

import torch
from torch import Tensor

from . import _check
from ._precision import own_precision
from ._rows import Rows

FEW = 1  # up to so many tokens the recurrence is faster than a chunk


@own_precision
def selective_scan(
    x: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    *,
    D: Tensor | None = None,
    delta_softplus: bool = False,
    state: Tensor | None = None,
    return_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Mamba's selective state-space model, token by token: the definition, and the only form here.

    ``S_t = exp(Δ_t A) ⊙ S_{t−1} + B_tᵀ (Δ_t x_t)`` and ``y_t = C_t S_t + D x_t``. ``A`` is discretised by the
    zero-order hold, ``B`` by ``Δ B``, as in the released Mamba; the paper's Eq. 4 has ``(exp(ΔA) − 1)/(ΔA) · Δ B``,
    which tends to it for small ``Δ A``. A token with ``Δ = 0`` leaves the state as it was: so padding is skipped.

    Args:
        x: ``(..., T, d)``.
        delta: step sizes ``(..., T, d)``, at least 0 and finite. The softplus that makes them so is the caller's unless
            ``delta_softplus``; the bias inside it is the caller's always.
        A: ``(d, n)``, real, at most 0 and finite: usually ``−exp(A_log)``. Or with the last of the leading axes in
            front, such as ``(h, d, n)`` for a matrix per head. The log decay of a token is ``Δ A``, in natural log.
        B: ``(..., T, n)``, shared by the ``d`` channels.
        C: ``(..., T, n)``.
        D: skip connection ``(d,)``, or with leading axes as ``A``; none if None. ``delta``, ``A`` and ``D`` may be fp32
            beside half inputs.
        delta_softplus: take ``softplus(delta)`` as the steps.
        state: ``S`` before the first token, ``(..., n, d)``; zeros if None.
        return_state: also return ``S`` after the last token (fp32 for half inputs).

    Returns:
        ``(..., T, d)`` in the dtype of ``x``; with ``return_state`` also the state.

    Raises:
        ValueError: shapes or dtypes that do not fit, steps below 0 (a forgotten softplus), or ``A`` above 0.

    Source: Gu and Dao 2023 (*Mamba*), Eq. 2 and Algorithm 2. Page: ``linear/state-space``.
    """
    computing, S = _prepare(x, B, C, state)
    x_, delta_, A_, B_, C_ = (y.to(computing) for y in (x, _step(delta, x, delta_softplus), _rates(A, x, B), B, C))
    if D is not None:
        _check.gate("D", D, x)
        _check_per_head("D", D, x, (x.shape[-1],), "(d,)")
    outputs = Rows(x.shape[-2])
    for t in range(x.shape[-2]):
        x_t, delta_t, B_t, C_t = (y[..., t : t + 1, :] for y in (x_, delta_, B_, C_))  # (..., 1, d or n)
        S = (delta_t * A_.mT).exp() * S + B_t.mT @ (delta_t * x_t)  # (..., n, d)
        outputs.append(C_t @ S)
    y = outputs.joined() if x.shape[-2] else x_
    if D is not None:
        y = y + D.to(computing).unsqueeze(-2) * x_
    return (y.to(x.dtype), S) if return_state else y.to(x.dtype)


@own_precision
def ssd(
    x: Tensor,
    B: Tensor,
    C: Tensor,
    *,
    g: Tensor,
    state: Tensor | None = None,
    return_state: bool = False,
    chunk: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Mamba-2's state-space model, one decay per token and head: gated linear attention without a delta term.

    ``S_t = e^{g_t} S_{t−1} + B_tᵀ x_t`` and ``y_t = C_t S_t``. In linear attention's letters ``C`` is q, ``B`` is k and
    ``x`` is v; with ``g = 0`` it is ``linear_attention(C, B, x, feature_map=identity, normalize=False)``. A Mamba-2
    layer with steps ``Δ (..., T)`` and one number ``A < 0`` per head calls ``ssd(Δ x, B, C, g=Δ A)``, which is
    ``selective_scan`` with ``Δ`` and ``A`` alike in all channels, and adds ``D x`` itself.

    Args:
        x: ``(..., T, d)``, already multiplied by the step.
        B: ``(..., T, n)``. Heads that share one ``B`` and ``C``, as Mamba-2's groups do, get an expanded view.
        C: ``(..., T, n)``.
        g: natural-log decay ``(..., T)``, at most 0; the paper's ``A`` after discretisation. −∞ forgets everything. It
            may be fp32 beside half inputs.
        state: ``S`` before the first token, ``(..., n, d)``; zeros if None.
        return_state: also return ``S`` after the last token (fp32 for half inputs).
        chunk: tokens per chunk; None takes the recurrence for one token (decoding) and chunks of 64 for more. A chunk
            of ``T`` or more is the quadratic form.

    Returns:
        ``(..., T, d)`` in the dtype of ``x``; with ``return_state`` also the state.

    Raises:
        ValueError: shapes, dtypes, ``g > 0`` or ``chunk < 1``.

    Source: Dao and Gu 2024 (*Transformers are SSMs*), Listing 1. Page: ``linear/state-space``.
    """
    options = {"state": state, "return_state": return_state}
    _check.floating(x=x)
    _check.matrix("x", x)
    if chunk is None and x.shape[-2] <= FEW:
        return recurrent_ssd(x, B, C, g=g, **options)
    return chunked_ssd(x, B, C, g=g, **options, chunk=64 if chunk is None else chunk)


@own_precision
def recurrent_ssd(
    x: Tensor,
    B: Tensor,
    C: Tensor,
    *,
    g: Tensor,
    state: Tensor | None = None,
    return_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """SSD token by token: the definition.

    Arguments, errors and page as in ``ssd``. Source: Dao and Gu 2024, section 5.1: the selective SSM with a scalar
    times the identity for ``A``.
    """
    computing, S = _prepare(x, B, C, state)
    x_, a, B_, C_ = (y.to(computing) for y in (x, _log_decay(g, x), B, C))
    a = a.exp()[..., None, None]  # (..., T, 1, 1)
    outputs = Rows(x.shape[-2])
    for t in range(x.shape[-2]):
        x_t, B_t, C_t = (y[..., t : t + 1, :] for y in (x_, B_, C_))  # (..., 1, d or n)
        S = a[..., t, :, :] * S + B_t.mT @ x_t  # (..., n, d)
        outputs.append(C_t @ S)
    y = outputs.joined() if x.shape[-2] else x_
    return (y.to(x.dtype), S) if return_state else y.to(x.dtype)


@own_precision
def chunked_ssd(
    x: Tensor,
    B: Tensor,
    C: Tensor,
    *,
    g: Tensor,
    state: Tensor | None = None,
    return_state: bool = False,
    chunk: int = 64,
) -> Tensor | tuple[Tensor, Tensor]:
    """SSD ``chunk`` tokens at a time: the chunk itself as masked attention, what came before it through the state.

    With ``Γ_i`` the decay from the chunk's start through token ``i``::

        Y = Γ ⊙ (C S) + (L ⊙ C Bᵀ) X          S ← Γ_last S + (L_last ⊙ B)ᵀ X

    where ``L_last``, the last row of the mask, is how much of each token is left at the chunk's end. Any ``g <= 0`` is
    safe. A NaN or infinity in ``x`` reaches the whole chunk it is in, not only the tokens after it.

    Arguments, errors and page as in ``ssd``. Source: Dao and Gu 2024, section 6 and Listing 1.
    """
    chunk = _check.at_least("chunk", chunk, 1)
    computing, S = _prepare(x, B, C, state)
    x_, g_, B_, C_ = (y.to(computing) for y in (x, _log_decay(g, x), B, C))
    outputs = Rows(x.shape[-2])
    for start in range(0, x.shape[-2], chunk):
        X, B_c, C_c = (y[..., start : start + chunk, :] for y in (x_, B_, C_))  # (..., c, d or n)
        g_c = g_[..., start : start + chunk]  # (..., c)
        L = _mask(g_c)  # (..., c, c)
        Gamma = g_c.cumsum(-1).exp().unsqueeze(-1)  # (..., c, 1)
        scores = (C_c @ B_c.mT).tril_()  # (..., c, c); a later key may be so large that 0 times its score is NaN
        outputs.append(Gamma * (C_c @ S) + (L * scores) @ X)
        S = Gamma[..., -1:, :] * S + (L[..., -1, :, None] * B_c).mT @ X
    y = outputs.joined() if x.shape[-2] else x_
    return (y.to(x.dtype), S) if return_state else y.to(x.dtype)


def semiseparable_mask(g: Tensor) -> Tensor:
    """``L_ij = exp(g_{j+1} + … + g_i)`` for ``j <= i`` and 0 above: the causal mask with which SSD is attention.

    Its diagonal is 1, and with ``g = 0`` it is the causal mask of linear attention. Each exponent is summed on its own:
    as the difference of two long sums it would lose digits, and −∞ − (−∞) would be NaN.

    Args:
        g: natural-log decay ``(..., T)``, at most 0. −∞ forgets everything.

    Returns:
        ``(..., T, T)`` in the dtype of ``g``, so that ``ssd(x, B, C, g=g)`` is ``(L * (C @ B.mT)) @ x``.

    Raises:
        ValueError: not a floating tensor of at least one axis, or ``g > 0``.

    Source: Dao and Gu 2024, Eq. 6 (section 3.2.2), the 1-semiseparable matrix; ``segsum`` of Listing 1. Page:
    ``linear/state-space``.
    """
    computing = _check.floating(g=g)
    if g.ndim == 0:
        _check.complain("g", "shape ()", "(..., T)")
    _check_no_growth(g)
    return _mask(g.to(computing)).to(g.dtype)


def short_convolution(
    x: Tensor, weight: Tensor, *, state: Tensor | None = None, return_state: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """A causal convolution of a few tokens, each channel on its own: what stands before the scan in a Mamba layer.

    ``y_t = Σ_w weight[:, w] x_{t − width + 1 + w}``: the last column meets the token itself. Neither bias nor
    activation is included.

    Args:
        x: ``(..., T, d)``; ``T`` may be shorter than the convolution.
        weight: ``(d, width)``, the same for all leading axes (``torch.nn.Conv1d`` holds it as ``(d, 1, width)``). It
            may be fp32 beside half inputs.
        state: the ``width − 1`` tokens before the first, ``(..., width − 1, d)``; zeros if None.
        return_state: also return the last ``width − 1`` tokens, those of the entering state included (fp32 for half
            inputs).

    Returns:
        ``(..., T, d)`` in the dtype of ``x``; with ``return_state`` also the state.

    Raises:
        ValueError: shapes or dtypes that do not fit.

    Source: Gu and Dao 2023, Figure 3 (section 3.4). Page: ``linear/state-space``.
    """
    computing = _check.floating(x=x)
    _check.matrix("x", x)
    *lead, T, d = x.shape
    _check.gate("weight", weight, x)
    if weight.ndim != 2 or weight.shape[0] != d or weight.shape[1] == 0:
        _check.complain("weight", f"shape {tuple(weight.shape)}", f"(d, width) with d = {d} and width >= 1")
    width = weight.shape[1]
    zeros = x.new_zeros((*lead, width - 1, d), dtype=computing)
    past = zeros if state is None else state
    _check.gate("state", past, zeros)
    _check.shape("state", past, (*lead, width - 1, d), "(..., width - 1, d)")
    tokens = torch.cat((past, x.to(computing)), dim=-2)  # (..., width − 1 + T, d)
    taps = weight.to(computing).unbind(-1)  # width of (d,)
    y = sum(tap * tokens[..., w : w + T, :] for w, tap in enumerate(taps)).to(x.dtype)
    return (y, tokens[..., T:, :].clone()) if return_state else y  # not a view that would keep all tokens


def _mask(g: Tensor) -> Tensor:
    """``semiseparable_mask`` without its checks: below the diagonal, column ``j`` sums up what comes after ``j``."""
    steps = g.unsqueeze(-1).expand(*g.shape, g.shape[-1]).tril(-1)  # (..., T, T): g_i where j < i
    return steps.cumsum(-2).exp().tril()


def _prepare(x: Tensor, B: Tensor, C: Tensor, state: Tensor | None) -> tuple[torch.dtype, Tensor]:
    """Check what all forms share; return the dtype to compute in and the entering state."""
    computing = _check.floating(x=x, B=B, C=C)
    for name, y in (("x", x), ("B", B), ("C", C)):
        _check.matrix(name, y)
    *lead, T, d = x.shape
    n = B.shape[-1]
    _check.shape("B", B, (*lead, T, n), "(..., T, n)")
    _check.shape("C", C, (*lead, T, n), "(..., T, n)")
    zeros = x.new_zeros((*lead, n, d), dtype=computing)
    S = zeros if state is None else state
    _check.gate("state", S, zeros)
    _check.shape("state", S, (*lead, n, d), "(..., n, d)")
    return computing, S if T else S.clone()  # what comes back is never the argument itself


def _step(delta: Tensor, x: Tensor, softplus: bool) -> Tensor:
    """Check ``delta``; return the steps, ``softplus(delta)`` if asked for, in the computing dtype."""
    _check.gate("delta", delta, x)
    _check.shape("delta", delta, tuple(x.shape), "(..., T, d)")
    delta = delta.to(torch.promote_types(x.dtype, torch.float32))
    if softplus:  # log(e^x + 1): no overflow at large x, no rounding to 0 at small, finite gradients at both ends
        if not bool((delta < math.inf).all()):  # written so that a NaN complains too
            _check.complain("delta", _span(delta), "numbers below ∞, whose softplus is the step")
        return torch.logaddexp(delta, torch.zeros_like(delta))
    if not bool(((delta >= 0) & delta.isfinite()).all()):
        _check.complain("delta", _span(delta), "steps >= 0, finite (after a softplus, or with delta_softplus=True)")
    return delta


def _rates(A: Tensor, x: Tensor, B: Tensor) -> Tensor:
    """Check ``A`` and return it."""
    _check.gate("A", A, x)
    _check_per_head("A", A, x, (x.shape[-1], B.shape[-1]), "(d, n)")
    if not bool(((A <= 0) & A.isfinite()).all()):
        _check.complain("A", _span(A), "rates <= 0, finite")
    return A


def _log_decay(g: Tensor, x: Tensor) -> Tensor:
    """Check ``g`` and return it."""
    _check.gate("g", g, x)
    _check.shape("g", g, tuple(x.shape[:-1]), "(..., T)")
    _check_no_growth(g)
    return g


def _check_no_growth(g: Tensor) -> None:
    """Check that no log decay is above 0 or NaN."""
    if not bool((g <= 0).all()):
        _check.complain("g", _span(g), "natural-log decays, all <= 0")


def _check_per_head(name: str, y: Tensor, x: Tensor, size: tuple[int, ...], words: str) -> None:
    """Check that ``y`` is ``size``, or has some of the last leading axes of ``x`` in front of it."""
    full = (*x.shape[:-2], *size)
    if y.ndim < len(size) or tuple(y.shape) != full[-y.ndim :]:
        _check.complain(name, f"shape {tuple(y.shape)}", f"{words} = {size}, or the last axes of {full}")


def _span(x: Tensor) -> str:
    """The numbers of a tensor in words."""
    return f"values from {x.min().item():.4g} to {x.max().item():.4g}"
