"""Attention that reads less: patterns fixed in advance, and hashing.

A pattern says which keys a query may see: a window of recent tokens (``O(T w)`` scores), the same window with gaps, a
few tokens that see and are seen by all, random blocks. As a mask it only describes: the mask itself has ``T_q T_k``
entries, and ``attention(..., mask=...)`` computes every score before it hides some. ``sliding_window_attention``
computes only the band. Child et al., *Generating Long Sequences with Sparse Transformers* (2019); Beltagy et al.,
*Longformer* (2020); Zaheer et al., *Big Bird* (2020); Xiao et al., *Efficient Streaming Language Models with Attention
Sinks* (2024). ``lsh_attention`` lets the content decide: tokens that hash alike meet (Kitaev et al., *Reformer*, 2020).
Positions are aligned to the end everywhere: with ``T_q < T_k`` the queries are the last ``T_q`` tokens. Batches go on
the leading axes: whether a number is finite is asked by value, so attention can be neither vmapped nor traced on meta
tensors.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import _check
from ._precision import near_one, own_precision
from ._rows import recorded
from .softmax import NEVER, _mix, _softmax, attention, merge

BLOCK = 48  # queries that share one span of keys: larger blocks hide more scores, smaller ones make thin products
TILE = 2**19  # scores computed at once: they stay in cache


def window_mask(queries: int, keys: int | None = None, *, window: int, sinks: int = 0, causal: bool = True) -> Tensor:
    """Which keys a sliding window shows: the last ``window`` of them, the query's own included.

    Args:
        queries: ``T_q``, number of queries.
        keys: ``T_k``, number of keys; as many as queries if None.
        window: keys seen. Query ``i`` sees ``i − window + 1 … i``; without a causal mask the window is centred,
            ``i − window // 2 … i + (window − 1) // 2``, so an even one reaches one token further back than ahead.
        sinks: the first so many keys are seen by every later query, in addition to the window.
        causal: hide the keys after the query.

    Returns:
        Boolean ``(T_q, T_k)``, True = may attend.

    Raises:
        ValueError: a size that is not a whole number, below 0, or a window below 1 (0 does not mean "no window").

    Source: Beltagy et al. 2020, section 3.1; sinks: Xiao et al. 2024, section 3.2. (Longformer's ``w`` counts ``w/2``
    keys on either side and not the token itself, ``w + 1`` in all.) Page: ``sparse/fixed-patterns``.
    """
    sinks = _check.at_least("sinks", sinks, 0)
    near = dilated_mask(queries, keys, window=window, dilation=1, causal=causal)
    query, key = _pairs(queries, keys)
    sinks = min(sinks, len(key))
    first = (key < sinks) & (key <= query) if causal else key < sinks
    return near | first


def dilated_mask(queries: int, keys: int | None = None, *, window: int, dilation: int, causal: bool = True) -> Tensor:
    """A window with gaps: ``window`` keys, the query's own included, each ``dilation`` tokens from the next.

    Args:
        queries, keys, causal: as in ``window_mask``.
        window: keys seen, ``i, i − dilation, …, i − (window − 1) dilation``; centred without a causal mask.
        dilation: step between them; 1 is the plain window.

    Returns:
        Boolean ``(T_q, T_k)``, True = may attend.

    Raises:
        ValueError: sizes as in ``window_mask``, or a dilation below 1.

    Source: Beltagy et al. 2020, section 3.1. Page: ``sparse/fixed-patterns``.
    """
    query, key = _pairs(queries, keys)
    window, dilation = _check.at_least("window", window, 1), _check.at_least("dilation", dilation, 1)
    far = max(len(query), len(key), 1)  # further apart than any two tokens
    window, dilation = min(window, 2 * far), min(dilation, far)  # as good as larger ones, which int64 may not hold
    back, ahead = (window - 1, 0) if causal else (window // 2, (window - 1) // 2)
    offset = query - key  # (T_q, T_k)
    return (offset <= back * dilation) & (offset >= -ahead * dilation) & (offset % dilation == 0)


def global_mask(queries: int, keys: int | None = None, *, tokens: Iterable[int], causal: bool = True) -> Tensor:
    """A few tokens that see everything and are seen by everything; join it to a window with ``|``.

    Args:
        queries, keys, causal: as in ``window_mask``.
        tokens: positions of the global tokens among the keys, ``range(g)`` for the first ``g``.

    Returns:
        Boolean ``(T_q, T_k)``, True = may attend: their rows and their columns.

    Raises:
        ValueError: sizes as in ``window_mask``, or positions that are not whole numbers from 0 to ``T_k − 1``.

    Source: Beltagy et al. 2020, section 3.1. Page: ``sparse/fixed-patterns``.
    """
    query, key = _pairs(queries, keys)
    tokens = tokens.tolist() if hasattr(tokens, "tolist") else tokens  # of a tensor or an array
    if not isinstance(tokens, Iterable):
        _check.complain("tokens", repr(tokens), "an iterable of positions, such as range(2)")
    chosen = torch.zeros(len(key), dtype=torch.bool)
    for token in tokens:
        token = _check.at_least("tokens", token, 0)
        if token >= len(key):
            _check.complain("tokens", token, f"positions of the {len(key)} keys")
        chosen[token] = True
    seen = chosen | _rows(chosen, query)  # (T_q, T_k)
    return seen & (key <= query) if causal else seen


def bigbird_mask(
    queries: int,
    keys: int | None = None,
    *,
    block_size: int,
    window: int = 3,
    global_blocks: int = 2,
    random_blocks: int = 3,
    seed: int = 0,
    causal: bool = True,
) -> Tensor:
    """Big Bird: in blocks of tokens a window, a few global blocks, and a few random ones.

    Args:
        queries, keys, causal: as in ``window_mask``.
        block_size: tokens per block, counted from the first key; the last block may be shorter.
        window: blocks seen, the own block included; placed like the tokens of ``window_mask``.
        global_blocks: the first so many blocks see and are seen by all. (The released code takes the first and the last
            block; under a causal mask the last would see all and be seen by none.)
        random_blocks: for each block so many others, drawn without repetition from those it does not see yet (under a
            causal mask from the earlier ones), or all of them if there are fewer.
        seed: of the draw. Under a causal mask a block's draw does not depend on how many blocks follow, so a sequence
            that grows keeps its pattern.

    Returns:
        Boolean ``(T_q, T_k)``, True = may attend.

    Raises:
        ValueError: sizes as in ``window_mask``, a block size below 1, numbers of blocks below 0, a seed that is not a
            whole number of at most 64 bits.

    Source: Zaheer et al. 2020, section 2 and appendix D. Page: ``sparse/fixed-patterns``.
    """
    query, key = _pairs(queries, keys)
    block_size = min(_check.at_least("block_size", block_size, 1), max(len(key), 1))
    n = -(-len(key) // block_size)
    global_blocks = min(_check.at_least("global_blocks", global_blocks, 0), n)
    random_blocks = _check.at_least("random_blocks", random_blocks, 0)
    random = _check.generator(seed)
    blocks = window_mask(n, window=window, causal=causal)
    blocks |= global_mask(n, tokens=range(global_blocks), causal=causal)
    for b in range(n):
        unseen = (~blocks[b, : b if causal else n]).nonzero().squeeze(-1)
        blocks[b, unseen[torch.randperm(len(unseen), generator=random)[:random_blocks]]] = True
    seen = _rows(blocks, query.squeeze(-1).div(block_size, rounding_mode="floor"))[:, key // block_size]
    return seen & (key <= query) if causal else seen


def _pairs(queries: int, keys: int | None) -> tuple[Tensor, Tensor]:
    """Positions of the queries ``(T_q, 1)``, the last ones among the keys, and of the keys ``(T_k,)``."""
    queries = _check.at_least("queries", queries, 0)
    keys = queries if keys is None else _check.at_least("keys", keys, 0)
    return torch.arange(keys - queries, keys).unsqueeze(-1), torch.arange(keys)


def _rows(x: Tensor, position: Tensor) -> Tensor:
    """``x[position]``, False for positions before the first key."""
    return torch.cat([x, x.new_zeros(1, *x.shape[1:])])[position.clamp(min=-1)]


@own_precision
def sliding_window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int,
    sinks: int = 0,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Causal softmax attention to the last ``window`` keys, computing only those scores: ``O(T window)``.

    The same numbers as ``attention`` with ``window_mask``. The queries go by blocks; a block of ``C`` meets the
    ``window + C − 1`` keys that any of its queries sees (and up to 15 before them), and the two ends of that band are
    masked row by row. A cache need hold only the last ``window`` keys and the sinks. Under ``torch.compile`` pass
    ``dynamic=False``: the blocks are cut by the lengths.

    Args:
        q: ``(..., T_q, d)``.
        k: ``(..., T_k, d)``, same leading axes.
        v: ``(..., T_k, d_v)``, same leading axes.
        window: keys seen, the query's own included.
        sinks: the first so many keys are seen by every later query, in addition to the window.
        scale: factor on ``q kᵀ``, ``d ** -0.5`` unless given.
        return_lse: also return the natural-log log-sum-exp of each row of scores, ``(..., T_q)``.

    Returns:
        ``(..., T_q, d_v)`` in the dtype of ``q``, 0 for queries before the first key; with ``return_lse`` also the
        log-sum-exp (fp32 for half inputs). Without sinks a query whose visible scores are all −∞ gets NaN, not the 0 of
        ``attention``.

    Raises:
        ValueError: shapes or dtypes that do not fit, a window below 1, sinks below 0, a scale that is not a finite
            number (``None`` aside).

    Source: Beltagy et al. 2020, section 3.1; Xiao et al. 2024. Page: ``sparse/fixed-patterns``.
    """
    computing = _check.floating(q=q, k=k, v=v)
    for name, x, want in (("q", q, "(..., T_q, d)"), ("k", k, "(..., T_k, d)"), ("v", v, "(..., T_k, d_v)")):
        _check.matrix(name, x, want)
    _check.shape("k", k, (*q.shape[:-2], k.shape[-2], q.shape[-1]), "(..., T_k, d)")
    _check.shape("v", v, (*k.shape[:-1], v.shape[-1]), "(..., T_k, d_v)")
    T_q, T_k = q.shape[-2], k.shape[-2]
    window = min(_check.at_least("window", window, 1), max(T_k, 1))
    sinks = _check.at_least("sinks", sinks, 0)
    scale = q.shape[-1] ** -0.5 if scale is None else _check.number("scale", scale)
    oldest = max(T_k - T_q - window + 1, 0)  # that any query has in its window
    pieces = (q, k[..., oldest:, :], v[..., oldest:, :], k[..., :sinks, :], v[..., :sinks, :])
    N = math.prod(q.shape[:-2])
    q_, recent_k, recent_v, first_k, first_v = (x.to(computing).reshape(N, *x.shape[-2:]) for x in pieces)
    mix = torch.bmm if bool(recent_v.sum().isfinite()) else _mix  # far cheaper than asking every number
    in_place = mix is torch.bmm and not recorded(q, k, v)

    @cache
    def hidden(rows: int, old: int) -> tuple[Tensor, Tensor]:
        """What a band hides at its ends: of the newest ``rows - 1`` keys, of the ``old`` ones."""
        newest, oldest = (torch.ones(rows, n, dtype=torch.bool, device=q.device) for n in (rows - 1, old))
        return newest.triu(), oldest.tril(old - rows)

    def attend(Q: Tensor, K: Tensor, V: Tensor, place: Tensor) -> list[Tensor]:
        """Blocks of queries ``(batch, rows, d)``, the keys up to their last one ``(batch, keys, d)``, and the output's
        place ``(batch, rows, d_v)``; returns what it did not write there."""
        rows, keys = Q.shape[1], K.shape[1]
        old = max(keys - window, 0)  # too old for the last row
        scores = torch.bmm(Q * scale, K.mT)  # (batch, rows, keys)
        # Only the ends are masked: all rows see what lies between.
        for end, unseen in zip((scores[..., keys - rows + 1 :], scores[..., :old]), hidden(rows, old), strict=True):
            end.masked_fill_(unseen, NEVER)
        lse = [scores.logsumexp(-1, keepdim=True)] if return_lse or sinks else []
        weights = scores.softmax(-1)
        if not in_place:
            return [mix(weights, V), *lse]
        if place.is_contiguous():
            torch.bmm(weights, V, out=place)
        else:  # there torch would multiply matrix by matrix, more slowly, and round in another way
            place.copy_(torch.bmm(weights, V))
        return lse

    blind = max(T_q - T_k, 0)  # queries before the first key
    out, lse = recent_v.new_empty(N, T_q - blind, v.shape[-1]), [recent_v.new_empty(N, T_q - blind, 1)]
    if out.numel():
        rest = _by_blocks(attend, q_[:, blind:], recent_k, recent_v, out, window)
        out, lse = (out, rest) if in_place else (rest[0], rest[1:])
    else:  # nothing, but made of the inputs, so that autograd finds its way back
        out = attention(q_[:, blind:], recent_k, recent_v)
    if blind:
        out, lse = pad(out, (0, 0, blind, 0)), [pad(x, (0, 0, blind, 0), value=NEVER) for x in lse]
    if sinks:  # apart, where they are not in the window; joined by log-sum-exp
        query, key = _pairs(T_q, T_k)
        left = (key[:sinks] <= query - window).to(q.device)  # (T_q, sinks)
        apart, apart_lse = attention(q_, first_k, first_v, causal=False, mask=left, scale=scale, return_lse=True)
        out, joined = merge([out, apart], [lse[0].squeeze(-1), apart_lse])
        lse = [joined]
    out = out.to(q.dtype).reshape(*q.shape[:-1], v.shape[-1])
    return (out, lse[0].reshape(q.shape[:-1])) if return_lse else out


def _by_blocks(attend: Callable, q: Tensor, k: Tensor, v: Tensor, out: Tensor, window: int) -> list[Tensor]:
    """Cut queries ``(N, T, d)`` and the output ``(N, T, d_v)`` into blocks, let each ``attend`` to the keys it meets,
    and put in order what it returns.

    A block far from the start meets its own keys and at least ``window - 1`` before it, so many that its rows of scores
    fill whole cache lines. Such spans overlap but have one shape: they are views of one tensor, and many go through one
    product, those of one head or, where there are more heads than blocks, those at one place. The backward pass adds
    the overlaps up in one go.
    """
    (N, T, _), before = q.shape, k.shape[1] - q.shape[1]  # keys older than the first query
    C = min(BLOCK, T)
    span = -(-(window - 1 + C) // 16) * 16
    blocks = max(T - max(span - C - before, 0), 0) // C
    start = T - blocks * C  # queries that see fewer keys, or the remainder
    parts = []
    for a in range(0, start, 2 * C):
        b = min(a + 2 * C, start)
        met = slice(max(before + a - window + 1, 0), before + b)
        parts.append(attend(q[:, a:b], k[:, met], v[:, met], out[:, a:b]))  # (N, rows, ·)
    if not blocks:
        return [torch.cat(x, dim=1) for x in zip(*parts, strict=True)]
    K, V = (x[:, before + start + C - span :] for x in (k, v))
    K, V = (x.unfold(1, span, C).mT if blocks > 1 else x.unsqueeze(1) for x in (K, V))  # inductor fails to unfold one
    Q, O = (x[:, start:].unflatten(1, (blocks, C)) for x in (q, out))  # all (N, blocks, C or keys, ·)
    if blocks < N:
        parts += [attend(*block) for block in zip(*(x.unbind(1) for x in (Q, K, V, O)), strict=True)]
        return [torch.cat(x, dim=1) for x in zip(*parts, strict=True)]
    tile = max(TILE // (C * span) // 4 * 4, 1)  # by fours: threads share them evenly
    in_order = []
    for n, head in enumerate(zip(*(x.unbind(0) for x in (Q, K, V, O)), strict=True)):
        in_order += [[x[n] for x in part] for part in parts]
        tiles = zip(*(x.split(tile) for x in head), strict=True)
        in_order += [[x.flatten(0, 1) for x in attend(*some)] for some in tiles]
    return [torch.cat(x).unflatten(0, (N, T)) for x in zip(*in_order, strict=True)]


@own_precision
def lsh_buckets(x: Tensor, *, buckets: int, rounds: int = 1, seed: int = 0) -> Tensor:
    """Hash vectors so that those at a small angle are likely to share a bucket: ``argmax([xR; −xR])``.

    A bucket is a discrete choice: no gradient passes, and a small step of ``x`` across a border changes it (so may a
    rounding error; half inputs are hashed in fp32).

    Args:
        x: ``(..., T, d)``. Only directions count.
        buckets: how many, an even number, or 1 for no hashing.
        rounds: independent hashes. Adding rounds keeps the earlier ones.
        seed: of the random matrices ``R (d, buckets / 2)``, normally distributed, the same for every head.

    Returns:
        int64 ``(..., rounds, T)``, from 0 to ``buckets − 1``.

    Raises:
        ValueError: shape or dtype, buckets below 1 or odd, rounds below 1, a seed that is not a whole number of at most
            64 bits.

    Source: Kitaev et al. 2020, section 2; Andoni et al. 2015. Page: ``sparse/hashing``.
    """
    computing = _check.floating(x=x)
    _check.matrix("x", x)
    buckets, rounds = _check.at_least("buckets", buckets, 1), _check.at_least("rounds", rounds, 1)
    random = _check.generator(seed)
    if buckets == 1:
        return torch.zeros((*x.shape[:-2], rounds, x.shape[-2]), dtype=torch.int64, device=x.device)
    if buckets % 2:
        _check.complain("buckets", buckets, "an even number, or 1")
    size = (x.shape[-1], buckets // 2)
    R = torch.stack([torch.randn(size, generator=random, dtype=torch.float64, device="cpu") for _ in range(rounds)])
    x = near_one(x.detach().to(computing))  # sums of huge numbers could overflow
    turned = x.unsqueeze(-3) @ R.to(x)  # (..., rounds, T, buckets / 2)
    return torch.cat([turned, -turned], dim=-1).argmax(-1)


@own_precision
def lsh_attention(
    q_k: Tensor,
    v: Tensor,
    *,
    buckets: int,
    rounds: int = 4,
    chunk: int | None = None,
    seed: int = 0,
    causal: bool = True,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Reformer's attention: queries double as keys, and each meets the keys of its bucket in sorted chunks.

    Keys are the queries at length 1. In each round the tokens are sorted by bucket and, within it, by position; every
    bucket is cut into chunks, and a token meets its own chunk and the one before in its bucket. What the rounds found
    is joined by log-sum-exp; a key met in ``N`` rounds counts ``1/N`` in each. A token sees itself only if it has met
    nothing else in any round. The mask compares original positions.

    Chunks are counted from each bucket's first token. Reformer cuts the whole sorted row instead, so there the place of
    a cut depends on how many tokens, later ones too, fell into lower buckets: the future decides whom the past meets.
    Here the past does not change by a bit.

    With ``buckets=1`` and no ``chunk``, or a chunk of at least ``T``, it is full attention with shared queries and
    keys. The choice of buckets is a discrete function of ``q_k``: gradients are those at fixed buckets, and the output
    jumps where a bucket changes.

    Args:
        q_k: ``(..., T, d)``, queries and, normalised, keys.
        v: ``(..., T, d_v)``, same leading axes.
        buckets: per round, an even number or 1.
        rounds: hash functions; the chance to miss a close key falls with each.
        chunk: tokens per chunk; None takes the paper's ``2 T / buckets``, twice the mean bucket. Give a number where
            prefixes of a sequence must agree with the whole.
        seed: of the hash functions.
        causal: a token meets earlier ones only.
        scale: factor on ``q kᵀ``, ``d ** -0.5`` unless given, as in the paper. The authors' code has no such factor:
            pass 1.
        return_lse: also return the natural-log log-sum-exp over the union of what was met, ``(..., T)``.

    Returns:
        ``(..., T, d_v)`` in the dtype of ``q_k``; with ``return_lse`` also the log-sum-exp (fp32 for half inputs).
        ``O(rounds (T + buckets chunk) chunk)`` scores.

    Raises:
        ValueError: shapes or dtypes that do not fit, buckets below 1 or odd, rounds or chunk below 1, a seed that is no
            whole number of at most 64 bits, a scale that is not a finite number (``None`` aside).

    Source: Kitaev et al. 2020, Eq. 2–6 and appendix A, Eq. 13–16. Page: ``sparse/hashing``.
    """
    computing = _check.floating(q_k=q_k, v=v)
    _check.matrix("q_k", q_k)
    _check.matrix("v", v, "(..., T, d_v)")
    _check.shape("v", v, (*q_k.shape[:-1], v.shape[-1]), "(..., T, d_v)")
    buckets, rounds = _check.at_least("buckets", buckets, 1), _check.at_least("rounds", rounds, 1)
    if chunk is not None:
        chunk = _check.at_least("chunk", chunk, 1)
    scale = q_k.shape[-1] ** -0.5 if scale is None else _check.number("scale", scale)
    bucket = lsh_buckets(q_k, buckets=buckets, rounds=rounds, seed=seed)
    *lead, T, d = q_k.shape
    N = math.prod(lead)
    m = max(min(-(-2 * T // buckets) if chunk is None else chunk, T), 1)
    layouts = [_in_chunks(b, buckets, m) for b in bucket.reshape(N, rounds, T).unbind(1)]
    q, V = q_k.reshape(N, T, d).to(computing), v.reshape(N, T, v.shape[-1]).to(computing)
    K = _unit(q)
    q = q * scale
    outs, lses = zip(*(_one_round(q, K, V, layouts, r, causal) for r in range(rounds)), strict=True)
    out, lse = merge(outs, lses)
    alone = lse == NEVER  # met nothing else: the last resort is the token itself
    out = torch.where(alone.unsqueeze(-1), V, out).reshape(v.shape).to(q_k.dtype)
    lse = torch.where(alone, (q * K).sum(-1), lse).reshape(v.shape[:-1])
    return (out, lse) if return_lse else out


def _unit(x: Tensor) -> Tensor:
    """Rows at length 1, 0 where they are 0; the largest entry is divided out first, because squares overflow."""
    largest = x.detach().abs().amax(-1, keepdim=True)
    x = x / largest.masked_fill(largest == 0, 1.0)
    return x / x.norm(dim=-1, keepdim=True).clamp(min=0.5)  # the length is now at least 1, or exactly 0


class _Chunks(NamedTuple):
    """One round's tokens, sorted into chunks of ``width`` slots; token ``t`` of head ``n`` is ``n (T + 1) + t``."""

    queries: Tensor  # (N · chunks, width): the token in each slot, n (T + 1) + T in an empty one of head n
    keys: Tensor  # (N · chunks, 2 width): those and the chunk before; before a head's first chunk nothing
    slot: Tensor  # (N, T): where each token is, counted through all chunks
    chunk: Tensor  # (N · (T + 1),): each token's chunk, -2 after the last of a head
    previous: Tensor  # likewise: the chunk before in its bucket, or -1


def _in_chunks(bucket: Tensor, buckets: int, m: int) -> _Chunks:
    """Sort tokens ``(N, T)`` by bucket and position and cut every bucket into chunks of ``m``.

    A later token must not change the rounding of earlier outputs. So every chunk starts on a cache line (matrix
    products may round differently elsewhere), hence the ``width``; and there are as many chunks as the most uneven
    buckets could need, not as many as these need.
    """
    N, T = bucket.shape
    width = -(-m // 16) * 16
    n_chunks = min((T + buckets * (m - 1)) // m, T)
    order = bucket.argsort(dim=-1, stable=True)
    in_order = bucket.gather(-1, order)
    ids = torch.arange(buckets, device=bucket.device).expand(N, -1).contiguous()
    start, end = (torch.searchsorted(in_order, ids, right=right) for right in (False, True))
    needed = (end - start + m - 1) // m
    first = needed.cumsum(-1) - needed  # each bucket's first chunk
    token = torch.arange(T, device=bucket.device).expand(N, -1)
    rank = torch.zeros_like(order).scatter_(-1, order, token - start.gather(-1, in_order))  # earlier ones in the bucket
    chunk = first.gather(-1, bucket) + rank // m
    slot = chunk * width + rank % m
    own = torch.full((N, n_chunks * width), T, device=bucket.device).scatter_(-1, slot, token)
    own = own.unflatten(-1, (n_chunks, width))
    both = torch.cat([pad(own, (0, 0, 1, 0), value=T)[:, :-1], own], dim=-1)
    head = torch.arange(N, device=bucket.device).unsqueeze(-1)
    queries, keys = ((x + head.unsqueeze(-1) * (T + 1)).flatten(0, 1) for x in (own, both))
    previous = torch.where(rank >= m, chunk - 1, -1)
    chunk, previous = (pad(x.int(), (0, 1), value=-2).flatten() for x in (chunk, previous))
    return _Chunks(queries, keys, slot + head * n_chunks * width, chunk, previous)


def _one_round(q: Tensor, k: Tensor, v: Tensor, layouts: list[_Chunks], r: int, causal: bool) -> tuple[Tensor, Tensor]:
    """What each token ``(N, T)`` meets in round ``r``: outputs ``(N, T, d_v)``, log-sum-exps ``(N, T)``."""
    own, both, slot, *_ = layouts[r]
    Q, K, V = (pad(x, (0, 0, 0, 1)).flatten(0, 1)[at] for x, at in ((q, own), (k, both), (v, both)))  # 0 if empty
    mix = torch.bmm if bool(v.sum().isfinite()) else _mix
    tile = max(TILE // (own.shape[-1] * both.shape[-1]), 1)
    outs, lses = [], []
    for Q_, K_, V_, query, key in zip(*(x.split(tile) for x in (Q, K, V, own, both)), strict=True):
        times = torch.zeros((), dtype=torch.int16, device=q.device)
        for layout in layouts:  # who meets whom in each round: in the same chunk or in the one before
            theirs = layout.chunk[key].unsqueeze(-2)  # (chunks, 1, 2 width)
            meets = (theirs == layout.chunk[query].unsqueeze(-1)) | (theirs == layout.previous[query].unsqueeze(-1))
            times = times + meets  # (chunks, width, 2 width)
            if layout is layouts[r]:
                visible = meets
        query, key = query.unsqueeze(-1), key.unsqueeze(-2)
        visible = visible & (key < query if causal else key != query)
        scores = (torch.bmm(Q_, K_.mT) - times.to(q.dtype).log()).masked_fill(~visible, NEVER)
        weights, lse = _softmax(scores)
        outs.append(mix(weights, V_))  # (chunks, width, d_v)
        lses.append(lse)
    return torch.cat(outs).flatten(0, 1)[slot], torch.cat(lses).flatten()[slot]
