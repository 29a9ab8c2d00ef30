"""Checks for the exercises of hybrid/layer-mix."""

import math

import torch

from attnledger.ops.softmax import attention_weights

from ._answer import compare, exercise

F64 = torch.float64


@exercise
def global_layers(answer) -> str | None:
    """layers, every -> the layers with a cache, from 1."""
    cases = [
        ("60 layers, as in Qwen3.5", (60, 4), "The last layer is a fourth already; it must not stand there twice."),
        ("27 layers, as in Kimi Linear", (27, 4), "Three layers are left over, and the last of all keeps a cache."),
        ("93 layers, as in Kimi K3", (93, 4), "One layer is left over behind 92, and it keeps a cache."),
        ("3 layers", (3, 4), "No fourth layer exists, the last one does."),
        ("10 layers, every third", (10, 3), "The distance is the argument `every`."),
    ]
    for on, (layers, every), hint in cases:
        got = answer(layers, every)
        if got is None:
            return compare(None, 0, on=on)
        want = sorted({*range(every, layers + 1, every), layers})
        try:
            got = [int(layer) for layer in got]
        except TypeError:
            return f"for {on} a list of layers is wanted, but the answer is a {type(got).__name__}. {hint}"
        if problem := compare(got, want, on=on, hint=f"Layers count from 1, in ascending order. {hint}"):
            return problem
    return None


@exercise
def caches_that_fit(answer) -> str | None:
    """budget, tokens, layers, cache, state -> the largest number of layers with a cache, or -1."""
    cases = [
        ("a budget for two caches and two states", (2 * 80 + 2 * 16, 10, 4, 8, 16)),
        ("the same and not quite a third", (3 * 80 + 16 - 1, 10, 4, 8, 16)),
        ("room for a cache in every layer", (10**6, 10, 4, 8, 16)),
        ("room for the states only", (4 * 16, 10, 4, 8, 16)),
        ("no room even for the states", (4 * 16 - 1, 10, 4, 8, 16)),
        ("one token, where a cache is the smaller one", (4 * 8, 1, 4, 8, 16)),
        ("one token and less than that", (4 * 8 - 1, 1, 4, 8, 16)),
        ("Llama 3 8B at 2^17 tokens with 5 GiB", (5 * 2**30, 2**17, 32, 4096, 2**21)),
    ]
    hint = "Count what c caches and layers - c states keep, and take the largest c that is within the budget."
    for on, arguments in cases:
        budget, tokens, layers, cache, state = arguments
        fits = [c for c in range(layers + 1) if c * cache * tokens + (layers - c) * state <= budget]
        if problem := compare(answer(*arguments), max(fits, default=-1), on=on, hint=hint):
            return problem
    return None


@exercise
def least_scale(answer) -> str | None:
    """m, cosine, weight -> the scale at which the right one of m unit keys gets this weight."""
    cases = [(2, 0.0, 0.9), (100, 0.5, 0.9), (100, 0.9, 0.9), (10**6, 0.5, 0.99)]
    for m, cosine, weight in cases:
        on = f"{m:,} keys, cosine {cosine:g}, weight {weight:g}"
        got = answer(m, cosine, weight)
        want = math.log((m - 1) * weight / (1 - weight)) / (1 - cosine)
        if problem := compare(got, want, on=on, hint=_weight_at(got, m, cosine, weight)):
            return problem
    return None


def _weight_at(scale, m: int, cosine: float, weight: float) -> str:
    """What the answer's own scale would give."""
    try:
        others = torch.full((min(m, 1000) - 1, 1), cosine, dtype=F64)
        keys = torch.cat([torch.ones(1, 1, dtype=F64), others])
        query = torch.ones(1, 1, dtype=F64)
        reached = attention_weights(query, keys, causal=False, scale=float(scale))[0, 0].item()
    except (TypeError, ValueError, RuntimeError):
        return "A number is wanted."
    few = " (of 1,000 keys)" if m > 1000 else ""
    return (
        f"At your scale the right key has the weight {reached:.3g}{few}, wanted is {weight:g} of {m:,}. There are "
        "m - 1 others, and their scores differ from the right one by the scale times 1 - cosine."
    )


@exercise
def latest_value(answer) -> str | None:
    """q, k, v -> for each query the value written last under its key."""
    for d, m, repeats in ((8, 4, 1), (8, 40, 1), (8, 6, 2), (16, 50, 3)):
        source = torch.Generator().manual_seed(100 * d + m)
        keys = torch.nn.functional.normalize(torch.randn(m, d, generator=source, dtype=F64), dim=-1)
        if repeats == 1 and m <= d:  # orthonormal, so that a state passes here and fails where there are more keys
            keys = torch.linalg.qr(keys.mT)[0].mT
        order = torch.cat([torch.randperm(m, generator=source) for _ in range(repeats)])
        v = torch.randn(m * repeats, d, generator=source, dtype=F64)
        want = torch.stack([v[(order == i).nonzero().max()] for i in range(m)])
        on = f"{m} keys of width {d}, each written {repeats} time{'s' if repeats > 1 else ''}"
        hint = _what_went_wrong(m, d, repeats)
        if problem := compare(answer(keys, keys[order], v), want, on=on, tolerance=0.05, hint=hint):
            return problem
    return None


def _what_went_wrong(m: int, d: int, repeats: int) -> str:
    if repeats > 1:
        return (
            "Equal keys have equal weight and give a mean. Let the count of a state be one more channel of the keys, "
            "large enough to prefer the later write, small enough never to beat another key."
        )
    if m > d:
        return "There are more keys than channels: a state of this width must lose some, so read from a cache."
    return (
        "The queries come after the whole text (causal=False), and the softmax must be sharp: raise the scale. If the "
        "keys have a channel for their age, it must be small enough never to beat another key."
    )
