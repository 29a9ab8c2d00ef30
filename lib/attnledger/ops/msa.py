"""MiniMax Sparse Attention: a small indexer scores the past, and each query attends to the blocks it scored highest.

``S_ij = iq_i·ik_j / √d``, ``M_ib = max S_ij`` over the visible tokens ``j`` of block ``b``, and query ``i`` attends to
the visible tokens of its ``k`` blocks of largest ``M_ib``: one set per key head, shared by its group of query heads.
Attention costs ``4 h d T k B`` FLOP instead of ``2 h d T²``; the bill moves to the indexer, ``h_kv d T²``, quadratic
still, but with fewer heads. MiniMax, *MiniMax Sparse Attention* (2026), section 3 and Eq. 12. Positions are aligned to
the end: with ``T_q < T_k`` the queries are the last ``T_q`` tokens. Batches go on the leading axes: blocks are checked
by value, so attention can be neither vmapped nor traced on meta tensors.
"""

import math

import torch
from torch import Tensor

from . import _check
from ._precision import own_precision
from .softmax import NEVER, _mix, _silence_unseen, _softmax

TILE = 128  # queries scored at once: no matrix of all pairs is ever held
ROWS = 1024  # query rows met by one block at once: their scores stay in cache


@own_precision
def index_scores(iq: Tensor, ik: Tensor) -> Tensor:
    """Scores of every token for every query, ``iq ikᵀ / √d``, **not** masked: mask before taking a maximum of them.

    Args:
        iq: index queries ``(..., h_kv, T_q, d)``, one head per key head.
        ik: index keys ``(..., 1, T_k, d)``, one head for all (the one broadcast this library permits). Two plain
            matrices ``(T_q, d)`` and ``(T_k, d)`` stand for one head.

    Returns:
        ``(..., h_kv, T_q, T_k)``, fp32 for half inputs: selection compares them.

    Raises:
        ValueError: shapes or dtypes that do not fit.

    Source: MiniMax 2026, section 3. Page: ``sparse/block-selection``.
    """
    computing = _check_index(iq, ik)
    return (iq.to(computing) * iq.shape[-1] ** -0.5) @ ik.to(computing).mT


def select_blocks(
    iq: Tensor, ik: Tensor, *, block_size: int = 128, top_k: int = 16, local: int = 1, init: int = 0
) -> Tensor:
    """The blocks each query attends to: those with the largest score among their visible tokens.

    Tokens after the query are masked before the maximum is taken. The last ``local`` and the first ``init`` visible
    blocks are always in and count inside ``top_k``; equal scores go to the lower block, and NaN counts as the largest
    number.

    Args:
        iq, ik: as in ``index_scores``. No gradient passes.
        block_size: tokens per block, ``B``; the last block may be shorter.
        top_k: blocks per query.
        local: newest blocks always in, the query's own included.
        init: first blocks always in.

    Returns:
        int64 ``(..., h_kv, T_q, top_k)``: block ids ascending, then −1 for empty slots.

    Raises:
        ValueError: shapes or dtypes that do not fit, sizes out of range, or ``local + init > top_k``.

    Source: MiniMax 2026, section 3. Page: ``sparse/block-selection``.
    """
    block_size, top_k = _check.at_least("block_size", block_size, 1), _check.at_least("top_k", top_k, 1)
    local, init = _check.at_least("local", local, 0), _check.at_least("init", init, 0)
    if local + init > top_k:
        _check.complain("top_k", top_k, f"at least local + init = {local + init}")
    best, own = _block_maxima(iq, ik, block_size)
    n_blocks = best.shape[-1]
    block = torch.arange(n_blocks, device=iq.device)
    forced = (block <= own) & ((block > own - local) | (block < init))  # (T_q, blocks)
    ranked = best.nan_to_num(nan=torch.finfo(best.dtype).max).masked_fill(forced, float("inf"))  # all others finite
    # Stable: equal scores keep the order of their ids. Blocks still to come score least and have the highest ids, so
    # they never displace a visible block, whatever it scored.
    chosen = ranked.sort(dim=-1, descending=True, stable=True).indices[..., :top_k]
    chosen = chosen.masked_fill(chosen > own, n_blocks).sort(dim=-1).values  # empty slots last
    chosen = torch.nn.functional.pad(chosen, (0, top_k - chosen.shape[-1]), value=n_blocks)
    return chosen.masked_fill(chosen == n_blocks, -1)


@own_precision
def block_sparse_attention(
    q: Tensor, k: Tensor, v: Tensor, blocks: Tensor, *, block_size: int = 128, scale: float | None = None
) -> Tensor:
    """Exact softmax attention of each query to the visible tokens of its blocks, gathered block by block.

    The loop runs over key blocks, not over queries: a block meets all the queries that chose it in one matrix product,
    and a running maximum joins what a query collects from its blocks (the log-sum-exp merge, not yet divided).

    Args:
        q: ``(..., h, T_q, d)``.
        k: ``(..., h_kv, T_k, d)`` with ``h = G h_kv``; query head ``i`` reads key head ``i // G``.
        v: ``(..., h_kv, T_k, d_v)``.
        blocks: integers ``(..., h_kv, T_q, slots)``, from ``select_blocks``; −1 is an empty slot. Plain matrices
            ``(T, d)`` with ``blocks (T_q, slots)`` stand for one head.
        block_size: tokens per block.
        scale: factor on ``q kᵀ``, ``d ** -0.5`` unless given.

    Returns:
        ``(..., h, T_q, d_v)`` in the dtype of ``q``; 0 for a query that sees nothing.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, no heads, block ids outside −1 … number of blocks − 1, a
            scale that is not a finite number (``None`` aside).

    Source: MiniMax 2026, section 3, and its KV-outer kernel. Page: ``sparse/block-selection``.
    """
    computing = _check.floating(q=q, k=k, v=v)
    block_size = _check.at_least("block_size", block_size, 1)
    _check.matrix("v", v, "(..., h_kv, T_k, d_v)")
    group = _check_group(q, k)
    _check.shape("v", v, (*k.shape[:-1], v.shape[-1]), "(..., h_kv, T_k, d_v)")
    chose = _chosen(blocks, q, k, block_size)
    scale = q.shape[-1] ** -0.5 if scale is None else _check.number("scale", scale)
    N = math.prod(k.shape[:-2])  # key heads in all
    q_ = (q.to(computing) * (scale / math.log(2))).reshape(N, group, *q.shape[-2:]).transpose(1, 2)  # (N, T_q, G, d)
    k_, v_, chose = (x.reshape(N, *x.shape[-2:]) for x in (k.to(computing), v.to(computing), chose))
    if k_.numel():
        out = torch.stack([_attend_by_block(q_[n], k_[n], v_[n], chose[n], block_size) for n in range(N)])
    else:  # nothing or 0, but made of the inputs, so that autograd finds its way back
        out = q_ @ k_.unsqueeze(1).mT @ v_.unsqueeze(1)  # (N, T_q, G, d_v)
    return out.transpose(1, 2).reshape(*q.shape[:-1], v.shape[-1]).to(q.dtype)


def _attend_by_block(q: Tensor, k: Tensor, v: Tensor, chose: Tensor, block_size: int) -> Tensor:
    """One key head, its group of scaled queries ``(T_q, G, d)``, and ``chose (T_q, blocks)``, to ``(T_q, G, d_v)``.

    The queries are scaled by ``1 / ln 2`` as well: powers of two are cheaper than powers of e.
    """
    T, G, _ = q.shape
    position = _positions(T, k.shape[0], q.device)
    finite = bool(v.isfinite().all())
    peak = q.new_full((T, G, 1), NEVER)  # the largest score so far; any shift cancels, so none needs a gradient
    total, weighted = q.new_zeros(T, G, 1), q.new_zeros(T, G, v.shape[-1])
    for b in range(chose.shape[-1]):
        token = torch.arange(k.shape[0], device=q.device)[b * block_size : (b + 1) * block_size]
        K, V = k[token], v[token]  # (B, d), (B, d_v)
        for rows in chose[:, b].nonzero().squeeze(-1).split(max(ROWS // G, 1)):
            scores = (q[rows].flatten(0, 1) @ K.mT).unflatten(0, (-1, G))  # (rows, G, B)
            if bool((position[rows] < token[-1]).any()):  # some queries stand inside this block
                scores = scores.masked_fill(token > position[rows, None, None], NEVER)
            old = peak[rows]
            new = torch.maximum(old, scores.detach().amax(-1, keepdim=True))
            shift = new.masked_fill(new == NEVER, 0.0)
            weights, kept = scores.sub_(shift).exp2_(), (old - shift).exp2()
            peak[rows] = new
            total[rows] = kept * total[rows] + weights.sum(-1, keepdim=True)
            before = weighted[rows] if finite else weighted[rows].masked_fill(kept == 0, 0.0)  # 0 · NaN is NaN
            weighted[rows] = kept * before + _mix(weights.flatten(0, 1), V).unflatten(0, (-1, G))
    return weighted / total.masked_fill(total == 0, 1.0)


@own_precision
def alignment_loss(
    iq: Tensor,
    ik: Tensor,
    q: Tensor,
    k: Tensor,
    blocks: Tensor | None = None,
    *,
    block_size: int = 128,
    scale: float | None = None,
) -> Tensor:
    """What trains the indexer: ``KL(P ‖ P_idx)``, token by token over the selected blocks.

    ``P`` is the attention of the main branch on the visible tokens of the selected blocks, softmax per query head, then
    the mean over the group's heads; ``P_idx`` is the softmax of the index scores on the same tokens. The divergence is
    averaged over tokens and key heads. ``q`` and ``k`` are detached: gradients reach only ``iq`` and ``ik``, a score's
    being ``(P_idx − P) / (N T_q)`` with ``N`` key heads in all batches.

    Args:
        iq, ik: as in ``index_scores``.
        q: ``(..., h, T_q, d)``.
        k: ``(..., h_kv, T_k, d)``.
        blocks: as in ``block_sparse_attention``; None takes all visible tokens (the warm-up).
        block_size: tokens per block.
        scale: of the main branch, ``d ** -0.5`` unless given.

    Returns:
        A scalar in nats, fp32 for half inputs.

    Raises:
        ValueError: shapes, dtypes or devices that do not fit, no heads, block ids out of range, a scale that is not a
            finite number (``None`` aside).

    Source: MiniMax 2026, section 3. Page: ``sparse/block-selection``.
    """
    computing = _check.floating(q=q, k=k)
    group = _check_group(q, k)
    block_size = min(_check.at_least("block_size", block_size, 1), max(k.shape[-2], 1))
    index_dtype = _check_index(iq, ik)
    if iq.device != q.device:
        _check.complain("iq", f"a tensor on {iq.device}", f"one on {q.device} like q")
    heads, (T_q, T_k) = k.shape[:-2], (q.shape[-2], k.shape[-2])
    _check.shape("iq", iq, (*heads, T_q, iq.shape[-1]), "(..., h_kv, T_q, d) with k's heads and q's tokens")
    _check.shape("ik", ik, (*ik.shape[:-2], T_k, ik.shape[-1]), "(..., 1, T_k, d) with k's tokens")
    chose = None if blocks is None else _chosen(blocks, q, k, block_size)
    scale = q.shape[-1] ** -0.5 if scale is None else _check.number("scale", scale)
    teacher_q = (q.detach().to(computing) * scale).reshape(*heads, group, T_q, q.shape[-1])
    teacher_k = k.detach().to(computing).unsqueeze(-3)  # (..., h_kv, 1, T_k, d)
    loss = iq.new_zeros((), dtype=index_dtype)
    for start in range(0, max(T_q, 1), TILE):  # an empty tile too: the loss is made of iq and ik
        tile = slice(start, start + TILE)
        allowed = _positions(T_q, T_k, q.device)[tile, None] >= torch.arange(T_k, device=q.device)
        if chose is not None:  # (..., h_kv, tile, T_k)
            allowed = allowed & chose[..., tile, :].repeat_interleave(block_size, dim=-1)[..., :T_k]
        P = _group_mean(teacher_q[..., tile, :], teacher_k, allowed).to(loss.dtype)
        read = allowed.any(-3, keepdim=True) if allowed.ndim > 2 else allowed  # by any head
        iq_, ik_ = _silence_unseen(iq[..., tile, :], allowed.mT), _silence_unseen(ik, read)
        loss = loss + _divergence(P, index_scores(iq_, ik_), allowed)
    return loss / max(math.prod(heads) * T_q, 1)


def _group_mean(q: Tensor, k: Tensor, allowed: Tensor) -> Tensor:
    """Mean over a group's heads of their softmax on the allowed tokens: ``(..., G, T, d)`` to ``(..., T, T_k)``."""
    allowed = allowed.unsqueeze(-3) if allowed.ndim > 2 else allowed
    weights, _ = _softmax((q @ k.mT).masked_fill(~allowed, NEVER))
    return weights.mean(-3)


def _divergence(P: Tensor, scores: Tensor, allowed: Tensor) -> Tensor:
    """``Σ P log(P / softmax(scores))`` over the allowed tokens, summed over queries and heads; elsewhere ``P`` is 0."""
    _, lse = _softmax(scores.masked_fill(~allowed, NEVER))
    log_P_idx = (scores - lse.unsqueeze(-1)).masked_fill(P == 0, 0.0)  # 0 log 0 is 0
    return (torch.xlogy(P, P) - P * log_P_idx).sum()


def _positions(T_q: int, T_k: int, device: torch.device) -> Tensor:
    """Where the queries stand among the keys: they are the last ones."""
    return torch.arange(T_k - T_q, T_k, device=device)


@torch.no_grad()
def _block_maxima(iq: Tensor, ik: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Each block's largest visible score ``(..., T_q, blocks)``, or −∞, and each query's own block ``(T_q, 1)``."""
    computing = _check_index(iq, ik)
    T_q, T_k = iq.shape[-2], ik.shape[-2]
    block_size = min(block_size, max(T_k, 1))
    position = _positions(T_q, T_k, iq.device).unsqueeze(-1)
    best = iq.new_full((*iq.shape[:-1], -(-T_k // block_size)), NEVER, dtype=computing)
    for start in range(0, T_q, TILE):
        tile = slice(start, start + TILE)
        seen = max(T_k - T_q + min(start + TILE, T_q), 0)  # keys up to the last query of the tile
        blocks = -(-seen // block_size)
        scores = index_scores(iq[..., tile, :], ik[..., :seen, :])
        scores = scores.masked_fill(torch.arange(seen, device=iq.device) > position[tile], NEVER)
        scores = torch.nn.functional.pad(scores, (0, blocks * block_size - seen), value=NEVER)
        best[..., tile, :blocks] = scores.unflatten(-1, (blocks, block_size)).amax(-1)
    return best, position // block_size


def _check_index(iq: Tensor, ik: Tensor) -> torch.dtype:
    """Check index queries against index keys; return the dtype to compute in."""
    computing = _check.floating(iq=iq, ik=ik)
    _check.matrix("iq", iq, "(..., h_kv, T_q, d)")
    _check.matrix("ik", ik, "(..., 1, T_k, d)")
    one_head, words = ((1,), "(..., 1, T_k, d)") if iq.ndim > 2 else ((), "(T_k, d)")
    _check.shape("ik", ik, (*iq.shape[:-3], *one_head, ik.shape[-2], iq.shape[-1]), words)
    return computing


def _chosen(blocks: Tensor, q: Tensor, k: Tensor, block_size: int) -> Tensor:
    """Check ``blocks``; return which blocks each query chose, boolean ``(..., h_kv, T_q, blocks)``."""
    if not isinstance(blocks, Tensor) or blocks.dtype not in (torch.int32, torch.int64):
        _check.complain("blocks", getattr(blocks, "dtype", type(blocks).__name__), "an int32 or int64 tensor of ids")
    if blocks.device != q.device:
        _check.complain("blocks", f"ids on {blocks.device}", f"ids on {q.device} like q")
    slots = blocks.shape[-1] if blocks.ndim else 0
    _check.shape("blocks", blocks, (*k.shape[:-2], q.shape[-2], slots), "(..., h_kv, T_q, slots)")
    n_blocks = -(-k.shape[-2] // block_size)
    if blocks.numel() and not (blocks.min() >= -1 and blocks.max() < n_blocks):
        _check.complain("blocks", f"ids {blocks.min()} to {blocks.max()}", f"-1 (empty) to {n_blocks - 1}")
    chose = torch.zeros((*blocks.shape[:-1], n_blocks + 1), dtype=torch.bool, device=blocks.device)
    return chose.scatter_(-1, blocks.long().masked_fill(blocks < 0, n_blocks), True)[..., :n_blocks]


def _check_group(q: Tensor, k: Tensor) -> int:
    """Check query heads against key heads; return how many query heads share a key head."""
    _check.matrix("q", q, "(..., h, T_q, d)")
    _check.matrix("k", k, "(..., h_kv, T_k, d)")
    h, h_kv = (x.shape[-3] if x.ndim > 2 else 1 for x in (q, k))
    if h == 0 or h_kv == 0 or h % h_kv:
        _check.complain("q", f"{h} heads", f"a multiple of k's {h_kv}, and at least one")
    one_head = (h_kv,) if q.ndim > 2 else ()
    _check.shape("k", k, (*q.shape[:-3], *one_head, k.shape[-2], q.shape[-1]), "(..., h_kv, T_k, d)")
    return h // h_kv
