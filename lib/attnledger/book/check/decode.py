"""Checks for the exercises of cost/decode."""

import math

from attnledger.costs import attention_flops, projection_flops

from ._answer import compare, exercise


def _pair(got, names: str, on: str) -> str | None:
    """A message unless `got` is a pair; None goes on to `compare`, which knows what it means."""
    if got is None or isinstance(got, (tuple, list)) and len(got) == 2:
        return None
    return f"for {on} two things are wanted: {names}."


@exercise
def count_a_step(answer) -> str | None:
    """d, h, g, d_ff, s -> (numbers fetched, FLOP) of one layer in one decode step."""
    cases = [
        ("one head of width 1, an MLP of width 1, one token", (1, 1, 1, 1, 1)),
        ("d = 8, 2 heads that share nothing, d_ff = 16, 5 tokens", (8, 2, 2, 16, 5)),
        ("d = 8, 4 query heads on one cached head, d_ff = 16, 5 tokens", (8, 4, 1, 16, 5)),
        ("Llama 3 8B's layer at 4,096 tokens", (4096, 32, 8, 14336, 4096)),
    ]
    for on, (d, h, g, d_ff, s) in cases:
        got = answer(d, h, g, d_ff, s)
        if problem := _pair(got, "the numbers fetched and the FLOP", on):
            return problem
        head = d // h
        cache = 2 * s * g * head
        flops = projection_flops(1, d_model=d, d_ff=d_ff, gated=True, heads=h, kv_heads=g)
        want = [flops // 2 + cache, flops + attention_flops(1, keys=s, heads=h, head_dim=head, causal=True)]
        if got is None:
            return compare(None, want, on=on)
        hint = "Go through the seven matrices: which depend on g, which on d_ff? Then the cache, keys and values."
        if problem := compare(got[0], want[0], on=f"{on}, numbers fetched", hint=hint):
            return problem
        hint = "Two FLOP per weight; a cached number works once for each of the h/g query heads that share it."
        if problem := compare(got[1], want[1], on=f"{on}, FLOP", hint=hint):
            return problem
    return None


@exercise
def batch_floor(answer) -> str | None:
    """weight_bytes, bytes_per_token, lengths, bandwidth -> (seconds per step, tokens per second of all)."""
    cases = [
        ("weights of 100 bytes, no token yet, 10 bytes per second", (100, 5, [0], 10)),
        ("one conversation of 20 tokens at 5 bytes", (100, 5, [20], 10)),
        ("two conversations of 20 tokens", (100, 5, [20, 20], 10)),
        ("three of 10, 20 and 60 tokens", (100, 5, [10, 20, 60], 10)),
        ("Llama 3 8B on an H100, 64 conversations of 4,096", (16_060_522_496, 131_072, [4096] * 64, 3_350 * 10**9)),
    ]
    for on, (weights, per_token, lengths, bandwidth) in cases:
        got = answer(weights, per_token, list(lengths), bandwidth)
        if problem := _pair(got, "seconds per step and tokens per second", on):
            return problem
        seconds = (weights + per_token * sum(lengths)) / bandwidth
        if got is None:
            return compare(None, seconds, on=on)
        hint = "The weights are read once, the cache of every conversation at its own length; divide by the bandwidth."
        if problem := compare(got[0] / seconds, 1.0, on=f"{on}, your seconds over the floor", hint=hint):
            return problem
        hint = "A step gives one token to each conversation, however long its context is."
        if problem := compare(got[1] * seconds, len(lengths), on=f"{on}, tokens in one step", hint=hint):
            return problem
    return None


@exercise
def conversations_to_fill(answer) -> str | None:
    """parameters, f, kappa, s, ridge -> the smallest batch whose step reaches the ridge, or infinity."""
    cases = [
        ("no cache and no attention: the ridge itself", (1000, 0, 0, 1, 64), 64),
        ("a ridge that is no whole number", (1000, 0, 0, 1, 64.5), 65),
        ("1,000 weights, 4 FLOP and 1 byte per cached token, 10 tokens, ridge 64", (1000, 4, 1, 10, 64), 92),
        ("the same with 100 tokens", (1000, 4, 1, 100, 64), math.inf),
        ("caches that grow bytes exactly as fast as the batch grows work", (1000, 4, 1, 50, 44), math.inf),
        ("Llama 3 8B on an H100 at 128 tokens", (8_030_261_248, 524_288, 131_072, 128, 989.4 / 3.35), 425),
        ("Llama 3 8B on an H100 at 4,096 tokens", (8_030_261_248, 524_288, 131_072, 4096, 989.4 / 3.35), math.inf),
    ]
    for on, arguments, want in cases:
        got = answer(*arguments)
        if want == math.inf and isinstance(got, (int, float)) and got != want:
            return (
                f"for {on} no batch reaches the ridge, but the answer is {got:,.6g}. When is the factor of b positive?"
            )
        hint = "Begin with the intensity of a batch on the page: at which b does it reach R? A conversation is whole."
        if problem := compare(got, want, on=on, hint=hint):
            return problem
    return None


@exercise
def tokens_per_step(answer) -> str | None:
    """alpha, gamma -> expected tokens per verifying step."""
    hint = "How likely is it that at least 0, 1, 2, … guesses in a row are accepted? The model's own token counts, too."
    for alpha, gamma in ((0.0, 4), (0.5, 0), (0.5, 1), (0.8, 4), (1.0, 4), (0.9, 16)):
        want = sum(alpha**j for j in range(gamma + 1))
        if problem := compare(answer(alpha, gamma), want, on=f"α = {alpha:g}, γ = {gamma}", hint=hint):
            return problem
    return None


@exercise
def share_of_floor(answer) -> str | None:
    """milliseconds, fetched bytes, copied bytes per second -> floor over measured time."""
    hint = "Floor = bytes over bytes per second, in seconds; the measured time is in milliseconds."
    for milliseconds, fetched, copied in ((1000.0, 50, 100), (500.0, 50, 100), (16.0, 2**27, 10**10)):
        want = fetched / copied / (milliseconds / 1e3)
        on = f"{milliseconds:g} ms, {fetched:,} bytes, {copied:,} bytes per second"
        if problem := compare(answer(milliseconds, fetched, copied), want, on=on, hint=hint):
            return problem
    return None
