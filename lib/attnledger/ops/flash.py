"""FlashAttention: softmax attention tile by tile, exact, without ever holding the ``T_q × T_k`` scores.

A softmax can be taken block by block if the largest score so far, ``m``, and the sum ``l = Σ exp(s − m)`` are carried
along: a block with a larger score multiplies everything summed before by ``exp(m_before − m)`` (Milakov and Gimelshein
2018). Tiles of keys pass each tile of queries; only ``O``, ``m`` and ``l`` stay. The work is that of attention, the
extra memory is ``O(T d)`` and one tile. Going back, a tile of weights is computed again from the ``m`` and ``l`` of its
rows instead of being kept. Dao et al., *FlashAttention* (2022); the order of the loops is that of Dao,
*FlashAttention-2* (2023).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _check
from ._precision import own_precision
from .softmax import NEVER, _mix

LOG2_E = math.log2(math.e)  # e^s = 2^(s log2 e), and powers of 2 are the cheap ones, on GPUs and here


@own_precision
def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    block_q: int = 64,
    block_k: int = 64,
    causal: bool = True,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention by tiles: what ``ops.softmax.attention`` returns, in ``O(T d)`` extra memory.

    Causal by default and aligned to the end, as ``attention`` is: with ``T_q < T_k`` the queries are the last ``T_q``
    tokens. Tiles that no query of theirs may see are skipped. Differentiable once, by ``backward`` or
    ``torch.autograd.grad`` and not in forward mode or under ``torch.func``: the backward pass is written out by hand,
    and asked for a derivative of its own (``create_graph=True``) it raises ``NotImplementedError``.

    Args:
        q: ``(..., T_q, d)``.
        k: ``(..., T_k, d)``, same leading axes.
        v: ``(..., T_k, d_v)``, same leading axes. A NaN or infinity in ``k`` or ``v`` reaches only outputs of queries
            that may see its token; from ``v`` it reaches no gradient, but a NaN in ``k``, or in a query that sees a
            key, makes gradients NaN, here as in ``attention``. Where ``attention`` answers an infinity in ``v`` with
            NaN, this may answer ±∞.
        block_q: queries per tile.
        block_k: keys per tile. The largest temporary is a tile of scores for all heads at once; on a CPU tiles of 256
            are near the fastest.
        causal: query ``i`` sees keys ``j <= i + T_k - T_q``.
        scale: factor on ``q kᵀ``, ``d ** -0.5`` unless given. Scores are taken to base 2, so in fp32 they overflow
            above 2.36e38, a little earlier than those of ``attention``.
        return_lse: also return the natural-log log-sum-exp of each row of scores, ``(..., T_q)``.

    Returns:
        ``(..., T_q, d_v)`` in the dtype of ``q``; with ``return_lse`` also the log-sum-exp (fp32 for half inputs). A
        query that may see nothing gets 0 and −∞.

    Raises:
        ValueError: shapes or dtypes that do not fit, a block below 1, a scale that is not a finite number (``None``
            aside), a ``causal`` that is not a bool.

    Source: Dao 2023 (*FlashAttention-2*), Algorithms 1 and 2. Page: ``exact/flash-attention``.
    """
    computing = _check.floating(q=q, k=k, v=v)
    _check.matrix("q", q, "(..., T_q, d)")
    _check.matrix("k", k, "(..., T_k, d)")
    _check.matrix("v", v, "(..., T_k, d_v)")
    *lead, T_q, d = q.shape
    T_k = k.shape[-2]
    _check.shape("k", k, (*lead, T_k, d), "(..., T_k, d)")
    _check.shape("v", v, (*lead, T_k, v.shape[-1]), "(..., T_k, d_v)")
    block_q, block_k = _check.at_least("block_q", block_q, 1), _check.at_least("block_k", block_k, 1)
    _check.flag("causal", causal)
    scale = d**-0.5 if scale is None else _check.number("scale", scale)
    diagonal = T_k - T_q if causal else T_k  # query i sees keys j <= i + diagonal
    q_, k_, v_ = (x.to(computing).reshape(math.prod(lead), *x.shape[-2:]) for x in (q, k, v))  # (N, T, d)
    out, lse = _Tiled.apply(q_ * scale, k_, v_, diagonal, block_q, block_k)
    out = out.reshape(*lead, T_q, v.shape[-1]).to(q.dtype)
    return (out, lse.reshape(*lead, T_q)) if return_lse else out


class _Tiled(torch.autograd.Function):
    """``softmax(Q Kᵀ) V`` and its log-sum-exp for ``(N, T, d)``; inside, scores and exponentials are to base 2."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, diagonal: int, block_q: int, block_k: int
    ) -> tuple[Tensor, Tensor]:
        """Tiles of queries outside, tiles of keys inside: each output row is written once."""
        N, T_q, _ = q.shape
        out, largest, total = (q.new_empty(N, T_q, size) for size in (v.shape[-1], 1, 1))
        for rows in _tiles(T_q, block_q):
            Q, O = q[:, rows], torch.zeros_like(out[:, rows])  # (N, r, d), (N, r, d_v)
            m, l = torch.full_like(largest[:, rows], NEVER), torch.zeros_like(total[:, rows])  # (N, r, 1)
            for cols in _tiles(k.shape[1], block_k):
                if not _any_seen(rows, cols, diagonal):
                    break
                S = _scores(Q, k[:, cols], rows, cols, diagonal)  # (N, r, c)
                m_before, m = m, torch.maximum(m, S.amax(-1, keepdim=True))
                finite_m = m.masked_fill(m == NEVER, 0.0)  # a row that has seen nothing yet: −∞ − (−∞) would be NaN
                kept, P = (m_before - finite_m).exp2_(), S.sub_(finite_m).exp2_()
                l = kept * l + P.sum(-1, keepdim=True)
                if _all_seen(rows, cols, diagonal):
                    O.mul_(kept).baddbmm_(P, v[:, cols])
                else:
                    O.mul_(kept).add_(_mix(P, v[:, cols]))  # an unseen value may be NaN, and 0 · NaN is NaN
            out[:, rows], largest[:, rows], total[:, rows] = O / l.masked_fill(l == 0, 1.0), m, l
        ctx.save_for_backward(q, k, v, out, largest, total)
        ctx.tiling = diagonal, block_q, block_k
        return out, (largest + total.log2()) / LOG2_E

    @staticmethod
    @own_precision
    def backward(ctx: Any, dO: Tensor, d_lse: Tensor) -> tuple[Tensor | None, ...]:
        """Tiles of keys outside, tiles of queries inside; each tile of weights is computed again.

        Softmax gives ``dS = P ⊙ (dP − D)`` with ``dP = dO Vᵀ`` and one number per row, ``D = Σ_j P_j dP_j``, which is
        ``dO · O`` and so needs no tile. The log-sum-exp adds ``P d_lse``. FlashAttention-2 keeps ``m + ln l`` alone;
        apart they still give the weights of scores so large that ``ln l`` would be rounded away.
        """
        if torch.is_grad_enabled():  # create_graph=True; the result would lack its own derivative and say nothing
            raise NotImplementedError("flash_attention has no second derivative; ops.softmax.attention has")
        q, k, v, out, m, l = ctx.saved_tensors
        diagonal, block_q, block_k = ctx.tiling
        dQ, dK, dV = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        empty = l == 0  # rows that see nothing: their P is 0 and must meet no infinity
        if not bool((q.sum() + v.sum()).isfinite()):  # a weight of 0 must meet no NaN either
            lost = ~out.isfinite()  # in `attention`, too, they take no part
            out, dO = out.masked_fill(lost, 0.0), dO.masked_fill(lost, 0.0)
            q, v = q.masked_fill(empty, 0.0), v.masked_fill(~v.isfinite(), 0.0)
        m, l = m.masked_fill(empty, 0.0), l.masked_fill(empty, 1.0)
        D = ((dO * out).sum(-1, keepdim=True) - d_lse).masked_fill(empty, 0.0)
        for cols in _tiles(k.shape[1], block_k):
            K, V = k[:, cols], v[:, cols]  # (N, c, d), (N, c, d_v)
            for rows in _tiles(q.shape[1], block_q):
                if not _any_seen(rows, cols, diagonal):
                    continue
                S = _scores(q[:, rows], K, rows, cols, diagonal)  # (N, r, c)
                P = S.sub_(m[:, rows]).exp2_().div_(l[:, rows])
                dS = (dO[:, rows] @ V.mT).sub_(D[:, rows]).mul_(P)
                dV[:, cols].baddbmm_(P.mT, dO[:, rows])
                dQ[:, rows].baddbmm_(dS, K)
                dK[:, cols].baddbmm_(dS.mT, q[:, rows])
        return dQ, dK, dV, None, None, None


def _tiles(T: int, block: int) -> list[slice]:
    """``T`` tokens, ``block`` at a time."""
    return [slice(start, min(start + block, T)) for start in range(0, T, block)]


def _any_seen(rows: slice, cols: slice, diagonal: int) -> bool:
    """Whether the last query of the tile sees the first key."""
    return cols.start <= rows.stop - 1 + diagonal


def _all_seen(rows: slice, cols: slice, diagonal: int) -> bool:
    """Whether the first query of the tile sees the last key."""
    return cols.stop - 1 <= rows.start + diagonal


def _scores(Q: Tensor, K: Tensor, rows: slice, cols: slice, diagonal: int) -> Tensor:
    """One tile of ``Q Kᵀ`` to base 2, −∞ where the query may not see the key."""
    S = (LOG2_E * Q) @ K.mT  # (N, r, c)
    if not _all_seen(rows, cols, diagonal):
        unseen = torch.ones(S.shape[1:], dtype=torch.bool, device=S.device)
        S.masked_fill_(unseen.triu(rows.start - cols.start + diagonal + 1), NEVER)
    return S


@dataclass(frozen=True, eq=False)
class OnlineStep:
    """What one block of scores did to a running softmax. ``(...)`` are the leading axes of the scores.

    Attributes:
        block: which scores, as a slice of the last axis.
        scores: a copy of the block's scores ``(..., n)``.
        m: the largest score so far ``(...)``; −∞ if all were.
        kept: ``exp(m_before − m)`` ``(...)``, what everything summed before was multiplied with; 0 in the first block.
        terms: ``exp(scores − m)`` ``(..., n)``, the block's own contributions.
        l: ``l_before · kept + Σ terms`` ``(...)``, the sum so far.
    """

    block: slice
    scores: Tensor
    m: Tensor
    kept: Tensor
    terms: Tensor
    l: Tensor


class OnlineSoftmax(NamedTuple):
    """The steps of an online softmax and what they end in: ``weights (..., n)`` and ``lse (...)``, natural log."""

    steps: list[OnlineStep]
    weights: Tensor
    lse: Tensor


def online_softmax(scores: Tensor, block: int) -> OnlineSoftmax:
    """The softmax of the last axis, ``block`` scores at a time, with every step on record.

    It reads each score once and carries two numbers per row. The weights of early blocks are known only after the last
    one: ``terms · exp(m − m_last) / l_last``. ``flash_attention`` applies the same factors to its output instead.

    Args:
        scores: ``(..., n)``; −∞ masks.
        block: scores per step.

    Returns:
        ``(steps, weights, lse)``: one ``OnlineStep`` per block; the softmax, in the dtype of ``scores``; the
        log-sum-exp. An empty or all −∞ row gives weights of 0 and −∞. All else is fp32 for half inputs.

    Raises:
        ValueError: scores that are not a floating tensor of at least one axis, or a block below 1.

    Source: Milakov and Gimelshein 2018, Algorithm 3. Page: ``exact/flash-attention``.
    """
    computing = _check.floating(scores=scores)
    if scores.ndim == 0:
        _check.complain("scores", "shape ()", "(..., n)")
    block = _check.at_least("block", block, 1)
    s = scores.to(computing)
    m, l = s.new_full(s.shape[:-1], NEVER), s.new_zeros(s.shape[:-1])
    steps = []
    for part in _tiles(s.shape[-1], block):
        m_before, m = m, torch.maximum(m, s[..., part].amax(-1))
        kept, terms = _exp_from(m_before, m), _exp_from(s[..., part], m.unsqueeze(-1))
        l = l * kept + terms.sum(-1)
        steps.append(OnlineStep(part, s[..., part].clone(), m, kept, terms, l))
    total = l.masked_fill(l == 0, 1.0)
    weights = [step.terms * (_exp_from(step.m, m) / total).unsqueeze(-1) for step in steps]
    weights = torch.cat(weights, dim=-1) if weights else s
    return OnlineSoftmax(steps, weights.to(scores.dtype), m + total.log())


def _exp_from(x: Tensor, m: Tensor) -> Tensor:
    """``exp(x − m)`` for ``x <= m``, 0 where both are −∞."""
    return (x - m.masked_fill(m == NEVER, 0.0)).exp()
