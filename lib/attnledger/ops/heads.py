"""Attention layers that keep less per token: shared heads (GQA, MQA), a shared latent (MLA), factors (TPA).

All four give every query head a key and a value for each past token; they differ in what they keep to make them from.
Per token and layer, in numbers, with ``h`` query heads, ``h_kv`` cached heads and widths ``d_k``, ``d_v``::

    GroupedQueryAttention    h_kv (d_k + d_v)                        h_kv = h is MHA, h_kv = 1 is MQA
    LatentAttention          d_c + d_R                               a latent, and one rotary key for all heads
    TensorProductAttention   R_K (h + d_k) + R_V (h + d_v)           factors over heads and over channels

``decode(x, cache)`` appends to a cache and returns a longer one (the old one stays valid); ``forward(x)`` is the same
with nothing cached yet, so a sequence may be cut anywhere. Positions count from 0 at the first token cached. A mask of
padding is not part of these layers: give each sequence its own length.

Weights are ``torch.nn.Linear`` without bias, ``weight (out, in)`` as the papers write ``W h``; the rows of one head lie
together, head 0 first, each head's channels in the order of ``apply_rope``'s ``layout``. They start as
``torch.nn.Linear`` starts them, uniform within ``in ** -0.5``, unless a class says otherwise; seed with
``torch.manual_seed``. Parameters and ``x`` share a dtype; halves are computed in fp32, kept in the cache as halves
(what a real cache holds) and returned as halves. Projections are called, so that their hooks fire and a module put in
the place of one, an adapter for example, is heard; what does not call them says so.

Sources: Shazeer 2019 (MQA); Ainslie et al. 2023 (GQA); DeepSeek-AI 2024 (*DeepSeek-V2*, MLA); Zhang et al. 2025 (TPA).
"""

import copy
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from . import _check
from ._precision import own_precision
from .position import _check_frequencies, _check_layout, apply_rope
from .softmax import attention


class _Cache:
    """What the three caches share: tensors with the tokens on the last axis but one, and how they grow."""

    def __post_init__(self):
        kept = self._kept()
        _check.floating(**kept)
        for name, x in kept.items():
            _check.matrix(name, x, self._words)
            if x.ndim < self._axes:
                _check.complain(name, f"shape {tuple(x.shape)}", self._words)
        for name, shape in self._shapes().items():
            _check.shape(name, kept[name], shape, self._words)
        if self.rope is not None:
            _check_frequencies("rope", self.rope)
        _check_layout(self.layout)

    @property
    def tokens(self) -> int:
        """Tokens kept so far; also the position of the next one."""
        return next(iter(self._kept().values())).shape[-2]

    def append(self, new: Self) -> Self:
        """A cache with the tokens of ``new`` after these.

        ValueError: a cache of another kind, or shapes, dtypes or rotations that do not fit.
        """
        if not isinstance(new, type(self)):
            _check.complain("new", type(new).__name__, f"a {type(self).__name__}")
        _same_rotation(self, new)
        grown = {}
        for (name, old), fresh in zip(self._kept().items(), new._kept().values(), strict=True):
            _check.floating(**{f"new.{name}": fresh, f"cache.{name}": old})
            _check.shape(f"cache.{name}", old, (*fresh.shape[:-2], self.tokens, fresh.shape[-1]), "(..., T, width)")
            grown[name] = torch.cat((old, fresh), dim=-2)
        return type(self)(**grown, rope=new.rope, layout=new.layout)

    def _kept(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("rope", "layout")}


@dataclass(frozen=True, eq=False)
class KeyValueCache(_Cache):
    """Keys ``(..., h_kv, T, d_k)``, already rotated, and values ``(..., h_kv, T, d_v)`` of the tokens so far.

    ``rope`` holds the frequencies ``(pairs,)`` in fp64 or fp32 that the keys were rotated with, None if they were not;
    ``layout`` says which channels made a pair.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, frequencies that are none, an unknown layout.

    Source: Shazeer 2019, section 3; Ainslie et al. 2023, section 2.2. Page: ``kv_cache/kv-tables``.
    """

    k: Tensor
    v: Tensor
    rope: Tensor | None = None
    layout: str = "half"

    _axes, _words = 3, "(..., h_kv, T, width)"

    @property
    def numbers_per_token(self) -> int:
        """Numbers kept per token of one sequence: ``h_kv (d_k + d_v)``."""
        return self.k.shape[-3] * (self.k.shape[-1] + self.v.shape[-1])

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"v": (*self.k.shape[:-1], self.v.shape[-1])}


@dataclass(frozen=True, eq=False)
class LatentCache(_Cache):
    """Latents ``(..., T, d_c)`` and the rotated shared keys ``(..., T, d_R)`` of the tokens so far.

    ``rope`` holds the frequencies ``(d_R / 2,)`` in fp64 or fp32 that the keys were rotated with; ``layout`` says which
    channels made a pair.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, frequencies that are none, an unknown layout.

    Source: DeepSeek-AI 2024 (*DeepSeek-V2*), Eq. 9 and 15. Page: ``kv_cache/latent``.
    """

    latent: Tensor
    rotary: Tensor
    rope: Tensor
    layout: str = "half"

    _axes, _words = 2, "(..., T, width)"

    def __post_init__(self):
        super().__post_init__()
        _check_frequencies("rope", self.rope)

    @property
    def numbers_per_token(self) -> int:
        """Numbers kept per token of one sequence: ``d_c + d_R``."""
        return self.latent.shape[-1] + self.rotary.shape[-1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"rotary": (*self.latent.shape[:-1], self.rotary.shape[-1])}


@dataclass(frozen=True, eq=False)
class FactorCache(_Cache):
    """Factors of keys and values so far: over heads ``a (..., R, T, h)``, over channels ``b (..., R, T, d)``.

    ``b_k`` is already rotated; ``rope`` holds the frequencies ``(pairs,)`` in fp64 or fp32 it was rotated with, None if
    it was not; ``layout`` says which channels made a pair.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, frequencies that are none, an unknown layout.

    Source: Zhang et al. 2025 (*Tensor Product Attention*), Eq. 3.1 and 3.5. Page: ``kv_cache/tensor-product``.
    """

    a_k: Tensor
    b_k: Tensor
    a_v: Tensor
    b_v: Tensor
    rope: Tensor | None = None
    layout: str = "half"

    _axes, _words = 3, "(..., R, T, width)"

    @property
    def numbers_per_token(self) -> int:
        """Numbers kept per token of one sequence: ``R_K (h + d_k) + R_V (h + d_v)``."""
        return sum(x.shape[-3] * x.shape[-1] for x in (self.a_k, self.b_k, self.a_v, self.b_v))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        *lead, R_K, T, _ = self.a_k.shape
        R_V = self.a_v.shape[-3]
        return {
            "b_k": (*lead, R_K, T, self.b_k.shape[-1]),
            "a_v": (*lead, R_V, T, self.a_v.shape[-1]),
            "b_v": (*lead, R_V, T, self.b_v.shape[-1]),
        }


class GroupedQueryAttention(nn.Module):
    """Causal attention in which groups of query heads share a key head and a value head: MHA, GQA and MQA.

    Query head ``i`` reads key head ``i // (h / h_kv)``: neighbours share. ``kv_heads=heads`` is multi-head attention,
    ``kv_heads=1`` multi-query attention.

    Weights: ``w_q (h d_k, d_model)``, ``w_k (h_kv d_k, d_model)``, ``w_v (h_kv d_v, d_model)``,
    ``w_o (d_model, h d_v)``.

    Args:
        d_model: width of ``x`` and of the output.
        heads: query heads ``h``.
        kv_heads: cached heads ``h_kv``, a divisor of ``heads``; ``heads`` if None.
        head_dim: width ``d_k`` of queries and keys; ``d_model / heads`` if None.
        value_dim: width ``d_v`` of values; ``head_dim`` if None.
        rope: frequencies that queries and keys are rotated with, as ``rope_frequencies(d_k)`` gives them; fewer than
            ``d_k / 2`` leave the last channels alone (partial rotation), None all of them (no positions).
        layout: which channels make a pair, as in ``apply_rope``.

    Raises:
        ValueError: a count below 1, ``kv_heads`` no divisor of ``heads``, ``d_model`` no multiple of ``heads`` without
            ``head_dim``, frequencies that do not fit, an unknown layout.

    Source: Vaswani et al. 2017, section 3.2.2; Shazeer 2019, section 3; Ainslie et al. 2023, section 2.2.
    Page: ``kv_cache/kv-tables``.
    """

    def __init__(
        self,
        d_model: int,
        *,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        rope: Tensor | None = None,
        layout: str = "half",
    ):
        super().__init__()
        d_model, heads, self.head_dim, self.value_dim = _widths(d_model, heads, head_dim, value_dim)
        self.d_model, self.heads = d_model, heads
        self.kv_heads = _divisor("kv_heads", heads if kv_heads is None else kv_heads, "heads", heads)
        self.rope, self.layout = _rotation(rope, layout, self.head_dim), layout
        self.w_q = nn.Linear(d_model, heads * self.head_dim, bias=False)
        self.w_k = nn.Linear(d_model, self.kv_heads * self.head_dim, bias=False)
        self.w_v = nn.Linear(d_model, self.kv_heads * self.value_dim, bias=False)
        self.w_o = nn.Linear(heads * self.value_dim, d_model, bias=False)

    def forward(self, x: Tensor, *, return_cache: bool = False) -> Tensor | tuple[Tensor, KeyValueCache]:
        """Prefill: ``x (..., T, d_model)`` to the same shape, each token seeing itself and those before it.

        With ``return_cache`` also the cache to decode on. ValueError: an ``x`` or a parameter that does not fit.
        """
        _check.flag("return_cache", return_cache)
        out, cache = self.decode(x)
        return (out, cache) if return_cache else out

    @own_precision
    def decode(self, x: Tensor, cache: KeyValueCache | None = None) -> tuple[Tensor, KeyValueCache]:
        """The next tokens ``x (..., T, d_model)``, one or more, after those of ``cache`` (None: after nothing).

        Returns their outputs, shaped like ``x``, and the longer cache.
        ValueError: an ``x``, a parameter or a cache that does not fit.
        """
        x_, start = _begin(self, x, cache, KeyValueCache)
        q = _rotate(self, _to_heads(_call(self.w_q, x_), self.heads), start)  # (..., h, T, d_k)
        k = _rotate(self, _to_heads(_call(self.w_k, x_), self.kv_heads), start)  # (..., h_kv, T, d_k)
        v = _to_heads(_call(self.w_v, x_), self.kv_heads)  # (..., h_kv, T, d_v)
        cache = _extend(cache, KeyValueCache(k.to(x.dtype), v.to(x.dtype), self.rope, self.layout))
        out = _attend_shared(q, cache.k.to(x_.dtype), cache.v.to(x_.dtype))  # (..., h, T, d_v)
        return _call(self.w_o, _from_heads(out)).to(x.dtype), cache


class LatentAttention(nn.Module):
    """Multi-head latent attention (MLA): all keys and values of a token are made from one narrow latent.

    For token ``t`` and head ``i``, with ``x_t`` the input (the paper's ``h_t``)::

        c_t = W_DKV x_t                                       the latent, kept                          (9)
        k^C_ti = W_UK,i c_t         v_ti = W_UV,i c_t         made from it                              (10, 11)
        c^Q_t = W_DQ x_t            q^C_ti = W_UQ,i c^Q_t     queries, compressed too if wished         (12, 13)
        q^R_ti = RoPE(W_QR,i c^Q_t)                           a rotary query per head                   (14)
        k^R_t = RoPE(W_KR x_t)                                one rotary key for all heads, kept        (15)
        q_ti = [q^C_ti; q^R_ti]     k_ti = [k^C_ti; k^R_t]                                              (16, 17)
        o_ti = Σ_s softmax_s(q_ti · k_si / √(d_h + d_R)) v_si                                           (18)
        out_t = W_O [o_t1; …; o_th]                                                                     (19)

    Absorbed (``absorb=True``) no key and no value is ever made. ``q^C · W_UK c = (W_UKᵀ q^C) · c`` scores the latent
    itself, and ``Σ_s p_s W_UV c_s = W_UV Σ_s p_s c_s`` mixes latents first: multi-query attention with one key
    ``[c; k^R]`` of width ``d_c + d_R`` and the value ``c``. The outputs are the same. The absorbed form costs more
    multiply-adds per pair of tokens but reads only the cache: good for decoding, bad for a long prefill. A rotation of
    ``k^C`` would stand between ``W_UQᵀ`` and ``W_UK`` and depend on both positions, so nothing could be absorbed:
    hence the rotary channels of their own. Absorption reads ``w_uk.weight``, ``w_uv.weight`` and ``w_uv.bias`` and
    calls neither projection (a bias of ``w_uk`` would shift all scores of a query alike): merge an adapter on them
    first.

    Weights: ``w_dkv (d_c, d_model)``, ``w_uk (h d_h, d_c)``, ``w_uv (h d_v, d_c)``, ``w_kr (d_R, d_model)``,
    ``w_uq (h d_h, d_q)``, ``w_qr (h d_R, d_q)``, ``w_o (d_model, h d_v)``; ``w_dq (d_q, d_model)`` with query
    compression, else None and ``d_q = d_model``. The released models normalise both latents (section 3.1.2), which the
    equations leave out: put ``torch.nn.RMSNorm(d_c, eps=1e-6)`` into ``norm_kv`` and, with query compression, one of
    width ``d_q`` into ``norm_q``. The cache then holds normalised latents. Norms are computed in fp32 for halves; their
    own weights may be halves or stay in fp32.

    Args:
        d_model: width of ``x`` and of the output.
        heads: heads ``h``.
        latent: width ``d_c`` of the latent.
        rope: frequencies ``(d_R / 2,)`` as ``rope_frequencies(d_R)`` gives them; they say how wide the rotary key is.
            All zero rotates nothing (NoPE).
        head_dim: width ``d_h`` of a head's keys without the rotary part; ``d_model / heads`` if None.
        value_dim: width ``d_v`` of values; ``head_dim`` if None.
        query_latent: width ``d_q`` that queries are compressed to; None for no compression.
        layout: which channels make a pair, as in ``apply_rope``.

    Raises:
        ValueError: a count below 1, ``d_model`` no multiple of ``heads`` without ``head_dim``, frequencies that are
            none, an unknown layout.

    Source: DeepSeek-AI 2024 (*DeepSeek-V2*), Eq. 9–19. Page: ``kv_cache/latent``.
    """

    def __init__(
        self,
        d_model: int,
        *,
        heads: int,
        latent: int,
        rope: Tensor,
        head_dim: int | None = None,
        value_dim: int | None = None,
        query_latent: int | None = None,
        layout: str = "half",
    ):
        super().__init__()
        d_model, heads, self.head_dim, self.value_dim = _widths(d_model, heads, head_dim, value_dim)
        self.d_model, self.heads = d_model, heads
        latent = _check.at_least("latent", latent, 1)
        if rope is None:
            _check.complain("rope", None, "frequencies (d_R / 2,); zeros for no rotation")
        self.rope, self.layout = _rotation(rope, layout), layout
        self.rope_dim = 2 * len(self.rope)
        d_q = d_model if query_latent is None else _check.at_least("query_latent", query_latent, 1)
        self.w_dkv = nn.Linear(d_model, latent, bias=False)
        self.w_uk = nn.Linear(latent, heads * self.head_dim, bias=False)
        self.w_uv = nn.Linear(latent, heads * self.value_dim, bias=False)
        self.w_kr = nn.Linear(d_model, self.rope_dim, bias=False)
        self.w_dq = None if query_latent is None else nn.Linear(d_model, d_q, bias=False)
        self.w_uq = nn.Linear(d_q, heads * self.head_dim, bias=False)
        self.w_qr = nn.Linear(d_q, heads * self.rope_dim, bias=False)
        self.w_o = nn.Linear(heads * self.value_dim, d_model, bias=False)
        self.norm_kv, self.norm_q = nn.Identity(), nn.Identity()

    def forward(
        self, x: Tensor, *, absorb: bool = False, return_cache: bool = False
    ) -> Tensor | tuple[Tensor, LatentCache]:
        """Prefill: ``x (..., T, d_model)`` to the same shape, each token seeing itself and those before it.

        ``absorb`` changes how it is computed, not what. With ``return_cache`` also the cache to decode on.
        ValueError: an ``x`` or a parameter that does not fit.
        """
        _check.flag("return_cache", return_cache)
        out, cache = self.decode(x, absorb=absorb)
        return (out, cache) if return_cache else out

    @own_precision
    def decode(self, x: Tensor, cache: LatentCache | None = None, *, absorb: bool = True) -> tuple[Tensor, LatentCache]:
        """The next tokens ``x (..., T, d_model)``, one or more, after those of ``cache`` (None: after nothing).

        Returns their outputs, shaped like ``x``, and the longer cache. ``absorb`` changes how it is computed, not what.
        ValueError: an ``x``, a parameter or a cache that does not fit.
        """
        _check.flag("absorb", absorb)
        x_, start = _begin(self, x, cache, LatentCache)
        c = _call(self.norm_kv, _call(self.w_dkv, x_))  # (..., T, d_c)
        k_r = _rotate(self, _call(self.w_kr, x_), start)  # (..., T, d_R)
        c_q = x_ if self.w_dq is None else _call(self.norm_q, _call(self.w_dq, x_))  # (..., T, d_q)
        q_c = _to_heads(_call(self.w_uq, c_q), self.heads)  # (..., h, T, d_h)
        q_r = _rotate(self, _to_heads(_call(self.w_qr, c_q), self.heads), start)  # (..., h, T, d_R)
        cache = _extend(cache, LatentCache(c.to(x.dtype), k_r.to(x.dtype), self.rope, self.layout))
        attend = self._attend_absorbed if absorb else self._attend_expanded
        out = attend(q_c, q_r, cache.latent.to(x_.dtype), cache.rotary.to(x_.dtype))  # (..., h, T, d_v)
        return _call(self.w_o, _from_heads(out)).to(x.dtype), cache

    def _attend_expanded(self, q_c: Tensor, q_r: Tensor, c: Tensor, k_r: Tensor) -> Tensor:
        """Keys and values made from the latents, then multi-head attention."""
        k_c = _to_heads(_call(self.w_uk, c), self.heads)  # (..., h, T_k, d_h)
        v = _to_heads(_call(self.w_uv, c), self.heads)  # (..., h, T_k, d_v)
        k_r = repeat_heads(k_r.unsqueeze(-3), self.heads)  # (..., h, T_k, d_R)
        return attention(torch.cat((q_c, q_r), -1), torch.cat((k_c, k_r), -1), v)

    def _attend_absorbed(self, q_c: Tensor, q_r: Tensor, c: Tensor, k_r: Tensor) -> Tensor:
        """Queries carried into the latent space, where all heads read the same key and the same value."""
        W_uk = self.w_uk.weight.to(c.dtype).unflatten(0, (self.heads, self.head_dim))  # (h, d_h, d_c)
        W_uv = self.w_uv.weight.to(c.dtype).unflatten(0, (self.heads, self.value_dim))  # (h, d_v, d_c)
        q = torch.cat((q_c @ W_uk, q_r), -1)  # (..., h, T, d_c + d_R)
        k, v = torch.cat((c, k_r), -1).unsqueeze(-3), c.unsqueeze(-3)  # (..., 1, T_k, ·): one head for all
        scale = (self.head_dim + self.rope_dim) ** -0.5  # the products are those of d_h + d_R channels
        out = _attend_shared(q, k, v, scale) @ W_uv.mT  # (..., h, T, d_v)
        if self.w_uv.bias is not None:  # weights sum to 1, so a mixture of shifted values is the mixture, shifted
            out = out + self.w_uv.bias.view(self.heads, 1, self.value_dim)
        return out


class TensorProductAttention(nn.Module):
    """Tensor product attention (TPA): queries, keys and values are sums of few products of two narrow factors.

    For token ``t`` (``K`` and ``V`` likewise, each with its rank)::

        a_r = W^a_r x_t  (h,)      b_r = W^b_r x_t  (d,)      Q_t = 1/R_Q Σ_r a_r ⊗ b_r  (h, d)         (3.1)

    and then multi-head attention (3.2, 3.3). Both factors depend on the token; those of keys and values are what is
    kept. A rotation acts on channels only, so it may act on ``b``: keys are kept as rotated factors (3.5), and a head's
    key is rotated as in any other layer (Theorem 3.1).

    With factors over heads that do not depend on the token, that is ``W^a = 0`` and a bias instead (assign one to
    ``w_aq.bias``), ``R = h`` and ``a_r = h e_r`` make MHA; ``R_K = R_V = h_kv`` and ``a_r = h_kv`` times the indicator
    of group ``r`` make GQA, and MQA with ``h_kv = 1`` (section 4).

    Weights: ``w_aq (R_Q h, d_model)``, ``w_bq (R_Q d_k, d_model)``, likewise ``w_ak``, ``w_bk``, ``w_av``, ``w_bv``,
    the rows of one rank together; ``w_o (d_model, h d_v)``. Those of the factors start uniform within
    ``√(6 / (in + out))``, the paper's Xavier initialisation (appendix G).

    Args:
        d_model: width of ``x`` and of the output.
        heads: heads ``h``.
        ranks: a tuple ``(R_Q, R_K, R_V)``; the paper's experiments take (6, 2, 2).
        head_dim: width ``d_k`` of queries and keys; ``d_model / heads`` if None.
        value_dim: width ``d_v`` of values; ``head_dim`` if None.
        rope: frequencies that queries and keys are rotated with, as ``rope_frequencies(d_k)`` gives them; fewer than
            ``d_k / 2`` leave the last channels alone (partial rotation), None all of them (no positions).
        layout: which channels make a pair, as in ``apply_rope``.

    Raises:
        ValueError: a count below 1, ranks that are no tuple of three, ``d_model`` no multiple of ``heads`` without
            ``head_dim``, frequencies that do not fit, an unknown layout.

    Source: Zhang et al. 2025 (*Tensor Product Attention*), Eq. 3.1–3.5. Page: ``kv_cache/tensor-product``.
    """

    def __init__(
        self,
        d_model: int,
        *,
        heads: int,
        ranks: tuple[int, int, int] = (6, 2, 2),
        head_dim: int | None = None,
        value_dim: int | None = None,
        rope: Tensor | None = None,
        layout: str = "half",
    ):
        super().__init__()
        d_model, heads, self.head_dim, self.value_dim = _widths(d_model, heads, head_dim, value_dim)
        self.d_model, self.heads = d_model, heads
        if not isinstance(ranks, tuple) or len(ranks) != 3:
            _check.complain("ranks", repr(ranks), "a tuple of three ranks (R_Q, R_K, R_V)")
        self.ranks = R_Q, R_K, R_V = tuple(_check.at_least("ranks", rank, 1) for rank in ranks)
        self.rope, self.layout = _rotation(rope, layout, self.head_dim), layout
        self.w_aq = nn.Linear(d_model, R_Q * heads, bias=False)
        self.w_bq = nn.Linear(d_model, R_Q * self.head_dim, bias=False)
        self.w_ak = nn.Linear(d_model, R_K * heads, bias=False)
        self.w_bk = nn.Linear(d_model, R_K * self.head_dim, bias=False)
        self.w_av = nn.Linear(d_model, R_V * heads, bias=False)
        self.w_bv = nn.Linear(d_model, R_V * self.value_dim, bias=False)
        for factor in (self.w_aq, self.w_bq, self.w_ak, self.w_bk, self.w_av, self.w_bv):
            nn.init.xavier_uniform_(factor.weight)
        self.w_o = nn.Linear(heads * self.value_dim, d_model, bias=False)

    def forward(self, x: Tensor, *, return_cache: bool = False) -> Tensor | tuple[Tensor, FactorCache]:
        """Prefill: ``x (..., T, d_model)`` to the same shape, each token seeing itself and those before it.

        With ``return_cache`` also the cache to decode on. ValueError: an ``x`` or a parameter that does not fit.
        """
        _check.flag("return_cache", return_cache)
        out, cache = self.decode(x)
        return (out, cache) if return_cache else out

    @own_precision
    def decode(self, x: Tensor, cache: FactorCache | None = None) -> tuple[Tensor, FactorCache]:
        """The next tokens ``x (..., T, d_model)``, one or more, after those of ``cache`` (None: after nothing).

        Returns their outputs, shaped like ``x``, and the longer cache.
        ValueError: an ``x``, a parameter or a cache that does not fit.
        """
        x_, start = _begin(self, x, cache, FactorCache)
        R_Q, R_K, R_V = self.ranks
        a_q = _to_heads(_call(self.w_aq, x_), R_Q)  # (..., R_Q, T, h): ranks stand where heads stood
        b_q = _rotate(self, _to_heads(_call(self.w_bq, x_), R_Q), start)  # (..., R_Q, T, d_k)
        a_k = _to_heads(_call(self.w_ak, x_), R_K)
        b_k = _rotate(self, _to_heads(_call(self.w_bk, x_), R_K), start)
        a_v = _to_heads(_call(self.w_av, x_), R_V)
        b_v = _to_heads(_call(self.w_bv, x_), R_V)
        factors = (factor.to(x.dtype) for factor in (a_k, b_k, a_v, b_v))
        cache = _extend(cache, FactorCache(*factors, self.rope, self.layout))
        q = tensor_product(a_q, b_q)  # (..., h, T, d_k)
        k = tensor_product(cache.a_k.to(x_.dtype), cache.b_k.to(x_.dtype))  # (..., h, T_k, d_k)
        v = tensor_product(cache.a_v.to(x_.dtype), cache.b_v.to(x_.dtype))  # (..., h, T_k, d_v)
        return _call(self.w_o, _from_heads(attention(q, k, v))).to(x.dtype), cache


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Give each of ``heads`` query heads its key or value head: head ``i`` gets ``x``'s head ``i // (heads / h_kv)``.

    Neighbouring query heads share (``repeat_interleave``), unlike a tiling, in which head ``i`` would get ``i % h_kv``.

    Args:
        x: ``(..., h_kv, T, d)``.
        heads: query heads, a multiple of ``h_kv``.

    Returns:
        ``(..., heads, T, d)``; it may be a view of ``x`` in which heads lie in the same place, so do not write into it.

    Raises:
        ValueError: no floating tensor, fewer than three axes, or ``heads`` no multiple of ``h_kv``.

    Source: Ainslie et al. 2023, section 2.2. Page: ``kv_cache/kv-tables``.
    """
    _check.floating(x=x)
    if x.ndim < 3:
        _check.complain("x", f"shape {tuple(x.shape)}", "(..., h_kv, T, d)")
    *lead, kv_heads, T, d = x.shape
    _check.at_least("heads", heads, 1)
    if kv_heads == 0 or heads % kv_heads:
        _check.complain("heads", heads, f"a multiple of the h_kv of x, {kv_heads}")
    return x.unsqueeze(-3).expand(*lead, kv_heads, heads // kv_heads, T, d).reshape(*lead, heads, T, d)


@own_precision
def tensor_product(a: Tensor, b: Tensor) -> Tensor:
    """Queries, keys or values of all heads from their factors: ``1/R Σ_r a_r ⊗ b_r`` for each token.

    Args:
        a: factors over heads ``(..., R, T, h)``.
        b: factors over channels ``(..., R, T, d)``, same leading axes.

    Returns:
        ``(..., h, T, d)`` in the dtype of ``a``.

    Raises:
        ValueError: shapes or dtypes that do not fit.

    Source: Zhang et al. 2025, Eq. 3.1. Page: ``kv_cache/tensor-product``.
    """
    computing = _check.floating(a=a, b=b)
    for name, x in (("a", a), ("b", b)):
        if x.ndim < 3 or x.shape[-3] == 0:
            _check.complain(name, f"shape {tuple(x.shape)}", "(..., R, T, width) with R >= 1")
    _check.shape("b", b, (*a.shape[:-1], b.shape[-1]), "(..., R, T, d)")
    return (torch.einsum("...rth,...rtd->...htd", a.to(computing), b.to(computing)) / a.shape[-3]).to(a.dtype)


def pool_kv_heads(module: GroupedQueryAttention, kv_heads: int) -> GroupedQueryAttention:
    """A layer with fewer key and value heads, each the mean of the neighbouring heads it replaces.

    The conversion that comes before the further training of GQA. The projection matrices are averaged; since projection
    and rotation are linear, that averages the keys and values themselves. Queries and output stay as they are.

    Args:
        module: a trained layer, usually multi-head; it is not changed, and the new layer shares no weight with it.
        kv_heads: key and value heads to keep, a divisor of ``module.kv_heads``.

    Raises:
        ValueError: another module, ``kv_heads`` no divisor of ``module.kv_heads``, or key or value projections whose
            parameters are not their own weight and bias (adapters, parametrizations).

    Source: Ainslie et al. 2023, sections 2.1 and 2.2. Page: ``kv_cache/kv-tables``.
    """
    if not isinstance(module, GroupedQueryAttention):
        _check.complain("module", type(module).__name__, "a GroupedQueryAttention")
    kv_heads = _divisor("kv_heads", kv_heads, "module.kv_heads", module.kv_heads)
    for key in ("w_k", "w_v"):
        if others := {name for name, _ in getattr(module, key).named_parameters()} - {"weight", "bias"}:
            _check.complain("module", f"a {key} with {', '.join(sorted(others))}", "weight and bias only: merge first")
    pooled = copy.deepcopy(module)
    pooled.kv_heads = kv_heads
    for layer, width in ((pooled.w_k, module.head_dim), (pooled.w_v, module.value_dim)):
        for name, rows in list(layer.named_parameters()):
            of_groups = rows.detach().unflatten(0, (kv_heads, -1, width))  # (h_kv, heads in a group, d, ...)
            setattr(layer, name, nn.Parameter(of_groups.mean(1).flatten(0, 1), requires_grad=rows.requires_grad))
        layer.out_features = kv_heads * width
    return pooled


def _attend_shared(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """Causal attention of query heads ``(..., h, T, d)`` that share key heads ``(..., h_kv, T_k, d)`` and value heads.

    Heads that share differ in their queries alone, and a query is a row: the rows of one head below those of the other
    make one matrix that reads each key once.
    """
    (heads, T), (kv_heads, T_k) = q.shape[-3:-1], k.shape[-3:-1]
    sharing = heads // kv_heads
    rows = q.unflatten(-3, (kv_heads, sharing)).flatten(-3, -2)  # (..., h_kv, sharing · T, d)
    mask = None  # a single token is the last one and sees everything
    if T != 1:
        mask = torch.ones(T, T_k, dtype=torch.bool, device=q.device).tril(T_k - T).repeat(sharing, 1)
    out = attention(rows, k, v, causal=False, mask=mask, scale=scale)  # (..., h_kv, sharing · T, d_v)
    return out.unflatten(-2, (sharing, T)).flatten(-4, -3)  # (..., h, T, d_v)


def _call(layer: nn.Module, x: Tensor) -> Tensor:
    """``layer(x)`` with the layer's parameters in the dtype of ``x``, which for halves is fp32."""
    if all(weight.dtype == x.dtype for weight in layer.parameters()):
        return layer(x)
    return functional_call(layer, {name: weight.to(x.dtype) for name, weight in layer.named_parameters()}, (x,))


def _to_heads(x: Tensor, heads: int) -> Tensor:
    """``(..., T, heads · d)`` to ``(..., heads, T, d)``."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(-2, -3)


def _from_heads(x: Tensor) -> Tensor:
    """``(..., heads, T, d)`` to ``(..., T, heads · d)``."""
    return x.transpose(-2, -3).flatten(-2)


def _rotate(module: nn.Module, x: Tensor, start: int) -> Tensor:
    """Rotate ``x (..., T, d)``, whose first token stands at position ``start``, as ``module`` does."""
    if module.rope is None:
        return x
    positions = torch.arange(start, start + x.shape[-2], device=x.device)
    return apply_rope(x, positions, module.rope.to(x.device), layout=module.layout)


def _begin(module: nn.Module, x: Tensor, cache: _Cache | None, kind: type[_Cache]) -> tuple[Tensor, int]:
    """Check ``x``, the parameters and the kind of cache; return ``x`` in the computing dtype and where it begins."""
    computing = _check.floating(x=x)
    _check.matrix("x", x, "(..., T, d_model)")
    _check.shape("x", x, (*x.shape[:-1], module.d_model), "(..., T, d_model)")
    (first, weight), *others = module.named_parameters()
    if x.dtype != weight.dtype or x.device != weight.device:
        _check.complain("x", f"{x.dtype} on {x.device}", f"{weight.dtype} on {weight.device} like {first}")
    for name, weight in others:
        kept_in_fp32 = name.startswith("norm_") and weight.dtype == computing
        if (weight.dtype != x.dtype and not kept_in_fp32) or weight.device != x.device:
            _check.complain(name, f"{weight.dtype} on {weight.device}", f"{x.dtype} on {x.device} like {first}")
    if cache is not None and not isinstance(cache, kind):
        _check.complain("cache", type(cache).__name__, f"a {kind.__name__} or None")
    return x.to(computing), 0 if cache is None else cache.tokens


def _extend(cache: _Cache | None, new: _Cache) -> _Cache:
    return new if cache is None else cache.append(new)


def _same_rotation(old: _Cache, new: _Cache) -> None:
    """Check that cached keys were rotated as new ones are: with a base that moves while decoding they are not."""
    if old.rope is None and new.rope is None:
        return
    if old.rope is None or new.rope is None or not torch.equal(old.rope.cpu().double(), new.rope.cpu().double()):
        _check.complain("cache.rope", "keys rotated with other frequencies", "those of the layer: prefill again")
    if old.layout != new.layout:
        _check.complain("cache.layout", repr(old.layout), f"{new.layout!r}, that of the layer: prefill again")


def _widths(d_model: int, heads: int, head_dim: int | None, value_dim: int | None) -> tuple[int, int, int, int]:
    """Check the geometry that all layers share; return it with the widths of keys and of values."""
    d_model, heads = _check.at_least("d_model", d_model, 1), _check.at_least("heads", heads, 1)
    if head_dim is None:
        if d_model % heads:
            _check.complain(
                "head_dim", f"None with d_model={d_model} and heads={heads}", "a width: d_model / heads is none"
            )
        head_dim = d_model // heads
    value_dim = head_dim if value_dim is None else value_dim
    return d_model, heads, _check.at_least("head_dim", head_dim, 1), _check.at_least("value_dim", value_dim, 1)


def _divisor(name: str, value: int, whole_name: str, whole: int) -> int:
    """``value``, checked to share ``whole`` out evenly."""
    if whole % _check.at_least(name, value, 1):
        _check.complain(name, value, f"a divisor of {whole_name}={whole}")
    return int(value)


def _rotation(rope: Tensor | None, layout: str, width: int | None = None) -> Tensor | None:
    """Check frequencies for keys of ``width`` channels (None: they say the width) and keep a copy of them."""
    _check_layout(layout)
    if rope is None:
        return None
    _check_frequencies("rope", rope)
    if not rope.is_meta and not rope.isfinite().all():
        _check.complain("rope", "NaN or infinite frequencies", "finite ones")
    if width is not None and 2 * len(rope) > width:
        _check.complain("rope", f"shape {tuple(rope.shape)}", f"(pairs,), at most {width // 2}, half of head_dim")
    return rope.detach().clone()
