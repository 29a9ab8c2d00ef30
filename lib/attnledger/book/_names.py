"""What to say when a name does not exist: the nearest name that does."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """A message for an unknown `name`, with the nearest of the `known` names."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.0)
    return f"there is no {kind} {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
