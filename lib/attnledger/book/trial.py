"""Trying an answer of a problem set on inputs with known results: an exercise's check, with cases of its own."""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from .check._answer import Answer, NotAnswered, compare, exercise


def trial(answer: Callable, cases: Iterable[tuple], *, tolerance: float = 1e-6, hint: str = "") -> Answer:
    """Call `answer` on each case and compare; an Answer whose `right` is True, False, or None while unanswered.

    A case is ``(arguments, wanted)`` or ``(arguments, wanted, on)``: `arguments` is a tuple, or a dict of keywords;
    `wanted` is a number, boolean, word, list, array or tensor, a tuple of these for an answer in several parts, or a
    function of what was returned that gives None or what is wrong with it; `on` names the input in messages and is made
    from the arguments if left out. The answer gets copies, so it may change them. It may compute for five seconds, all
    cases together, and whatever it raises becomes a message: nothing stops *Run all*. A test cell ends in
    ``assert verdict.right, verdict.message`` between the marks of the hidden tests.
    """

    @exercise
    def check(answer: Callable) -> str | None:
        if not callable(answer):
            return f"a function is wanted, but the answer is a {type(answer).__name__}. Keep the line with def."
        for case in cases:
            arguments, wanted, *name = case
            on = name[0] if name else _shown(answer, arguments)
            given = _copied(arguments)
            got = answer(**given) if isinstance(given, dict) else answer(*given)
            if problem := _differs(got, wanted, on, tolerance, hint):
                return problem
        return None

    return check(answer)


def fresh(module: str) -> Any:
    """A module of the library as it stands on disk, imported anew beside the one in use.

    Test cells take reference values from it: ``fresh("attnledger.costs").crossover_length(...)`` is right even if the
    notebook has assigned to a name of the library. Objects of the two copies do not mix: give answers inputs from the
    library as it is imported, and take only wanted values from here.
    """
    package = module.partition(".")[0]
    mine = {name: found for name, found in sys.modules.items() if name == package or name.startswith(package + ".")}
    for name in mine:
        del sys.modules[name]
    try:
        return importlib.import_module(module)
    finally:
        for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
            del sys.modules[name]
        sys.modules.update(mine)


def _differs(got: Any, wanted: Any, on: str, tolerance: float, hint: str) -> str | None:
    if callable(wanted):
        if got is None:
            raise NotAnswered
        problem = wanted(got)
        return None if problem is None else " ".join(filter(None, [f"for {on}: {problem}.", hint]))
    if not isinstance(wanted, tuple):
        return compare(got, wanted, on=on, tolerance=tolerance, hint=hint)
    if got is None or (isinstance(got, (tuple, list)) and got and all(part is None for part in got)):
        raise NotAnswered
    if not isinstance(got, (tuple, list)) or len(got) != len(wanted):
        what = f"{len(got)} of them" if isinstance(got, (tuple, list)) else f"a {type(got).__name__}"
        return " ".join(filter(None, [f"for {on} {len(wanted)} values are wanted, but the answer is {what}.", hint]))
    for i, (part, want) in enumerate(zip(got, wanted, strict=True), 1):
        if part is None:
            return f"for {on}, value {i} of {len(wanted)} is None."
        if problem := compare(part, want, on=f"{on}, value {i} of {len(wanted)},", tolerance=tolerance, hint=hint):
            return problem
    return None


def _copied(value: Any) -> Any:
    """Tensors, arrays and containers anew, so that an answer may change them; all else as it is."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_copied(item) for item in value)
    if isinstance(value, torch.Tensor):
        return value.clone()
    return value.copy() if isinstance(value, np.ndarray) else value


def _shown(answer: Callable, arguments: tuple | dict) -> str:
    """The input in words: ``d = 512, q of shape (3, 4)``."""
    if not isinstance(arguments, dict):
        try:
            arguments = inspect.signature(answer).bind(*arguments).arguments
        except (TypeError, ValueError):  # the answer takes other arguments: calling it will say so
            arguments = {f"argument {i}": value for i, value in enumerate(arguments, 1)}
    return ", ".join(f"{name} {_short(value)}" for name, value in arguments.items()) or "no arguments"


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor) or hasattr(value, "shape"):
        return f"of shape {tuple(value.shape)}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"= {value:,}"
    if name := getattr(value, "name", None):
        return f"= {name}"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return f"= {text}" if len(text) <= 40 else f"= {text[:37]}..."
