"""The numbers of a problem set: each student works with their own, and the grader knows which."""

import hashlib
import os

STUDENT = "ATTNLEDGER_STUDENT"  # while a submission is graded: the id that it was handed in under
_asked: dict[str, tuple[str, dict[str, list]]] = {}


def personal(part: str, student: str | None = None, **choices: list) -> dict:
    """One value per keyword, picked from its list by `part` and `student`; the first of each list without a student.

    ``personal("cost", "ada", d=[4608, 5376], heads=[36, 42])`` gives Ada the same values on every machine; ids are
    compared without case and surrounding blanks. ``personal("cost")`` gives again what was given last, in a dict of its
    own. While a submission is graded, the id of its folder counts and not the one typed in the notebook.
    ValueError: an empty list, or a part that was not asked for before.
    """
    if student is None and not choices:
        if part not in _asked:
            raise ValueError(f"part wants a set whose numbers were drawn before, got {part!r}")
        student, choices = _asked[part]
        return _draw(part, student, choices)
    for name, values in choices.items():
        if not values:
            raise ValueError(f"{name} wants a list of values to choose from, got {values!r}")
    typed = _plain(student or "")
    counts = _plain(os.environ.get(STUDENT, ""))
    if counts and typed != counts:
        print(f"Graded with the numbers of {counts!r}, who handed this in; the notebook says {typed!r}.")
    elif not counts and not typed:
        print("These are the example numbers. Type your id above: what you hand in is graded with your own.")
    choices = {name: list(values) for name, values in choices.items()}
    _asked[part] = (counts or typed, choices)
    return _draw(part, counts or typed, choices)


def _plain(student: object) -> str:
    return str(student).strip().casefold()


def _draw(part: str, student: str, choices: dict[str, list]) -> dict:
    if not student:
        return {name: values[0] for name, values in choices.items()}
    return {name: values[_stable(part, student, name) % len(values)] for name, values in choices.items()}


def _stable(*words: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest()[:8])
