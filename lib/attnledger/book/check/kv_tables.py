"""Checks for the exercises of kv_cache/kv-tables."""

import torch

from attnledger.ops.softmax import attention

from ._answer import compare, exercise

F64 = torch.float64


@exercise
def kv_bytes_by_hand(answer) -> str | None:
    """layers, kv_heads, d_k, d_v, bytes_per_number -> bytes a model keeps per token."""
    cases = [
        ("one layer, one head, d_k = d_v = 1, one byte", (1, 1, 1, 1, 1)),
        ("Llama 3 8B in BF16: 32 layers, 8 KV heads of 128", (32, 8, 128, 128, 2)),
        ("3 layers, 2 heads, keys of 6 and values of 5, four bytes", (3, 2, 6, 5, 4)),
        ("the same with four bits per number", (3, 2, 6, 5, 0.5)),
    ]
    hint = "Count one token in one layer first: each cached head keeps a key of d_k numbers and a value of d_v numbers."
    for on, (layers, heads, d_k, d_v, size) in cases:
        want = layers * heads * (d_k + d_v) * size
        if problem := compare(answer(layers, heads, d_k, d_v, size), want, on=on, hint=hint):
            return problem
    return None


@exercise
def decode_with_cache(answer) -> str | None:
    """q, k, v of one token and the cache -> what the token reads, and the cache with the token in it."""
    for heads, cached_heads, length in ((1, 1, 3), (4, 4, 5), (4, 2, 5), (6, 2, 4), (4, 1, 3)):
        generator = torch.Generator().manual_seed(10 * heads + cached_heads)
        k, v = (torch.randn(cached_heads, length, 8, generator=generator, dtype=F64) for _ in range(2))
        q = torch.randn(heads, length, 8, generator=generator, dtype=F64)
        shared = [x.repeat_interleave(heads // cached_heads, dim=0) for x in (k, v)]
        want = attention(q, *shared)
        keys, values = k[:, :0], v[:, :0]
        for t in range(length):
            on = f"{heads} query heads on {cached_heads} cached heads, token {t}"
            step = answer(q[:, t : t + 1], k[:, t : t + 1], v[:, t : t + 1], keys, values)
            if step is None:
                return compare(None, 0.0, on=on)
            if not isinstance(step, tuple) or len(step) != 3:
                return (
                    f"for {on} three things are wanted: the output, the keys and the values, the new token among them."
                )
            out, keys, values = step
            for name, got, wanted in (("keys", keys, k), ("values", values, v)):
                hint = "Append the new row along the token axis, and keep only the cached heads: copies need no memory."
                if problem := compare(got, wanted[:, : t + 1], on=f"{on}, the {name} kept", hint=hint):
                    return problem
            if problem := compare(out, want[:, t : t + 1], on=on, hint=_reading(heads, cached_heads)):
                return problem
    return None


def _reading(heads: int, cached_heads: int) -> str:
    if 1 < cached_heads < heads:
        group = heads // cached_heads
        return (
            f"The first {group} query heads share the first cached head: repeat each head {group} times, not the list."
        )
    return "Append first, then read: a token attends to itself. The scores are divided by the root of the width."


@exercise
def window_cache_numbers(answer) -> str | None:
    """tokens, full, windowed, window, per_layer -> numbers a model with two kinds of layers keeps."""
    cases = [
        ("no token yet", (0, 4, 4, 10, 7)),
        ("fewer tokens than the window", (9, 4, 4, 10, 7)),
        ("exactly the window", (10, 4, 4, 10, 7)),
        ("more tokens than the window", (1000, 4, 4, 10, 7)),
        ("only full layers", (1000, 3, 0, 10, 2048)),
        ("only windowed layers", (1000, 0, 3, 10, 2048)),
        ("one full layer in six, a window of 1024", (100_000, 10, 50, 1024, 2048)),
    ]
    hint = "A full layer keeps every token; a windowed one keeps the last ones, and fewer while there are fewer."
    for on, (tokens, full, windowed, window, per_layer) in cases:
        want = per_layer * (full * tokens + windowed * min(tokens, window))
        if problem := compare(answer(tokens, full, windowed, window, per_layer), want, on=on, hint=hint):
            return problem
    return None


@exercise
def longest_context(answer) -> str | None:
    """memory, weights, requests, per_token, state -> the longest context that `requests` conversations can all have."""
    cases = [
        ("room for exactly 10 tokens", (110, 10, 1, 10, 0), 10),
        ("room for 10 tokens and a little", (119, 10, 1, 10, 0), 10),
        ("two conversations share the room", (119, 10, 2, 10, 0), 5),
        ("each conversation also keeps a state of 20 bytes", (119, 10, 2, 10, 20), 3),
        ("the states alone do not fit", (119, 10, 2, 10, 60), 0),
        ("the weights do not fit", (5, 10, 1, 10, 0), 0),
        ("Llama 3 8B on 80 · 10⁹ bytes, 16 conversations", (80 * 10**9, 16_060_522_496, 16, 131_072, 0), 30_488),
    ]
    hint = "Take off the weights and every state, share what is left, and count whole tokens, never below 0."
    for on, arguments, want in cases:
        if problem := compare(answer(*arguments), want, on=on, hint=hint):
            return problem
    return None
