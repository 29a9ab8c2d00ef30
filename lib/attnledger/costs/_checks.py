"""Checks that every accounting function shares: a wrong argument is named, with what it got and what it wants."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from numbers import Integral, Rational, Real
from types import MappingProxyType
from typing import Any


def count(name: str, value: Any, *, least: int = 1) -> int:
    """`value` as an int; ValueError unless it is a whole number of at least `least` (True and 3.0 are not)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} wants a whole number of at least {least}, got {value!r}")
    return int(value)


def amount(name: str, value: Any, *, least: int | None = None) -> Fraction:
    """`value` exactly, a number above 0, or at least `least` (bytes per number may be 0.5 for four bits).

    A fraction, so that products and quotients stay exact however long they grow; `whole` ends them.
    """
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or value == float("inf") or not (value > 0 if least is None else value >= least):
        wanted = "above 0" if least is None else f"of at least {least}"
        raise ValueError(f"{name} wants a finite number {wanted}, got {value!r}")
    if isinstance(value, Integral):
        return Fraction(int(value))
    return Fraction(value if isinstance(value, Rational) else float(value))


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


def sources(record: Any) -> Mapping[str, str]:
    """The provenance of a dataclass, read-only: a text for each named field, and for ``"*"``."""
    given = record.provenance
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise ValueError(f"provenance wants a mapping from field names to texts, got {given!r}")
    if unknown := set(given) - {f.name for f in fields(record)} - {"*"}:
        raise ValueError(f"provenance wants field names, got {sorted(map(str, unknown))}")
    return MappingProxyType(dict(given))


def whole(value: int | Fraction) -> int | float:
    """An int where the value is one, so that exact counts print as such; otherwise the nearest float."""
    return int(value) if value == int(value) else float(value)
