"""What the operators ask of their arguments. Every complaint is a ValueError: which, what it got, what it wants."""

import torch
from torch import Tensor

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def complain(name: str, got: object, want: str) -> None:
    """Raise the one kind of error the operators raise."""
    raise ValueError(f"{name}: got {got}, want {want}")


def floating(**tensors: Tensor) -> torch.dtype:
    """Check that all are floating tensors of one dtype and device; return the dtype to compute in (fp32 for halves)."""
    first_name, first = next(iter(tensors.items()))
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            complain(name, type(x).__name__, "a floating-point tensor")
        if x.dtype not in FLOATING:
            complain(name, x.dtype, "float16, bfloat16, float32 or float64")
        if x.dtype != first.dtype or x.device != first.device:
            complain(name, f"{x.dtype} on {x.device}", f"{first.dtype} on {first.device} like {first_name}")
    return torch.promote_types(first.dtype, torch.float32)


def gate(name: str, x: Tensor, like: Tensor) -> None:
    """Check that a gate or a carried state is a tensor in the dtype of ``like`` or in the dtype it is computed in."""
    computing = torch.promote_types(like.dtype, torch.float32)
    if not isinstance(x, Tensor):
        complain(name, type(x).__name__, "a floating-point tensor")
    if x.dtype not in (like.dtype, computing) or x.device != like.device:
        wanted = str(computing) if like.dtype == computing else f"{computing} or {like.dtype}"
        complain(name, f"{x.dtype} on {x.device}", f"{wanted} on {like.device}")


def matrix(name: str, x: Tensor, want: str = "(..., T, d)") -> None:
    """Check that the last two axes of ``x`` are tokens and at least one channel."""
    if x.ndim < 2 or x.shape[-1] == 0:
        complain(name, f"shape {tuple(x.shape)}", f"{want} with at least one channel")


def few_tokens(q: Tensor, few: int) -> bool:
    """Whether ``q`` is a matrix of at most ``few`` tokens."""
    floating(q=q)
    matrix("q", q)
    return q.shape[-2] <= few


def shape(name: str, x: Tensor, want: tuple[int, ...], words: str) -> None:
    """Check that ``x`` has exactly the shape ``want``, which ``words`` spells out."""
    if tuple(x.shape) != tuple(want):
        complain(name, f"shape {tuple(x.shape)}", f"{words} = {tuple(want)}")


def at_least(name: str, value: int, least: int) -> None:
    """Check that ``value`` is a whole number, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        complain(name, repr(value), f"a whole number >= {least}")
