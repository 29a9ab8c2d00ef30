"""What all checks share: calling an untrusted answer, comparing it, and saying what to look at."""

import ctypes
import functools
import html
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

SECONDS = 5.0  # that an answer may compute: processor time, so that a busy machine cuts off no one
PATIENCE = 12  # times as long by the wall clock for an answer that waits or sleeps
_LIBRARIES = [Path(__file__).parents[2], *(Path(sysconfig.get_path(p)) for p in ("stdlib", "purelib", "platlib"))]


class Answer:
    """What a check says: `right` is True, False, or None for an exercise that is not answered yet."""

    def __init__(self, right: bool | None, message: str):
        self.right, self.message = right, message

    def __repr__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        kind = {True: "right", False: "wrong", None: "open"}[self.right]
        lines = html.escape(self.message).replace("\n", "<br>")
        return f'<div class="answer {kind}">{lines}</div>'


class NotAnswered(Exception):
    """The answer, or what the answer returned, is None."""


class TooSlow(BaseException):
    """The answer computed for longer than `SECONDS`; no `except Exception` of the answer swallows it."""


def exercise(check: Callable[[Any], str | None]) -> Callable[[Any], Answer]:
    """Turn a function of the answer into a check.

    The function returns None if the answer is right, else a message that says what was expected, on which input, and
    what to look at next. Whatever the answer does (returns None, raises, loops forever) becomes a message too.
    """

    @functools.wraps(check)
    def checked(answer: Any = None) -> Answer:
        if answer is None:
            return Answer(None, _OPEN)
        try:
            problem = _within(SECONDS, check, answer)
        except NotAnswered:
            return Answer(None, _OPEN)
        except TooSlow:
            return Answer(False, f"Not yet: still running after {SECONDS:.0f} seconds. Does every loop end?")
        except (Exception, SystemExit) as error:
            return Answer(False, _trace(error))
        return Answer(True, "Right.") if problem is None else Answer(False, f"Not yet: {problem}")

    return checked


_OPEN = "Not answered yet: replace the None and run the cell again."


def compare(
    got: Any, want: Any, *, on: str, tolerance: float = 1e-6, hint: str = "", reveal: bool = True
) -> str | None:
    """None if `got` equals `want` (numbers, booleans, lists, arrays, tensors; any dtype), else what differs.

    `on` names the input (``"h = 4, h_kv = 2"``); `hint` says what to look at. The wanted value is not shown when the
    answer has a wrong kind or shape; a wrong number is shown with what was expected there, unless `reveal` is False:
    where the exercise asks for this very value, the message must not give it away.
    """
    if got is None:
        raise NotAnswered
    if isinstance(want, str):
        return None if str(got).strip().lower() == want.lower() else _say(f"for {on}, {got!r} is not it", hint)
    expected = _tensor(want)
    try:
        given = _tensor(got)
    except Exception:
        return _say(f"for {on} a {_kind(expected)} is wanted, but the answer is a {type(got).__name__}", hint)
    if given.shape != expected.shape:
        return _say(f"for {on} a {_kind(expected)} is wanted, but the answer is a {_kind(given)}", hint)
    scale = expected.abs().clamp(min=1.0)
    near = ((given - expected).abs() <= tolerance * scale) & expected.isfinite()
    wrong = ~near & (given != expected)
    if not wrong.any():
        return None
    if expected.ndim == 0:
        wanted = f", expected {_number(expected)}" if reveal else ", and that is not it"
        return _say(f"for {on} the answer gives {_number(given)}{wanted}", hint)
    index = tuple(wrong.nonzero()[0].tolist())
    place = "[" + ", ".join(map(str, index)) + "]"
    wanted = f", expected {_number(expected[index])}" if reveal else ", and that is not it"
    return _say(f"for {on} the entry {place} is {_number(given[index])}{wanted}", hint)


def _say(problem: str, hint: str) -> str:
    return f"{problem}. {hint}" if hint else f"{problem}."


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, (list, tuple)) and any(isinstance(item, (torch.Tensor, np.ndarray)) for item in value):
        return torch.stack([_tensor(item) for item in value])
    if isinstance(value, np.ndarray):
        value = torch.as_tensor(value.copy())  # torch takes neither reversed nor read-only views
    if isinstance(value, torch.Tensor) and value.is_complex():
        raise TypeError("a real number is wanted")
    return torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()


def _kind(tensor: torch.Tensor) -> str:
    return "single number" if tensor.ndim == 0 else f"value of shape {tuple(tensor.shape)}"


def _number(tensor: torch.Tensor) -> str:
    number = float(tensor) + 0.0
    return f"{number:,.0f}" if number.is_integer() and abs(number) < 1e15 else format(number, ",.6g")


def _is_library(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in _LIBRARIES)


def _trace(error: BaseException) -> str:
    """The last line of the student's own code that raised, and the error; not a line of a library it calls."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_library(Path(f.filename))]
    where = f" at `{frames[-1].line}`" if frames and frames[-1].line else ""
    return f"Not yet: your answer raised {type(error).__name__}{where}: {error}"


def _within(seconds: float, check: Callable, answer: Any) -> str | None:
    """Run ``check(answer)``, raising TooSlow in this thread when its time is up (also on Windows, unlike signals)."""
    thread = ctypes.c_ulong(threading.get_ident())
    done = threading.Lock()
    ended = threading.Event()
    begin, computed = time.monotonic(), time.process_time()

    def watch() -> None:
        left = seconds
        while not ended.wait(left):
            waited = time.monotonic() - begin
            left = seconds - max(min(time.process_time() - computed, waited), waited / PATIENCE)
            if left <= 0:
                with done:
                    if not ended.is_set():
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TooSlow))
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        return check(answer)
    finally:
        with done:
            ended.set()
