"""Checks of the exercises on exact/flash-attention."""

import math

import torch

from attnledger.ops.softmax import attention

from ._answer import compare, exercise


@exercise
def tiles_by_kind(answer):
    """Tiles of a causal square: wholly visible, cut by the diagonal, never computed."""
    cases = (
        (6, 1, 1, [21, 0, 15], "With tiles of one score the diagonal is wholly visible."),
        (6, 2, 2, [3, 3, 3], "A tile counts as whole only if its first query sees its last key."),
        (6, 2, 3, [2, 3, 1], "The tiles need not be square."),
        (6, 3, 2, [2, 3, 1], "A tile is computed as soon as its last query sees its first key."),
        (7, 2, 2, [7, 3, 6], "The last tile may be short: here it holds one query and one key."),
        (5, 8, 8, [0, 1, 0], "One tile holds everything."),
        (4096, 128, 128, [496, 32, 496], "A real size."),
    )
    for n, block_q, block_k, want, hint in cases:
        on = f"n = {n}, block_q = {block_q}, block_k = {block_k} (whole, cut, skipped)"
        if problem := compare(answer(n, block_q, block_k), want, on=on, hint=hint):
            return problem
    return None


def _held(block: int, d: int) -> int:
    """Bytes of one step with square tiles: Q, K, V in two bytes, scores and output in four."""
    return 2 * 3 * block * d + 4 * block * block + 4 * block * d


@exercise
def largest_tile(answer):
    """The largest square tile that fits into a memory, in steps of 16 rows."""
    cases = (
        (192 * 1024, 64, "Q, K and V take 2 bytes a number, scores and output 4."),
        (164 * 1024, 64, "Less memory."),
        (192 * 1024, 128, "The score tile does not depend on d, the other four do."),
        (256 * 1024, 64, "The tile of scores grows with the square of the block."),
        (_held(48, 64), 64, "A tile that fits exactly fits."),
        (_held(48, 64) - 1, 64, "One byte short is short."),
        (100, 64, "Where not even 16 rows fit, the answer is 0."),
    )
    for memory, d, hint in cases:
        want = max((b for b in range(16, 4096, 16) if _held(b, d) <= memory), default=0)
        if problem := compare(answer(memory, d), want, on=f"memory = {memory}, d = {d}", hint=hint):
            return problem
    return None


@exercise
def rows_for_ridge(answer):
    """Query rows a tile needs for a wanted intensity, all re-reads counted."""
    cases = (
        (100.0, 4096, "Solve n B / (n + B) = intensity for B."),
        (200.6, 4096, "Near an A100's ridge."),
        (200.6, 1024, "A shorter context needs taller tiles."),
        (64.0, 128, "Here the tile holds all queries."),
    )
    for intensity, n, hint in cases:
        want = intensity * n / (n - intensity)
        on = f"intensity = {intensity}, n = {n}"
        if problem := compare(answer(intensity, n), want, on=on, hint=hint):
            return problem
    for n in (200, 100):
        hint = "As B grows, the intensity approaches n and never reaches it."
        if problem := compare(answer(200.0, n), math.inf, on=f"intensity = 200, n = {n}", hint=hint):
            return problem
    return None


@exercise
def streaming_attention(answer):
    """One query against keys and values that arrive in chunks and are seen once."""
    source = torch.Generator().manual_seed(0)
    options = {"generator": source, "dtype": torch.float64}
    cases = (
        ("4 keys in 2 chunks", [2, 2], 1.0, "Compare with the table of the hand calculation."),
        ("11 keys in chunks of 5, 1 and 5", [5, 1, 5], 1.0, "Chunks may differ in size; are all sums rescaled?"),
        ("a single chunk", [7], 1.0, "The first chunk has nothing before it: exp(−∞ − m) is 0."),
        ("scores in the thousands", [3, 3, 3], 5e3, "exp overflows unless the largest score so far is subtracted."),
        ("very negative scores", [3, 3], -5e3, "Start the maximum at −∞ and not at 0."),
    )
    for name, sizes, size, hint in cases:
        q = torch.randn(4, **options).abs() + 0.5
        keys = [torch.randn(n, 4, **options).abs() * size for n in sizes]
        values = [torch.randn(n, 3, **options) for n in sizes]
        want = attention(q[None], torch.cat(keys), torch.cat(values), causal=False)[0]
        seen: list[int] = []

        def stream(keys=keys, values=values, seen=seen):
            for k, v in zip(keys, values, strict=True):
                seen.append(len(k))
                yield k.clone(), v.clone()

        if problem := compare(answer(q.clone(), stream()), want, on=name, hint=hint):
            return problem
        if seen != sizes:
            return f"for {name} only {len(seen)} of {len(sizes)} chunks were read."
    return None
