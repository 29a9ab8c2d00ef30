"""Checks of the exercises on appendix/primer."""

import torch

from ._answer import NotAnswered, compare, exercise

F64 = torch.float64


@exercise
def merge_heads(answer) -> str | None:
    """(..., h, T, d_h) -> (..., T, h d_h), the heads of a token side by side."""
    cases = (
        (torch.arange(12, dtype=F64).view(3, 2, 2), "3 heads, 2 tokens, width 2"),
        (torch.arange(8, dtype=F64).view(1, 4, 2), "one head"),
        (torch.arange(48, dtype=F64).view(2, 3, 4, 2), "a batch of 2, 3 heads, 4 tokens, width 2"),
        (torch.arange(6, dtype=F64).view(2, 1, 3), "one token"),
    )
    for x, on in cases:
        want = torch.cat([x[..., head, :, :] for head in range(x.shape[-3])], dim=-1)
        hint = (
            "Each row of the result belongs to one token: bring tokens before heads, then let the last two axes melt."
        )
        if problem := compare(answer(x.clone()), want, on=on, hint=hint):
            return problem
    return None


@exercise
def einsum_equations(answer) -> str | None:
    """Three equations: states of all heads, scores of grouped heads, row-by-row inner products."""
    source = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=source, dtype=F64)

    k, v, q, shared, a, b = draw(2, 5, 3), draw(2, 5, 4), draw(2, 3, 5, 4), draw(2, 5, 4), draw(5, 3), draw(5, 3)
    tasks = (
        ("a", (k, v), k.mT @ v, "Which letter occurs in both inputs, but not in the state? It is summed over."),
        ("b", (q, shared), q @ shared.unsqueeze(1).mT, "The keys have no letter for the heads inside a group."),
        ("c", (a, b), (a * b).sum(-1), "Tokens keep their letter, channels lose theirs."),
    )
    if not isinstance(answer, (list, tuple)) or len(answer) != len(tasks):
        return "three equations are wanted, as a list of three strings."
    if any(equation is None for equation in answer):
        raise NotAnswered
    for equation, (name, inputs, want, hint) in zip(answer, tasks, strict=True):
        if not isinstance(equation, str):
            return f"equation ({name}) is a {type(equation).__name__}, a string is wanted."
        shapes = " and ".join(str(tuple(x.shape)) for x in inputs)
        try:
            got = torch.einsum(equation, *inputs)
        except RuntimeError as error:
            return f"equation ({name}), {equation!r}, does not fit inputs of shape {shapes}: {error}. {hint}"
        if problem := compare(got, want, on=f"equation ({name}) and inputs of shape {shapes}", hint=hint):
            return problem
    return None


@exercise
def masked_softmax(answer) -> str | None:
    """scores (..., T), visible (..., T) boolean -> weights that are 0 where nothing may be seen."""
    inf = float("inf")
    cases = (
        ([[0.0, 1.0, 2.0]], [[True, True, True]], "Nothing is hidden: this is plain softmax."),
        ([[0.0, 1.0, 2.0]], [[True, True, False]], "The hidden score must not count in the sum below the line either."),
        ([[0.0, 9.0]], [[False, True]], "Only one is left, and it gets everything."),
        ([[1000.0, 999.0], [-1000.0, -999.0]], [[True, True], [True, True]], "Subtract the largest visible score."),
        ([[0.0, 2000.0, 1.0]], [[True, False, True]], "The largest score of all may be a hidden one."),
        ([[-1000.0, 0.0, -1001.0]], [[True, False, True]], "Exponentials far below the hidden score must not vanish."),
        ([[1.0, 2.0], [3.0, 4.0]], [[True, False], [False, False]], "A row that may see nothing gets zeros, not NaN."),
        ([[5.0, 5.0]], [[True, True]], "Equal scores, equal weights."),
    )
    for scores, visible, hint in cases:
        x, mask = torch.tensor(scores, dtype=F64), torch.tensor(visible)
        want = torch.softmax(x.masked_fill(~mask, -inf), dim=-1).nan_to_num(0.0)
        if problem := compare(answer(x, mask), want, on=f"scores = {scores}, visible = {visible}", hint=hint):
            return problem
    x, mask = torch.zeros(2, 1, 3, dtype=F64), torch.ones(2, 1, 3, dtype=torch.bool)
    want = torch.full((2, 1, 3), 1 / 3, dtype=F64)
    return compare(answer(x, mask), want, on="scores of shape (2, 1, 3)", hint="Work along the last axis only.")


@exercise
def first_gap(answer) -> str | None:
    """Stored fraction bits -> the first whole number that the format has no place for."""
    cases = (
        (7, "bf16, 7 stored bits"),
        (10, "fp16, 10 stored bits"),
        (0, "no stored bit, so only powers of two"),
        (23, "fp32, 23 stored bits"),
    )
    hint = (
        "From 2^m on the spacing is 2^(m - bits). Where does it become 2, and which number is the first to be skipped?"
    )
    for bits, on in cases:
        if problem := compare(answer(bits), 2 ** (bits + 1) + 1, on=on, tolerance=0, hint=hint):
            return problem
    return None
