"""Measured runs as pages show them: the book's recording, and beside it the reader's own card where there is one.

Pages are executed without a GPU, so that their outputs are those of the recording and can be compared. A reader's
kernel that has a GPU runs the suite there, once, and the same chart, table and sentence show both.
"""

import html
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from IPython.display import HTML, display

from .data import OPENED
from .text import Table, shown, table

if TYPE_CHECKING:
    from ..timing.recording import Entry, Recording

MINUTES = 2.0  # a reader's patience
SPOKEN = {"decode": "softmax", "prefill": "dense", "flash": "flash", "block-sparse": "sparse", "hybrid": "hybrid"}
WORDS = defaultdict(
    dict,
    {
        "decode": {
            "softmax": "cache, 16 heads",
            "grouped": "cache, 4 heads",
            "linear": "state, linear",
            "delta": "state, delta rule",
        },
        "prefill": {
            "dense": "all pairs",
            "window": "window of 512",
            "sparse": "4 chosen blocks of 128",
            "linear": "linear attention",
            "delta": "delta rule",
            "kda": "KDA",
        },
        "flash": {"naive": "written out", "flash": "fused"},
        "block-sparse": {
            "dense": "all pairs",
            "main": "main branch",
            "sparse": "index and main",
            "layer, dense": "layer, all pairs",
            "layer, sparse": "layer, chosen blocks",
        },
        "hybrid": {
            "dense": "4 dense layers",
            "hybrid": "3 states, 1 dense",
            "gated": "4 states",
            "rest": "no attention",
        },
    },
)
_TAKEN: dict[tuple[str, str], "Recording"] = {}  # the reader's runs of this session


class Measured:
    """The recordings of one suite: `book` is the library's own, `reader` the one taken here or None."""

    def __init__(self, book: "Recording", reader: "Recording | None" = None, note: str = ""):
        self.book, self.reader, self.note = book, reader, note

    def __iter__(self) -> Iterator["Recording"]:
        yield self.book
        if self.reader:
            yield self.reader

    def table(self, **size: int) -> Table:
        """What was measured at that size: median, spread, how far from the bound, and which ceiling sets the bound."""
        rows, alone = [], self.reader is None
        for run in self:
            with suppress(LookupError):
                entries = run.point(**size).entries
                rows += [({} if alone else {"on": run.device}) | _row(run.suite, *item) for item in entries.items()]
        return table(rows, caption=f"{_size(size)}{f'; {self.book.device}' if alone else ''}")

    @property
    def sentences(self) -> list[str]:
        """Where it was measured, and with a reader's run beside it what the difference comes from."""
        said = [f"Recorded on {self.book.place}."]
        if self.reader:
            said += [f"Yours: {self.reader.place}.", *_difference(self.book, self.reader), *_left_out(self.reader)]
        return [*said, *filter(None, [self.note])]

    def _repr_html_(self) -> str:
        return "\n".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)

    def __repr__(self) -> str:
        return "\n".join(self.sentences)


def measured(
    suite: str,
    *,
    device: str | torch.device | None = None,
    minutes: float = MINUTES,
    folder: str | Path = ".",
    tell: Callable[[str], None] | None = None,
) -> Measured:
    """The book's recording of `suite`, and a run on `device`: by default on the GPU if this kernel has one.

    The run takes about `minutes`, shows its progress through `tell` (by default in one line of the cell), is kept for
    this session and, where `folder` can be written, as a file. Whatever stops it, the book's recording is returned and
    the reason said. Ctrl-C keeps what was measured. Raises ValueError for an unknown suite.
    """
    from ..timing import recording, suites  # only here: a page that measures nothing does not depend on them

    if suite not in suites.SUITES:
        raise ValueError(f"suite must be one of {', '.join(suites.SUITES)}, got {suite!r}")
    OPENED.add(f"recordings/{suite}-cpu.json")
    book = recording.read(f"{suite}-cpu")
    if device is None and not torch.cuda.is_available():
        return Measured(book, note="With a GPU in this kernel, this cell runs the same suite there and adds it.")
    asked = str(device or "cuda")
    if (suite, asked) in _TAKEN:
        return Measured(book, _TAKEN[suite, asked], "Measured earlier in this session.")
    try:
        data = suites.record(suite, device=asked, minutes=minutes, tell=tell or _line())
        text = recording.dumps(data)
        reader = recording.loads(text)
    except KeyboardInterrupt:
        return Measured(book, note="Interrupted before anything was measured here.")
    except (RuntimeError, ValueError, MemoryError) as error:
        reason = str(error).strip().splitlines()
        return Measured(book, note=f"Nothing was measured here: {reason[0] if reason else type(error).__name__}")
    if any(point.entries for point in reader.points):
        _TAKEN[suite, asked] = reader
        return Measured(book, reader, _kept(Path(folder) / suites.file_name(data), text))
    return Measured(book, note="Nothing was measured here: no size fitted into memory and time.")


def _kept(file: Path, text: str) -> str:
    """Write the reader's run beside the notebook and say so, or why not."""
    try:
        file.write_text(text, encoding="utf8", newline="\n")
    except OSError as error:
        return f"The run could not be saved ({error.strerror})."
    return f"The run is saved as {file.name}; attnledger.timing.recording.read opens it."


def _line() -> Callable[[str], None]:
    """Progress in one line of the cell's output, or on stdout outside a notebook."""
    handle = display(HTML("<p>measuring</p>"), display_id=True)
    return (lambda line: handle.update(HTML(f"<p>{html.escape(line)}</p>"))) if handle else print


def _row(suite: str, name: str, entry: "Entry") -> dict:
    return {
        "what": WORDS[suite].get(name, name),
        "ms": _three(entry.ms),
        "p20 to p80": f"{shown(_three(entry.times.p20))} to {shown(_three(entry.times.p80))}".replace(
            " ", "\N{NO-BREAK SPACE}"
        ),
        "times the bound": _three(entry.over_bound),
        "bound by": _ceiling(entry),
    }


def _three(value: float) -> float:
    """To three digits: no clock here is better than that."""
    return float(f"{value:.3g}")


def _ceiling(entry: "Entry") -> str:
    return "memory" if entry.bound.limit == "memory" else "arithmetic"


def _size(size: Mapping[str, int]) -> str:
    """A size in words."""
    plural = {"batch": "sequence", "tokens": "token", "top_k": "block"}
    return ", ".join(f"{value:,} {plural[key]}{'s' * (value != 1)}" for key, value in size.items())


def _difference(book: "Recording", reader: "Recording") -> list[str]:
    """One sentence on the largest size both have: how far from the bound on each, and what the ceilings explain."""
    name = SPOKEN[book.suite]
    sizes = [point.size for point in book.points if name in point.entries]
    both = [size for size in sizes if any(point.size == size and name in point.entries for point in reader.points)]
    if not both:
        return []
    size = max(both, key=lambda size: size.get("tokens", 0) * size.get("batch", 1))
    ours, yours = (run.point(**size).entries[name] for run in (book, reader))
    ceilings, times = (shown(_three(x)) for x in (ours.bound_ms / yours.bound_ms, ours.ms / yours.ms))
    return [
        f"{_size(size)}, {WORDS[book.suite][name]}: {_time(yours)} on {reader.device} and {_time(ours)} on "
        f"{book.device}, {times} times as long, where the ceilings alone would make it {ceilings}."
    ]


def _time(entry: "Entry") -> str:
    row = _row("", "", entry)
    bound = f"{shown(row['times the bound'])} times its bound, which {row['bound by']} sets"
    return f"{shown(row['ms'])} ms (p20 to p80 {row['p20 to p80']}; {bound})"


def _left_out(run: "Recording") -> list[str]:
    """What the reader's run skipped, one sentence."""
    lines = []
    for point in run.points:
        lines += [f"{name} at {_size(point.size)} ({reason})" for name, reason in point.skipped.items()]
    short = run.data.get("interrupted") and ["The run was interrupted; this is what it had."] or []
    return short + ([f"Left out: {'; '.join(lines)}."] if lines else [])
