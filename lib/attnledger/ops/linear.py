"""Linear attention: a feature map in place of the exponential, so that the sum over the past becomes a state.

``S_t = S_{t−1} + φ(k_t)ᵀ v_t``, ``z_t = z_{t−1} + φ(k_t)``, ``o_t = φ(q_t) S_t / φ(q_t)·z_t``: per token
``O(d_φ d_v)`` work and a state of ``d_φ (d_v + 1)`` numbers, whatever the length. Katharopoulos et al., *Transformers
are RNNs* (2020), Eq. 8–12 and 16–20; random features from Choromanski et al., *Rethinking Attention with Performers*
(2021). The chunked form does ``C`` tokens at a time: what came before the chunk through the state, the chunk itself
through its ``C × C`` scores.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from . import _check
from ._precision import near_one, own_precision
from ._rows import Rows

FEW = 1  # up to so many tokens the recurrence is faster than a chunk
FeatureMap = Callable[[Tensor], Tensor]
State = Tensor | tuple[Tensor, Tensor]


def identity(x: Tensor) -> Tensor:
    """``φ(x) = x``, the similarity ``q·k`` itself: it may be negative, so use it with ``normalize=False``.

    Page: ``linear/linear-attention``.
    """
    _check.floating(x=x)
    return x


def relu(x: Tensor) -> Tensor:
    """``φ(x) = max(x, 0)``: scores are never negative, but all of them may be 0.

    Source: Performer-RELU of Choromanski et al. 2021, Eq. 5 with f = ReLU, here without random projections. Page:
    ``linear/linear-attention``.
    """
    _check.floating(x=x)
    return torch.relu(x)


def elu_plus_one(x: Tensor) -> Tensor:
    """``φ(x) = elu(x) + 1``, positive everywhere.

    Source: Katharopoulos et al. 2020, Eq. 7. Page: ``linear/linear-attention``.
    """
    _check.floating(x=x)
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())  # in fp32 (e^x − 1) + 1 is 0 below x = −17


def favor_plus(d: int, features: int = 256, seed: int = 0) -> FeatureMap:
    """Positive orthogonal random features whose dot product estimates ``exp(q·k / √d)`` without bias.

    ``φ(x) = exp(ω x' − ‖x'‖²/2) / √m`` with ``x' = x / d^¼``. The rows of ω are orthogonal in groups of ``d`` and each
    is normally distributed. No maximum is subtracted: one over the whole sequence would tell a token about its future.
    So a long ``x`` underflows: in fp32, with ``d = 64`` and 256 features, of normal inputs the first tokens have no
    feature but 0 at a standard deviation of 5, and half of them at 6.5. A query of that kind is answered with 0.

    Args:
        d: channels of the inputs.
        features: ``m``, the number of random features; the error falls with ``1/√m``.
        seed: of the random directions; the same seed gives the same map.

    Returns:
        The map, from ``(..., T, d)`` to ``(..., T, features)`` in the dtype of its input; halves are computed in fp32.

    Raises:
        ValueError: ``d`` or ``features`` below 1, a seed that is not a whole number of at most 64 bits; from the map,
            an input that is not a floating tensor of ``d`` channels.

    Source: Choromanski et al. 2021, Lemma 1 and section 2.4. Page: ``linear/linear-attention``.
    """
    d, features = _check.at_least("d", d, 1), _check.at_least("features", features, 1)
    random = _check.generator(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=random, dtype=torch.float64, device="cpu")

    def orthogonal() -> Tensor:
        Q, R = torch.linalg.qr(normal(d, d))
        return (Q * R.diagonal().sign()).mT  # LAPACK fixes the signs of Q; only with R's is Q uniformly distributed

    directions = torch.cat([orthogonal() for _ in range(math.ceil(features / d))])[:features]  # rows of length 1
    omega = directions * normal(features, d).norm(dim=-1, keepdim=True)

    @own_precision
    def feature_map(x: Tensor) -> Tensor:
        computing = _check.floating(x=x)
        _check.matrix("x", x)
        if x.shape[-1] != d:
            _check.complain("x", f"shape {tuple(x.shape)}", f"(..., T, d) with d = {d}")
        x_ = x.to(computing) * d**-0.25
        phi = torch.exp(x_ @ omega.to(x_).mT - x_.square().sum(-1, keepdim=True) / 2) / math.sqrt(features)
        return phi.to(x.dtype)

    return feature_map


@own_precision
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    feature_map: FeatureMap = elu_plus_one,
    causal: bool = True,
    normalize: bool = True,
    state: State | None = None,
    return_state: bool = False,
    chunk: int | None = None,
) -> Tensor | tuple[Tensor, State]:
    """Linear attention, by recurrence for a few tokens and by chunks for more.

    By chunks, a NaN or infinity in ``v`` reaches the whole chunk it is in, by recurrence only the tokens from its own
    on; one in ``k`` reaches only the tokens from its own on, one in ``q`` only its own.

    Args:
        q: ``(..., T, d)``; when not causal its length may differ from that of ``k``.
        k: ``(..., T, d)``.
        v: ``(..., T, d_v)``.
        feature_map: φ, from ``(..., T, d)`` to ``(..., T, d_φ)``, applied to queries and keys. It is given, and must
            return, the dtype that is computed in (fp32 for halves).
        causal: query ``t`` reads the state after token ``t`` was written; otherwise after the last.
        normalize: divide by ``φ(q)·z``; where that is exactly 0 the output is 0. There is no epsilon. The quotient does
            not depend on the size of ``φ(q)``, so a small ``φ(q)`` is enlarged first and ``φ(q)·z`` does not underflow
            (as long as ``φ(k)`` does not).
        state: what came before: ``S (..., d_φ, d_v)``, or ``(S, z)`` with ``z (..., d_φ)`` when normalised.
        return_state: also return the state after the last token (fp32 for half inputs).
        chunk: tokens per chunk; None takes the recurrence for one token (decoding) and chunks of 64 for more. Without a
            causal mask there are none.

    Returns:
        ``(..., T, d_v)`` in the dtype of ``q``; with ``return_state`` also the state.

    Raises:
        ValueError: shapes, dtypes, state, feature map or chunk that do not fit, a ``causal`` that is not a bool.

    Source: Katharopoulos et al. 2020, Eq. 8–12. Page: ``linear/linear-attention``.
    """
    options = {"feature_map": feature_map, "normalize": normalize, "state": state, "return_state": return_state}
    if chunk is not None:
        _check.at_least("chunk", chunk, 1)
    _check.flag("causal", causal)
    if not causal:
        return _read_after_all(q, k, v, **options)
    if chunk is None and _check.few_tokens(q, FEW):
        return recurrent_linear_attention(q, k, v, **options)
    return chunked_linear_attention(q, k, v, **options, chunk=64 if chunk is None else chunk)


@own_precision
def recurrent_linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    feature_map: FeatureMap = elu_plus_one,
    normalize: bool = True,
    state: State | None = None,
    return_state: bool = False,
) -> Tensor | tuple[Tensor, State]:
    """Causal linear attention token by token: the definition.

    Arguments and errors as in ``linear_attention``. Source: Katharopoulos et al. 2020, Eq. 16–20. Page:
    ``linear/linear-attention``.
    """
    q_, k_, v_, S, z = _prepare(q, k, v, feature_map, normalize, state)
    outputs = Rows(q.shape[-2])
    for t in range(q.shape[-2]):
        q_t, k_t, v_t = (x[..., t : t + 1, :] for x in (q_, k_, v_))  # (..., 1, d)
        S = S + k_t.mT @ v_t  # (..., d_φ, d_v)
        z = z + k_t.squeeze(-2)  # (..., d_φ)
        o_t = q_t @ S
        outputs.append(_divide(o_t, q_t @ z.unsqueeze(-1)) if normalize else o_t)
    out = outputs.joined() if q.shape[-2] else v_
    return _result(out.to(q.dtype), S, z, normalize, return_state)


@own_precision
def chunked_linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    feature_map: FeatureMap = elu_plus_one,
    normalize: bool = True,
    state: State | None = None,
    return_state: bool = False,
    chunk: int = 64,
) -> Tensor | tuple[Tensor, State]:
    """Causal linear attention ``chunk`` tokens at a time: ``O = Q S + Tril(Q Kᵀ) V``, then ``S ← S + Kᵀ V``.

    A NaN or infinity in ``v`` reaches the whole chunk it is in, not only the tokens from it on: ``0 · NaN`` is NaN. One
    in ``k`` does not. Arguments and errors as in ``linear_attention``. Source: the mixed chunk attention of Hua et al.,
    *Transformer Quality in Linear Time* (2022, arXiv 2202.10447), and the chunkwise recurrent form of Sun et al.,
    *Retentive Network* (2023, arXiv 2307.08621), Eq. 7 without its decay. Page: ``linear/linear-attention``.
    """
    chunk = _check.at_least("chunk", chunk, 1)
    q_, k_, v_, S, z = _prepare(q, k, v, feature_map, normalize, state)
    outputs = Rows(q.shape[-2])
    for start in range(0, q.shape[-2], chunk):
        Q, K, V = (x[..., start : start + chunk, :] for x in (q_, k_, v_))
        scores = (Q @ K.mT).tril()  # (..., C, C)
        O = Q @ S + scores @ V
        outputs.append(_divide(O, Q @ z.unsqueeze(-1) + scores.sum(-1, keepdim=True)) if normalize else O)
        S = S + K.mT @ V
        z = z + K.sum(-2)
    out = outputs.joined() if q.shape[-2] else v_
    return _result(out.to(q.dtype), S, z, normalize, return_state)


def _read_after_all(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    feature_map: FeatureMap,
    normalize: bool,
    state: State | None,
    return_state: bool,
) -> Tensor | tuple[Tensor, State]:
    """Linear attention without a causal mask: write every token, then read."""
    q_, k_, v_, S, z = _prepare(q, k, v, feature_map, normalize, state, causal=False)
    S = S + k_.mT @ v_
    z = z + k_.sum(-2)
    out = q_ @ S
    if normalize:
        out = _divide(out, q_ @ z.unsqueeze(-1))
    return _result(out.to(q.dtype), S, z, normalize, return_state)


def _prepare(
    q: Tensor, k: Tensor, v: Tensor, feature_map: FeatureMap, normalize: bool, state: State | None, causal: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Check the arguments; return φ(q), φ(k), v and the entering S, z in the computing dtype."""
    computing = _check.floating(q=q, k=k, v=v)
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check.matrix(name, x)
    T = q.shape[-2] if causal else k.shape[-2]
    _check.shape("k", k, (*q.shape[:-2], T, q.shape[-1]), "(..., T, d)")
    _check.shape("v", v, (*q.shape[:-2], T, v.shape[-1]), "(..., T, d_v)")
    if not callable(feature_map):
        _check.complain("feature_map", type(feature_map).__name__, "a function from (..., T, d) to (..., T, d_phi)")
    q_, k_, v_ = feature_map(q.to(computing)), feature_map(k.to(computing)), v.to(computing)
    _check.floating(v=v_, **{"feature_map(q)": q_, "feature_map(k)": k_})
    _check.matrix("feature_map(q)", q_, "(..., T, d_phi)")
    _check.shape("feature_map(q)", q_, (*q.shape[:-1], q_.shape[-1]), "(..., T, d_phi)")
    _check.shape("feature_map(k)", k_, (*k.shape[:-1], q_.shape[-1]), "(..., T, d_phi)")
    S, z = _enter(state, normalize, (*q.shape[:-2], q_.shape[-1], v.shape[-1]), v_)
    if T == 0:  # nothing is added, and what is returned must not be the caller's own tensors
        S, z = S.clone(), z.clone()
    q_ = near_one(q_) if normalize else q_  # cancels in the quotient
    return q_, k_, v_, S, z


def _enter(state: State | None, normalize: bool, size: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
    """The entering state ``S`` of shape ``size`` and ``z``, zeros if there is none."""
    if state is None:
        return like.new_zeros(size), like.new_zeros(size[:-1])
    if normalize and not (isinstance(state, tuple) and len(state) == 2):
        _check.complain("state", type(state).__name__, "a pair (S, z), as normalize=True needs")
    if not normalize and not isinstance(state, Tensor):
        _check.complain("state", type(state).__name__, "the tensor S, as normalize=False needs")
    S, z = state if normalize else (state, like.new_zeros(size[:-1]))
    for name, x, want, words in (("S", S, size, "(..., d_phi, d_v)"), ("z", z, size[:-1], "(..., d_phi)")):
        _check.gate(f"state {name}", x, like)
        _check.shape(f"state {name}", x, want, words)
    return S, z


def _divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """``(..., T, d_v) / (..., T, 1)``, 0 where the denominator is exactly 0."""
    nothing = denominator == 0
    return (numerator / denominator.masked_fill(nothing, 1.0)).masked_fill(nothing, 0.0)


def _result(out: Tensor, S: Tensor, z: Tensor, normalize: bool, return_state: bool) -> Tensor | tuple[Tensor, State]:
    """What the caller asked for."""
    if not return_state:
        return out
    return out, (S, z) if normalize else S
