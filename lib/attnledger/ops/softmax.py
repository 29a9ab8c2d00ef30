"""Softmax attention, the yardstick of the book: every query is compared with every key it may see.

``O = softmax(Q Kᵀ / √d + bias) V`` costs ``2 T_q T_k (d + d_v)`` FLOP per head, two per multiply-add, and holds the
``T_q × T_k`` score matrix; at decoding it holds every past key and value. Written out as in Vaswani et al., *Attention
Is All You Need* (2017), Eq. 1, with the log-sum-exp of each row kept, so that parts can be merged (Milakov and
Gimelshein 2018; Dao et al. 2022).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import _check
from ._precision import own_precision

NEVER = float("-inf")


@own_precision
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = True,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax attention; a query that may see nothing gets 0 and a log-sum-exp of −∞.

    Unlike ``torch.nn.functional.scaled_dot_product_attention`` it is causal by default, and its causal mask is aligned
    to the end: with ``T_q < T_k`` the queries are the last ``T_q`` tokens (decoding), not the first. Batches go on the
    leading axes; ``torch.vmap`` cannot add one, since whether a number is finite is asked by value.

    Args:
        q: ``(..., T_q, d)``.
        k: ``(..., T_k, d)``, same leading axes.
        v: ``(..., T_k, d_v)``, same leading axes. A NaN or infinity in ``v`` reaches only queries that give it weight,
            as NaN, and no gradient. What no query sees may hold anything, as may a query that sees nothing.
        causal: query ``i`` sees keys ``j <= i + T_k - T_q``.
        mask: boolean, True = may attend, combined with ``causal`` by *and*; shaped like the scores ``(..., T_q, T_k)``
            or like their last axes (``(T_q, T_k)`` for all heads alike).
        bias: added to the scaled scores, shaped as ``mask``; −∞ masks.
        scale: factor on ``q kᵀ``, ``d ** -0.5`` unless given.
        return_lse: also return the natural-log log-sum-exp of each row of scores, ``(..., T_q)``.

    Returns:
        ``(..., T_q, d_v)`` in the dtype of ``q``; with ``return_lse`` also the log-sum-exp (fp32 for half inputs).

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, a scale that is not a finite number (``None`` aside), a
            ``causal`` that is not a bool.

    Source: Vaswani et al. 2017, Eq. 1. Page: ``linear/linear-attention``.
    """
    _check.floating(q=q, k=k, v=v)
    _check.matrix("v", v, "(..., T_k, d_v)")
    weights, lse = _weights_and_lse(q, k, causal, mask, bias, scale)
    _check.shape("v", v, (*k.shape[:-1], v.shape[-1]), "(..., T_k, d_v)")
    out = _mix(weights, v.to(weights.dtype)).to(q.dtype)
    return (out, lse) if return_lse else out


@own_precision
def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    causal: bool = True,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """The matrix that ``attention`` multiplies ``v`` with, ``(..., T_q, T_k)``; its rows sum to 1, or to 0 if empty.

    Arguments, errors, source and page as in ``attention``.
    """
    weights, _ = _weights_and_lse(q, k, causal, mask, bias, scale)
    return weights.to(q.dtype)


def merge(outs: Sequence[Tensor], lses: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Join attention over disjoint sets of keys into attention over their union.

    ``lse = log Σ_p exp lse_p`` and ``out = Σ_p exp(lse_p − lse) out_p``, in natural logarithms; a part that saw nothing
    (``lse_p = −∞``) adds nothing, and parts that all saw nothing give 0 and −∞.

    Args:
        outs: the parts' outputs, each ``(..., T, d_v)``.
        lses: their log-sum-exps, each ``(..., T)``.

    Returns:
        ``(out, lse)``, shaped like one part.

    Raises:
        ValueError: no parts, parts that are not in a sequence, unequal numbers of outputs and log-sum-exps, or parts of
            different shapes.

    Source: Dao et al. 2022 (*FlashAttention*), Algorithm 1. Page: ``sparse/block-selection``.
    """
    for name, parts in ("outs", outs), ("lses", lses):
        if not isinstance(parts, Sequence | Tensor):
            _check.complain(name, type(parts).__name__, "a list or tuple of tensors")
    if len(outs) == 0 or len(outs) != len(lses):
        _check.complain("lses", f"{len(lses)} of them", f"as many as outs ({len(outs)}), and at least one")
    computing = _check.floating(**{f"outs[{p}]": out for p, out in enumerate(outs)})
    for p, (out, lse) in enumerate(zip(outs, lses, strict=True)):
        _check.matrix(f"outs[{p}]", out, "(..., T, d_v)")
        _check.shape(f"outs[{p}]", out, tuple(outs[0].shape), "the shape of outs[0]")
        _check.gate(f"lses[{p}]", lse, out)
        _check.shape(f"lses[{p}]", lse, tuple(out.shape[:-1]), "(..., T)")
    parts = torch.stack([out.to(computing) for out in outs])  # (parts, ..., T, d_v)
    weights, lse = _softmax(torch.stack([lse.to(computing) for lse in lses], dim=-1))  # (..., T, parts), (..., T)
    weights = weights.movedim(-1, 0).unsqueeze(-1)  # (parts, ..., T, 1)
    out = (weights * parts.masked_fill(weights == 0, 0.0)).sum(0)
    return out.to(outs[0].dtype), lse


def _weights_and_lse(
    q: Tensor, k: Tensor, causal: bool, mask: Tensor | None, bias: Tensor | None, scale: float | None
) -> tuple[Tensor, Tensor]:
    """Attention weights ``(..., T_q, T_k)`` and log-sum-exps ``(..., T_q)`` in the computing dtype."""
    computing = _check.floating(q=q, k=k)
    _check.matrix("q", q, "(..., T_q, d)")
    _check.matrix("k", k, "(..., T_k, d)")
    _check.shape("k", k, (*q.shape[:-2], k.shape[-2], q.shape[-1]), "(..., T_k, d)")
    T_k = k.shape[-2]
    visible = _visible(mask, (*q.shape[:-1], T_k), causal, q.device)
    scale = q.shape[-1] ** -0.5 if scale is None else _check.number("scale", scale)
    q_, k_ = q.to(computing), k.to(computing)
    if bias is not None:
        _check.gate("bias", bias, q)
        _check_trailing("bias", bias, (*q.shape[:-1], T_k))
        if not (bool(q_.isfinite().all()) and bool(k_.isfinite().all())):  # NaN − ∞ is NaN; else adding −∞ is enough
            seen = bias != NEVER
            visible = seen if visible is None else visible & seen
    if visible is not None:
        q_, k_ = _silence_unseen(q_, visible.mT), _silence_unseen(k_, visible)
    scores = (q_ * scale) @ k_.mT  # (..., T_q, T_k)
    if bias is not None:
        scores = scores + bias.to(computing)
    if visible is not None:
        scores = scores.masked_fill(~visible, NEVER)
    return _softmax(scores)


def _softmax(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax and log-sum-exp over the last axis; an empty or all −∞ row gives 0 and −∞, with gradients of 0."""
    if scores.shape[-1] == 0:
        return scores, scores.new_full(scores.shape[:-1], NEVER)
    peak = scores.detach().amax(-1, keepdim=True)  # any shift cancels, so none needs a gradient
    weights = (scores - peak.masked_fill(peak == NEVER, 0.0)).exp()  # −∞ − (−∞) would be NaN
    total = weights.sum(-1, keepdim=True)
    empty = total == 0
    total = total.masked_fill(empty, 1.0)
    lse = (peak + total.log()).squeeze(-1)
    return weights / total, lse


def _visible(mask: Tensor | None, scores_shape: tuple[int, ...], causal: bool, device: torch.device) -> Tensor | None:
    """The boolean mask of what each query may see, or None if everything."""
    _check.flag("causal", causal)
    T_q, T_k = scores_shape[-2:]
    visible = None
    if causal:
        visible = torch.ones(T_q, T_k, dtype=torch.bool, device=device).tril(T_k - T_q)
    if mask is not None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            _check.complain("mask", getattr(mask, "dtype", type(mask).__name__), "a boolean tensor, True = may attend")
        if mask.device != device:
            _check.complain("mask", f"a mask on {mask.device}", f"one on {device} like q")
        _check_trailing("mask", mask, scores_shape)
        visible = mask if visible is None else mask & visible
    return visible


def _check_trailing(name: str, x: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Check that ``x`` is shaped like the scores or like their last axes, none of them broadcast."""
    if x.ndim < 2 or tuple(x.shape) != tuple(scores_shape[-x.ndim :]):
        _check.complain(
            name, f"shape {tuple(x.shape)}", f"(..., T_q, T_k) = {tuple(scores_shape)}, or its last two or more axes"
        )


def _silence_unseen(k: Tensor, visible: Tensor) -> Tensor:
    """Zero the keys that no query sees: padding may hold NaN, and 0 · NaN would reach the queries' gradients.

    Given queries and ``visible.mT`` it zeroes those that see no key.
    """
    if bool(k.isfinite().all()):
        return k
    return k.masked_fill(~visible.any(-2).unsqueeze(-1), 0.0)


def _mix(weights: Tensor, v: Tensor) -> Tensor:
    """``weights @ v`` in which a weight of 0 silences its row of ``v`` even where that row holds NaN or infinity."""
    finite = v.isfinite()
    if bool(finite.all()):
        return weights @ v
    heard = (weights.detach() > 0).to(v.dtype) @ (~finite).to(v.dtype) > 0  # (..., T_q, d_v)
    return (weights @ v.masked_fill(~finite, 0.0)).masked_fill(heard, float("nan"))
