"""Checks that every accounting function shares: a wrong argument is named, with what it got and what it wants."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def count(name: str, value: Any, *, least: int = 1) -> int:
    """`value` as an int; ValueError unless it is a whole number of at least `least` (True and 3.0 are not)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} wants a whole number of at least {least}, got {value!r}")
    return int(value)


def amount(name: str, value: Any) -> int | float:
    """`value`, a number above 0 (bytes per number may be 0.5 for four bits); ints stay ints."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < float("inf"):
        raise ValueError(f"{name} wants a finite number above 0, got {value!r}")
    return int(value) if isinstance(value, Integral) else float(value)


def flag(name: str, value: Any) -> bool:
    """`value` as a bool; ValueError for anything else, so that causal=2 or causal="no" cannot pass."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} wants True or False, got {value!r}")
    return value


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """`value` if it is one of `allowed`."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise ValueError(f"{name} wants one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def whole(value: int | float) -> int | float:
    """An int where the value is one, so that exact counts print as such."""
    return int(value) if value == int(value) else value
