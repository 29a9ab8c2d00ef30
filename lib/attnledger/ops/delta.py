"""The delta rule: read what a key holds, subtract it, write the difference; with a gate, forget first.

``S_t = (I − β_t k_tᵀ k_t) Diag(α_t) S_{t−1} + β_t k_tᵀ v_t`` and ``o_t = q_t S_t`` with ``α_t = e^{g_t}``: 1 in the
delta rule (Schlag et al. 2021; Yang et al. 2024), one number per head in the gated delta rule (Yang et al. 2025), one
per key channel in Kimi Delta Attention (Kimi Team 2025). A token costs three products with the ``d_k × d_v`` state,
whatever came before. The chunked form does ``C`` tokens at once: one unit-triangular system says what each of them
writes given what the others wrote (the WY representation), and the rest is matrix products.
"""

import math

import torch
from torch import Tensor

from . import _check
from ._precision import own_precision
from ._rows import Rows

SEGMENT = 256  # tokens prepared at once: their temporaries stay in cache, and the state carries over all the same
FEW = 4  # up to so many tokens the recurrence is faster than a chunk
LARGEST = {torch.float32: 88.0, torch.float64: 709.0}  # whole exponents of e that do not overflow
FORGOTTEN = -1000.0  # e^-1000 is 0 even in fp64, as e^-inf is, but differences of such exponents are still numbers


@own_precision
def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    beta: Tensor,
    g: Tensor | None = None,
    state: Tensor | None = None,
    return_state: bool = False,
    scale: float = 1.0,
    chunk: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The delta rule, the gated delta rule or KDA: decay first, then erase, then write, then read.

    Stable for ``0 <= ‖k‖² β <= 2``; keys are not normalised here, and beyond that the state diverges unless it decays
    enough.

    Args:
        q: ``(..., T, d_k)``.
        k: ``(..., T, d_k)``.
        v: ``(..., T, d_v)``.
        beta: write strength ``(..., T)``, usually in [0, 1], up to 2 for negative eigenvalues.
        g: natural-log decay, at most 0: None for the delta rule, ``(..., T)`` for the gated delta rule,
            ``(..., T, d_k)`` for KDA. −∞ forgets everything. ``beta`` and ``g`` may be fp32 beside half inputs.
        state: ``S`` before the first token, ``(..., d_k, d_v)``; zeros if None.
        return_state: also return ``S`` after the last token (fp32 for half inputs).
        scale: factor on ``q``. Kernels default to ``d_k ** -0.5``; here it is 1, as in the equations.
        chunk: tokens per chunk; None takes the recurrence up to 4 tokens and chunks of 32 beyond (kernels take 64; on a
            CPU 32 is the faster one).

    Returns:
        ``(..., T, d_v)`` in the dtype of ``q``; with ``return_state`` also the state.

    Raises:
        ValueError: shapes, dtypes, ``g > 0``, ``chunk < 1`` or a ``scale`` that is not a finite number.

    Source: Yang et al. 2024 (*DeltaNet*), section 2.2; Yang et al. 2025 (*Gated DeltaNet*), section 3.1, Eq. 10; Kimi
    Team 2025 (*Kimi Linear*), Eq. 1. Page: ``linear/delta-rule``.
    """
    options = {"beta": beta, "g": g, "state": state, "return_state": return_state, "scale": scale}
    if chunk is None and _check.few_tokens(q, FEW):
        return recurrent_delta_rule(q, k, v, **options)
    return chunked_delta_rule(q, k, v, **options, chunk=32 if chunk is None else chunk)


@own_precision
def recurrent_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    beta: Tensor,
    g: Tensor | None = None,
    state: Tensor | None = None,
    return_state: bool = False,
    scale: float = 1.0,
) -> Tensor | tuple[Tensor, Tensor]:
    """The delta rule token by token: the definition.

    Arguments, errors, source and page as in ``delta_rule``.
    """
    q_, k_, v_, beta_, g_, S = _prepare(q, k, v, beta, g, state, scale)
    alpha = g_.exp()  # (..., T, 1 or d_k)
    outputs = Rows(q.shape[-2])
    for t in range(q.shape[-2]):
        q_t, k_t, v_t, beta_t = (x[..., t : t + 1, :] for x in (q_, k_, v_, beta_))  # (..., 1, d)
        S = alpha[..., t, :].unsqueeze(-1) * S  # forget
        held = k_t @ S  # read what the key answers now: (..., 1, d_v)
        S = S + k_t.mT @ (beta_t * (v_t - held))  # write the difference: (..., d_k, d_v)
        outputs.append(q_t @ S)
    out = outputs.joined() if q.shape[-2] else v_
    return (out.to(q.dtype), S) if return_state else out.to(q.dtype)


@own_precision
def chunked_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    beta: Tensor,
    g: Tensor | None = None,
    state: Tensor | None = None,
    return_state: bool = False,
    scale: float = 1.0,
    chunk: int = 32,
) -> Tensor | tuple[Tensor, Tensor]:
    """The delta rule ``chunk`` tokens at a time (WY representation).

    For one chunk, with ``Γ_i`` the decay from its start through token ``i`` and ``S`` the state entering::

        A = StrictTril[(Γ⊙K)(K/Γ)ᵀ]     M = (I + diag(β) A)⁻¹ diag(β)     Ṽ = M (V − (Γ⊙K) S)
        O = (Γ⊙Q) S + Tril[(Γ⊙Q)(K/Γ)ᵀ] Ṽ                                S ← Γ_C ⊙ S + (Γ_C/Γ ⊙ K)ᵀ Ṽ

    ``Ṽ``, what each token really writes, is the papers' ``U − W S`` with ``V − (Γ⊙K) S`` taken first, so that neither
    ``U`` nor ``W`` is stored. Nothing is divided by ``Γ``: see ``_scores_one_decay`` and ``_scores_channel_decays``.
    Any ``g <= 0`` is safe. A NaN or infinity reaches the whole chunk it is in, not only the tokens after it.

    Arguments, errors and page as in ``delta_rule``. Source: Yang et al. 2024, section 3; Kimi Team 2025, Eq. 2–9.
    """
    chunk = _check.at_least("chunk", chunk, 1)
    q_, k_, v_, beta_, g_, S = _prepare(q, k, v, beta, g, state, scale)
    *lead, T, _ = q.shape
    q_, k_, v_, beta_, g_, S = (x.reshape(math.prod(lead), *x.shape[-2:]) for x in (q_, k_, v_, beta_, g_, S))
    scores_and_decays = _scores_one_decay if g_.shape[-1] == 1 else _scores_channel_decays
    C = min(chunk, max(T, 1))
    segment = max(SEGMENT // C, 1) * C
    outputs = Rows(T)
    for start in range(0, T, segment):
        Q, K, V, b, G = (_in_chunks(x[:, start : start + segment], C) for x in (q_, k_, v_, beta_, g_))  # (N, n, C, ·)
        A, P, entering, leaving, total = scores_and_decays(Q, K, G)
        # By substitution: a Neumann series loses all digits on repeated keys.
        M = torch.linalg.solve_triangular(b * A, torch.diag_embed(b.squeeze(-1)), upper=False, unitriangular=True)
        chunks = (x.unbind(1) for x in (V, M, P, entering, leaving, total))
        for V_c, M_c, P_c, entering_c, leaving_c, total_c in zip(*chunks, strict=True):
            held, read = torch.bmm(entering_c, S).split(C, dim=1)  # (Γ⊙K) S and (Γ⊙Q) S: (N, C, d_v)
            written = torch.bmm(M_c, V_c - held)  # Ṽ
            outputs.append(torch.baddbmm(read, P_c, written))
            S = torch.baddbmm(total_c * S, leaving_c.mT, written)
    out = (outputs.joined() if T else v_).reshape(v.shape).to(q.dtype)
    return (out, S.reshape(*lead, *S.shape[-2:])) if return_state else out


def _scores_one_decay(Q: Tensor, K: Tensor, G: Tensor) -> tuple[Tensor, ...]:
    """Scores and decays of chunks ``(N, n, C, d)`` in which all channels share the log decay ``G (N, n, C, 1)``.

    With one decay per token ``Γ_i/Γ_j`` leaves the product: ``(K Kᵀ) ⊙ D``, ``D_ij = e^{γ_i − γ_j}`` for ``i >= j``.
    Above the diagonal the exponent is positive and ``exp`` may overflow, and so may a score: both are set to 0 before
    they meet, because 0 times infinity is NaN. γ is summed in fp64, because a small difference of two long sums is what
    is wanted; fp64 inputs have no wider sum, and where nearly all is forgotten again and again about 10 of their digits
    are left after 1000 tokens of one chunk.

    Returns:
        ``A`` and ``P``, decayed scores of keys on earlier keys and of queries on keys ``(N, n, C, C)``; the rows that
        meet the entering state, first keys, then queries, ``(N, n, 2C, d)``; the keys as the chunk's end sees them
        ``(N, n, C, d)``; and the decay of the whole chunk ``(N, n, 1, 1)``.
    """
    gamma = G.clamp(min=FORGOTTEN).double().cumsum(2)  # (N, n, C, 1)
    D = (gamma - gamma.mT).to(K.dtype).tril_().exp()  # (N, n, C, C)
    KQ = torch.stack((K, Q), dim=2)  # (N, n, 2, C, d)
    later = torch.ones(K.shape[2], K.shape[2], dtype=torch.bool, device=K.device).triu()
    later = torch.cat((later, later.triu(1)))  # (2C, C): a key meets those before it, a query that of its token as well
    scores = (KQ.flatten(2, 3) @ K.mT).masked_fill_(later, 0.0)  # (N, n, 2C, C)
    scores = scores.unflatten(2, (2, -1)) * D.unsqueeze(2)  # (N, n, 2, C, C)
    entering = KQ * gamma.to(K.dtype).exp().unsqueeze(2)
    leaving = K * (gamma[:, :, -1:] - gamma).to(K.dtype).exp()
    return *scores.unbind(2), entering.flatten(2, 3), leaving, gamma[:, :, -1:].to(K.dtype).exp()


def _scores_channel_decays(Q: Tensor, K: Tensor, G: Tensor) -> tuple[Tensor, ...]:
    """Scores and decays of chunks in which each channel has its own log decay ``G (N, n, C, d)``.

    Tiles double from 1 token to the first power of two that is ``C`` or more: inputs are padded to it, and outputs cut
    back to ``C``. In a pair of neighbours, rows of the right tile have decayed since its start and columns of the left
    tile go on to decay until its end, so their product is ``Γ_i/Γ_j`` and no factor ever exceeds 1, for any ``g <= 0``.
    Then both tiles are one: right rows decay by the whole left tile as well, left columns by the whole right one. A
    level's matrix products cost twice those of the level before; together they are the triangle.

    Returns:
        As ``_scores_one_decay``, but the decay of the whole chunk is ``(N, n, d, 1)``, one per row of the state.
    """
    C = K.shape[2]
    Q, K, G = (torch.nn.functional.pad(x, (0, 0, 0, (1 << (C - 1).bit_length()) - C)) for x in (Q, K, G))
    alpha = G.exp()  # (N, n, C, d)
    rows = (torch.stack((K, Q), dim=3) * alpha.unsqueeze(3)).unsqueeze(4)  # (N, n, tiles, 2, s, d), s = 1
    own = (Q * K).sum(-1)  # (N, n, C): a query meets the key of its own token, a key only those before it
    scores = torch.stack((torch.zeros_like(own), own), dim=3)[..., None, None]  # (N, n, tiles, 2, s, s)
    columns, total = K.unsqueeze(3), alpha  # (N, n, tiles, s, d) and (N, n, tiles, d)
    while total.shape[2] > 1:
        (left_rows, right_rows), (left_columns, right_columns) = _neighbours(rows), _neighbours(columns)
        (left_scores, right_scores), (left_total, right_total) = _neighbours(scores), _neighbours(total)
        cross = (right_rows.flatten(3, 4) @ left_columns.mT).unflatten(3, (2, -1))  # (N, n, tiles / 2, 2, s, s)
        upper = torch.cat((left_scores, torch.zeros_like(cross)), dim=-1)
        scores = torch.cat((upper, torch.cat((cross, right_scores), dim=-1)), dim=-2)
        rows = torch.cat((left_rows, right_rows * left_total[..., None, None, :]), dim=-2)
        columns = torch.cat((left_columns * right_total.unsqueeze(3), right_columns), dim=-2)
        total = left_total * right_total
    A, P = scores[:, :, 0, :, :C, :C].unbind(2)
    return A, P, rows[:, :, 0, :, :C].flatten(2, 3), columns[:, :, 0, :C], total.mT


def _neighbours(tiles: Tensor) -> tuple[Tensor, Tensor]:
    """The left and the right ones of neighbouring tiles, which lie along axis 2."""
    return tiles.unflatten(2, (-1, 2)).unbind(3)


def _in_chunks(x: Tensor, C: int) -> Tensor:
    """``(N, T, ·)`` as ``(N, n, C, ·)``, filled up with zeros: they write nothing, and a log decay of 0 keeps all."""
    if x.shape[1] % C:
        x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % C))
    return x.unflatten(1, (-1, C))


def softplus_gate(z: Tensor, a_log: Tensor | float, dt_bias: Tensor | float) -> Tensor:
    """``g = −e^{a_log} softplus(z + dt_bias)``, a log decay without a lower bound.

    Args:
        z: any shape, usually ``(..., T)`` or ``(..., T, d_k)``.
        a_log, dt_bias: numbers, or tensors with as many axes as ``z``, each equal to that of ``z`` or 1 (one ``a_log``
            per head is ``(h, 1)`` beside ``(h, T)``).

    Returns:
        ``g``, shaped as ``z`` and in its dtype.

    Raises:
        ValueError: shapes or dtypes that do not fit, or a parameter that is neither a tensor nor a finite number.

    Source: as in Mamba-2's code (Dao and Gu 2024); Yang et al. 2025, section 3.4, refer to it. Page: ``linear/gating``.
    """
    computing = _check.floating(z=z)
    x = z.to(computing) + _parameter("dt_bias", dt_bias, z)
    # log(1 + e^x) as logaddexp: no overflow at large x, no rounding to 0 at small, and finite gradients at both ends
    return (-_rate(a_log, z) * torch.logaddexp(x, torch.zeros_like(x))).to(z.dtype)


def bounded_gate(z: Tensor, a_log: Tensor | float, lower_bound: float = -5.0) -> Tensor:
    """``g = lower_bound · sigmoid(e^{a_log} z)``, a log decay between ``lower_bound`` and 0.

    Args:
        z: any shape, usually ``(..., T, d_k)``.
        a_log: a number, or a tensor with as many axes as ``z``, each equal to that of ``z`` or 1.
        lower_bound: below 0; reached only as ``z`` goes to ∞ (it is a sigmoid, not a clamp).

    Returns:
        ``g``, shaped as ``z`` and in its dtype.

    Raises:
        ValueError: shapes or dtypes that do not fit, an ``a_log`` that is neither a tensor nor a finite number, or a
            bound that is not a finite number below 0.

    Source: Kimi Team 2026 (*Kimi K3*), Eq. 5. Page: ``linear/gating``.
    """
    computing = _check.floating(z=z)
    lower_bound = _check.number("lower_bound", lower_bound)
    if lower_bound >= 0:
        _check.complain("lower_bound", lower_bound, "a number below 0")
    return (lower_bound * torch.sigmoid(_rate(a_log, z) * z.to(computing))).to(z.dtype)


def _rate(a_log: Tensor | float, z: Tensor) -> Tensor:
    """``e^{a_log}``, kept finite: infinity times 0 would be NaN, in a gate or in its gradient."""
    x = _parameter("a_log", a_log, z)
    return x.clamp(max=LARGEST[x.dtype]).exp()


def _parameter(name: str, x: Tensor | float, z: Tensor) -> Tensor:
    """A gate's parameter in the computing dtype of ``z``, its axes named one by one: nothing is broadcast unseen."""
    computing = torch.promote_types(z.dtype, torch.float32)
    if not isinstance(x, Tensor):
        return torch.tensor(_check.number(name, x), dtype=computing, device=z.device)
    _check.gate(name, x, z)
    if x.ndim > 0 and (x.ndim != z.ndim or any(a not in (1, b) for a, b in zip(x.shape, z.shape, strict=True))):
        _check.complain(name, f"shape {tuple(x.shape)}", f"a number, or {tuple(z.shape)} with any axis 1")
    return x.to(computing)


def _prepare(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor | None, state: Tensor | None, scale: float
) -> tuple[Tensor, ...]:
    """Check the arguments; return scaled q, k, v, ``beta (..., T, 1)``, ``g (..., T, 1 or d_k)`` and the entering S."""
    computing = _check.floating(q=q, k=k, v=v)
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check.matrix(name, x)
    *lead, T, d_k = q.shape
    _check.shape("k", k, (*lead, T, d_k), "(..., T, d_k)")
    _check.shape("v", v, (*lead, T, v.shape[-1]), "(..., T, d_v)")
    _check.gate("beta", beta, q)
    _check.shape("beta", beta, (*lead, T), "(..., T)")
    g_ = torch.zeros((*lead, T, 1), dtype=beta.dtype, device=q.device) if g is None else _log_decay(g, q)
    q_, k_, v_, beta_, g_ = (x.to(computing) for x in (q, k, v, beta.unsqueeze(-1), g_))
    S = v_.new_zeros((*lead, d_k, v.shape[-1])) if state is None else state
    _check.gate("state", S, q_)
    _check.shape("state", S, (*lead, d_k, v.shape[-1]), "(..., d_k, d_v)")
    S = S if T else S.clone()  # what comes back is never the argument itself
    scale = _check.number("scale", scale)
    return q_ if scale == 1.0 else q_ * scale, k_, v_, beta_, g_, S


def _log_decay(g: Tensor, q: Tensor) -> Tensor:
    """Check ``g``; return it as ``(..., T, 1)`` or ``(..., T, d_k)``."""
    _check.gate("g", g, q)
    if tuple(g.shape) not in (tuple(q.shape[:-1]), tuple(q.shape)):
        _check.complain(
            "g", f"shape {tuple(g.shape)}", f"(..., T) = {tuple(q.shape[:-1])} or (..., T, d_k) = {tuple(q.shape)}"
        )
    largest = g.max().item() if g.numel() else 0.0
    if not largest <= 0:  # written so that a NaN complains too
        _check.complain("g", f"a largest value of {largest}", "natural-log decays, all <= 0")
    return g if g.ndim == q.ndim else g.unsqueeze(-1)
