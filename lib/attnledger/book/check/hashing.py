"""Checks of the exercises on sparse/hashing."""

import math

import torch

from ._answer import compare, exercise


@exercise
def hash_bucket(answer):
    """The bucket of one vector under the angular hash."""
    source = torch.Generator().manual_seed(3)
    cases = [
        (
            torch.tensor([1.0, 0.2]),
            torch.eye(2),
            "x points along the first axis, more or less. That is the first bucket.",
        ),
        (
            torch.tensor([-1.0, 0.2]),
            torch.eye(2),
            "x points against the first axis. Directions against an axis have buckets, too.",
        ),
        (torch.tensor([0.1, -3.0]), torch.eye(2), "Opposite directions are different buckets: is the sign lost?"),
        (
            torch.tensor([0.1, 3.0]),
            torch.eye(2),
            "This is the opposite of the direction before; b/2 columns make b buckets, from 0.",
        ),
    ]
    for half in (4, 8):
        x, R = torch.randn(16, generator=source), torch.randn(16, half, generator=source)
        cases += [(x, R, "Which axis, with its sign, is nearest?"), (-x, R, "−x never shares a bucket with x.")]
        cases.append((100 * x, R, "Only the direction counts."))
    for x, R, hint in cases:
        turned = x.double() @ R.double()
        want = int(torch.cat([turned, -turned]).argmax())
        on = f"x of {len(x)} channels, R of shape {tuple(R.shape)}, x[0] = {x[0].item():.2f}"
        if problem := compare(answer(x.double(), R.double()), want, on=on, hint=hint):
            return problem
    return None


@exercise
def met_in_round(answer):
    """Which earlier tokens a query meets in one round."""
    cases = (
        ([0, 1, 0, 2, 0, 1], 4, 6, "Everything of its bucket that stands before it."),
        ([0, 1, 0, 2, 0, 1], 0, 6, "The first token of a bucket meets nobody."),
        ([0, 1, 0, 2, 0, 1], 1, 6, "Tokens 2 and 4 come earlier in the sorted row, but later in the text."),
        ([0, 1, 0, 2, 0, 1], 5, 6, "Only the own bucket."),
        ([3] * 9, 8, 2, "Chunks of two: 0 1 | 2 3 | 4 5 | 6 7 | 8. Its own chunk and the one before."),
        ([3] * 9, 7, 2, "Chunks of two: 0 1 | 2 3 | 4 5 | 6 7 | 8. Its own chunk and the one before."),
        ([1, 0, 1, 1, 0, 1, 1], 6, 2, "Chunks are counted inside the bucket: 0 2 | 3 5 | 6."),
        ([1, 0, 1, 1, 1, 1], 5, 2, "Count the chunks from the bucket's first token, not from that of the row."),
        ([1, 1, 0, 1], 3, 1, "Chunks of one token: the one before in its bucket."),
    )
    for buckets, query, chunk, hint in cases:
        own = [t for t, b in enumerate(buckets) if b == buckets[query] and t <= query]
        start = max((len(own) - 1) // chunk - 1, 0) * chunk
        on = f"buckets = {buckets}, query = {query}, chunk = {chunk}"
        if problem := compare(answer(list(buckets), query, chunk), own[start:-1], on=on, hint=hint):
            return problem
    return None


@exercise
def rounds_for_recall(answer):
    """Rounds until a pair meets with a wanted chance."""
    cases = (
        (0.5, 0.9, "After r rounds the pair has missed each other with chance 0.5 to the power of r."),
        (0.7, 0.6, "One round may be enough."),
        (0.05, 0.99, "A rare pair needs many rounds."),
        (0.3, 0.95, "Round up: a part of a round does not exist."),
        (0.9, 0.97, ""),
    )
    for p, target, hint in cases:
        want = math.ceil(math.log(1 - target) / math.log(1 - p))
        if problem := compare(answer(p, target), want, on=f"p = {p}, target = {target}", hint=hint):
            return problem
    hint = "Pairs that always meet need one round."
    return compare(answer(1.0, 0.9), 1, on="p = 1, target = 0.9", hint=hint)
