"""The checks of the exercises, one module per page: ``check.<exercise>(answer)`` answers with its message.

A check tries the answer on small and awkward inputs and says what was expected, on which input, and what to look at
next. It never raises and never shows the solution.
"""

import re
from functools import cache
from importlib import import_module
from importlib.resources import files

from .._names import unknown


@cache
def _exercises() -> dict[str, str]:
    """Exercise name -> module, read from the sources: a page loads the checks of that page only."""
    found: dict[str, str] = {}
    for file in sorted(files(__name__).iterdir(), key=lambda f: f.name):
        if file.name.startswith("_") or not file.name.endswith(".py"):
            continue
        for name in re.findall(r"^@exercise\ndef (\w+)\(", file.read_text(encoding="utf8"), re.M):
            if name in found:
                raise ValueError(f"exercise {name!r} stands in {found[name]} and in {file.name[:-3]}")
            found[name] = file.name.removesuffix(".py")
    return found


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in _exercises():
        raise AttributeError(unknown("exercise", name, _exercises()))
    return getattr(import_module(f"{__name__}.{_exercises()[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_exercises())
