"""What the operators ask of their arguments. Every complaint is a ValueError: which, what it got, what it wants."""

import math
from numbers import Integral, Real

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
        _tensor(name, x)
        if x.dtype not in FLOATING:
            complain(name, x.dtype, "float16, bfloat16, float32 or float64")
        if x.dtype != first.dtype or x.device != first.device:
            complain(name, f"{x.dtype} on {x.device}", f"{first.dtype} on {first.device} like {first_name}")
    return torch.promote_types(first.dtype, torch.float32)


def gate(name: str, x: Tensor, like: Tensor) -> None:
    """Check that a gate or a carried state is a tensor in the dtype of ``like`` or in the dtype it is computed in."""
    _tensor(name, x)
    computing = torch.promote_types(like.dtype, torch.float32)
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


def at_least(name: str, value: int, least: int) -> int:
    """Check that ``value`` is a whole number, NumPy's included, ``least`` or more; return it as an ``int``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        complain(name, repr(value), f"a whole number >= {least}")
    return int(value)


def number(name: str, value: float, want: str = "a finite number") -> float:
    """Check that ``value`` is a finite real number, NumPy's included and no tensor; return it as a ``float``."""
    try:
        found = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        complain(name, "a number beyond fp64", want)
    if not math.isfinite(found):
        complain(name, repr(value), want)
    return found


def flag(name: str, value: bool) -> None:
    """Check that ``value`` is True or False: a mask or a number given in its place would be asked for its truth."""
    if not isinstance(value, bool):
        complain(name, type(value).__name__, "True or False")


def generator(seed: int) -> torch.Generator:
    """Check ``seed``; return random numbers that start from it, on the CPU whatever the default device is."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not -(2**63) <= seed < 2**64:
        complain("seed", repr(seed), "a whole number of at most 64 bits")
    return torch.Generator("cpu").manual_seed(int(seed))


def _tensor(name: str, x: Tensor) -> None:
    """Check that ``x`` is a tensor, and not a sparse one."""
    if not isinstance(x, Tensor):
        complain(name, type(x).__name__, "a floating-point tensor")
    if x.layout != torch.strided:
        complain(name, x.layout, "a dense tensor")
