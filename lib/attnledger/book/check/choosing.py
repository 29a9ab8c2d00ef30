"""Checks for the exercises of hybrid/choosing."""

import math

from ._answer import compare, exercise


@exercise
def largest_gain(answer) -> str | None:
    """share, factor -> the end-to-end gain."""
    cases = [(0.4, 4.0), (0.4, 1.0), (1.0, 8.0), (0.0, 8.0), (0.9, 10.0)]
    for share, factor in cases:
        want = 1 / (1 - share + share / factor)
        hint = (
            "Set the old step to 1. The share that is not touched keeps its time, the other one takes share / factor; "
            "the gain is the old time over the new one."
        )
        on = f"a share of {share:g} made {factor:g} times faster"
        if problem := compare(answer(share, factor), want, on=on, hint=hint):
            return problem
    return None


@exercise
def tokens_to_double(answer) -> str | None:
    """weights, per_token, requests -> tokens per request at which caches and weights are equally many bytes."""
    cases = [
        ("1,000 bytes of weights, 10 per token, one request", (1000, 10, 1)),
        ("the same with four requests", (1000, 10, 4)),
        ("Llama 3 8B in BF16, one request", (16_060_522_496, 131_072, 1)),
        ("Llama 3 8B in BF16, 64 requests", (16_060_522_496, 131_072, 64)),
    ]
    hint = "The weights are read once for all requests, each request's cache once for itself. Tokens per request count."
    for on, (weights, per_token, requests) in cases:
        want = weights / (per_token * requests)
        if problem := compare(answer(weights, per_token, requests), want, on=on, hint=hint):
            return problem
    return None


@exercise
def throughput_gain(answer) -> str | None:
    """weights, room, old, new -> tokens per second, new over old, with full memory."""
    cases = [
        ("no weights to read, half the bytes per request", (0, 100, 10, 5)),
        ("the same and 100 bytes of weights", (100, 100, 10, 5)),
        ("a quarter of the bytes, one old request fits", (100, 40, 30, 10)),
        ("requests that do not fill the room", (50, 99, 20, 9)),
        ("no old request fits", (100, 9, 10, 5)),
        ("Kimi Linear at 10^6 tokens on two H100s", (6 * 10**9, 64 * 10**9, 31_104_000_000, 8_106_000_000)),
    ]
    for on, (weights, room, old, new) in cases:
        before, after = (room // each / (weights + room // each * each) if room // each else 0.0 for each in (old, new))
        want = after / before if before else math.inf
        got = answer(weights, room, old, new)
        if problem := compare(got, want, on=on, hint=_throughput_hint(got, room, old, new)):
            return problem
    return None


def _throughput_hint(got, room: int, old: int, new: int) -> str:
    if room < old:
        return 'Nothing over nothing: where no old request fits, the gain is float("inf").'
    if isinstance(got, (int, float)) and math.isclose(got, (room // new) / (room // old), rel_tol=1e-6):
        return "That is how many more requests fit. A step with more requests also reads more."
    return "Whole requests fit. Tokens per second are requests over time, and a step's time is all bytes it reads."


@exercise
def selection_reads_less_from(answer) -> str | None:
    """kv, index, budget, share, state -> tokens from which on block selection reads less than the mix."""
    cases = [
        ("kv = 10, index = 1, budget = 8, half caches, no state", (10, 1, 8, 0.5, 0), ""),
        (
            "the same with states of 20 numbers",
            (10, 1, 8, 0.5, 20),
            "The states are read and written back: twice, in the layers without a cache.",
        ),
        (
            "states so large that selection reads less from the start",
            (10, 1, 8, 0.5, 200),
            "There is no negative length; the answer is 0.",
        ),
        (
            "an index as wide as the mix's caches",
            (10, 5, 8, 0.5, 20),
            'The lines are parallel and selection lies above: float("inf").',
        ),
        (
            "an index wider than the mix's caches",
            (10, 6, 8, 0.5, 200),
            'Selection starts below and ends above: from no length on, float("inf").',
        ),
        ("Llama 3 8B with an index of 128, 3:1", (2048, 128, 2048, 0.25, 524_288), ""),
    ]
    for on, (kv, index, budget, share, state), advice in cases:
        slope = share * kv - index
        want = max(0.0, (budget * kv - 2 * (1 - share) * state) / slope) if slope > 0 else math.inf
        hint = advice or "Set the two lines equal and solve for the length; all is counted per layer."
        if problem := compare(answer(kv, index, budget, share, state), want, on=on, hint=hint):
            return problem
    return None
