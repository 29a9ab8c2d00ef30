"""Checks of the exercises on sparse/block-selection."""

import math

import torch

from attnledger.costs import msa_flops, selected_pairs

from ._answer import compare, exercise
from ._watch import Watch


@exercise
def select_one_query(answer):
    """The blocks one query reads: mask before maximum, local block inside the budget, ties to the lower id."""
    cases = (
        ([3, 0, 1, 2, 0, 1], 5, 2, 2, [0, 2], "The local block is always read and takes one of the k slots."),
        ([3, 0, 1, 2, 0, 1], 5, 2, 1, [2], "With one slot the local block is all that is read."),
        ([1, 0, 2, 0, 9, 9], 3, 2, 2, [0, 1], "Scores behind the query must not count: cut before you take a maximum."),
        ([5, 5, 1, 9, 9, 9], 3, 3, 2, [0, 1], "The query sees only part of its own block."),
        ([0] * 9, 8, 1, 4, [0, 1, 2, 8], "All scores tie; the lower ids win the slots that the local block leaves."),
        ([2, 7, 7, 7, 0], 4, 1, 3, [1, 2, 4], "Three blocks tie for two slots; the lower ids win."),
        ([-3, -1, -2, -9, -4, -5, -6], 6, 2, 3, [0, 1, 3], "Scores may be negative, and the last block short."),
        ([4, 1], 1, 2, 16, [0], "Fewer blocks than slots: read those that exist."),
    )
    for scores, query, block, k, want, hint in cases:
        on = f"scores = {scores}, query = {query}, block = {block}, k = {k}"
        if problem := compare(answer(list(scores), query, block, k), want, on=on, hint=hint):
            return problem
    return None


@exercise
def keys_of_query(answer):
    """Keys read by the query at position t."""
    cases = (
        (0, 16, 128, 1, "The first query sees itself."),
        (127, 16, 128, 128, "The last query of the first block sees its whole block."),
        (128, 16, 128, 129, "One token into the second block: the first block and itself."),
        (2047, 16, 128, 2048, "Sixteen blocks fit the budget, and this query ends the sixteenth."),
        (2048, 16, 128, 1921, "The own block takes a slot even when only its first token is visible."),
        (10**6 - 1, 16, 128, 15 * 128 + 64, "Far out only the place inside the own block still matters."),
        (7, 1, 4, 4, "With one slot only the own block is left."),
    )
    for t, k, block, want, hint in cases:
        if problem := compare(answer(t, k, block), want, on=f"t = {t}, k = {k}, block = {block}", hint=hint):
            return problem
    total = sum(answer(t, 3, 4) for t in range(50))
    return compare(total, selected_pairs(50, top_k=3, block=4), on="the sum over t = 0 … 49 with k = 3, block = 4")


@exercise
def break_even_length(answer):
    """The length at which Eq. 12's two sides meet."""
    cases = (
        (64, 4, 128, 128, 16, 128, ""),
        (32, 4, 128, 128, 16, 64, "With fewer heads the index weighs more."),
        (8, 8, 64, 64, 2, 16, "Here every head has an index head of its own width."),
        (64, 4, 128, 128, 32, 128, "Twice the slots."),
    )
    for h, h_kv, d_h, d_idx, k, block, hint in cases:
        on = f"h = {h}, h_kv = {h_kv}, d_h = {d_h}, d_idx = {d_idx}, k = {k}, block = {block}"
        unit = msa_flops(1, heads=h, kv_heads=h_kv, head_dim=d_h, index_dim=d_idx, top_k=k, block=block)
        want = unit.main / (unit.gqa - unit.index)
        hint = hint or "Which terms of Eq. 12 grow with N², which with N? Put each kind on a side of its own."
        if problem := compare(answer(h, h_kv, d_h, d_idx, k, block), want, on=on, hint=hint):
            return problem
    for d_idx in (128, 256):
        on = f"h = 4, h_kv = 4, d_h = 64, d_idx = {d_idx}, k = 1, block = 8"
        hint = "The index alone costs as much as dense attention, or more: can any length pay?"
        if problem := compare(answer(4, 4, 64, d_idx, 1, 8), math.inf, on=on, hint=hint):
            return problem
    return None


@exercise
def alignment_gradient(answer):
    """Gradient of the alignment loss with respect to the index scores."""
    source = torch.Generator().manual_seed(0)
    for shape in ((3,), (7,), (2, 5)):
        scores = torch.randn(shape, generator=source, dtype=torch.float64).requires_grad_()
        teacher = torch.randn(shape, generator=source, dtype=torch.float64).softmax(-1)
        loss = (torch.xlogy(teacher, teacher) - teacher * scores.log_softmax(-1)).sum()
        (want,) = torch.autograd.grad(loss, scores)
        hint = (
            "Check the sign and the order: a token that the teacher likes more than the pupil must get a larger score."
        )
        try:
            with torch.inference_mode(), Watch() as seen:
                got = answer(scores.detach().clone(), teacher.clone())
        except RuntimeError as error:
            if "grad" not in str(error):
                raise
            return "autograd is switched off here. Derive the gradient on paper and write down the result."
        if problem := compare(got, want, on=f"scores of shape {shape}", hint=hint):
            return problem
        if seen.called("backward"):
            return "the numbers are right, but autograd found them. Derive the gradient and write down the result."
    scores, teacher = torch.tensor([0.0, 0.0, 5.0]), torch.tensor([1.0, 0.0, 0.0])
    want = scores.softmax(-1) - teacher
    return compare(answer(scores, teacher), want, on="a teacher with zeros", hint="Take no logarithm of the teacher.")
