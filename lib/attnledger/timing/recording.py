"""Recordings: what a suite measured, with everything needed to judge it, as one JSON file.

A recording holds the environment, the ceilings of the same run (a matrix product and a copy), and for every size and
candidate all samples in the order of the rounds, the memory, and the counts (FLOP and bytes) that bound the time from
below. Times are in milliseconds and carry five significant digits. `read` checks all of it and says what is wrong.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..costs import Bound
from . import Samples

SCHEMA = 1
DIGITS = 5
ENVIRONMENT = ("device", "system", "torch", "python", "dtype", "threads", "version")


class RecordingError(ValueError):
    """A file that is not a complete recording of the schema this library reads; the message says where."""


@dataclass(frozen=True)
class Entry:
    """One candidate at one size: its times, and the counts its bound is made of."""

    times: Samples
    first: float
    overhead: float
    memory_bytes: int | None
    flops: int
    bytes_moved: int
    bound: Bound

    @property
    def ms(self) -> float:
        """Median, in milliseconds."""
        return self.times.median

    @property
    def bound_ms(self) -> float:
        """The least time by the run's own ceilings, in milliseconds."""
        return 1e3 * self.bound.seconds

    @property
    def over_bound(self) -> float:
        """Median over the bound: 1 is as fast as the ceilings allow; below 1 a cache was faster than the copy."""
        return self.ms / self.bound_ms


@dataclass(frozen=True)
class Point:
    """One size: its entries by candidate, and the reason for each candidate that is missing."""

    size: Mapping[str, int]
    entries: Mapping[str, Entry]
    skipped: Mapping[str, str]

    def ratio(self, over: str, under: str) -> Samples:
        """Time of one candidate over that of another, round by round. KeyError when one was skipped."""
        pairs = zip(self.entries[over].times.samples, self.entries[under].times.samples, strict=True)
        return Samples(tuple(a / b for a, b in pairs))


@dataclass(frozen=True)
class Recording:
    """A suite's run on one device; `data` is the JSON it was read from."""

    suite: str
    environment: Mapping[str, Any]
    flop_per_second: float
    bytes_per_second: float
    geometry: Mapping[str, Any]
    points: tuple[Point, ...]
    data: Mapping[str, Any]

    @property
    def card(self) -> bool:
        """Measured on a GPU."""
        return self.data["kind"] == "cuda"

    @property
    def device(self) -> str:
        """The device's name, with the threads of a CPU."""
        name = str(self.environment["device"] or "unnamed device")
        return name if self.card else f"{name}, {self.environment['threads']} threads"

    @property
    def place(self) -> str:
        """What a time must be shown with, in one line."""
        ceilings = f"{self.flop_per_second / 1e9:,.4g} GFLOP/s, {self.bytes_per_second / 1e9:,.4g} GB/s"
        return f"{self.device}, {self.environment['dtype']}, torch {self.environment['torch']}; reached {ceilings}"

    def point(self, **size: int) -> Point:
        """The first point whose size has these values. LookupError when there is none."""
        for point in self.points:
            if all(point.size.get(name) == value for name, value in size.items()):
                return point
        raise LookupError(f"{self.suite} on {self.device} has no point {size}; sizes: {[p.size for p in self.points]}")

    def series(self, candidate: str, axis: str, **fixed: int) -> list[tuple[int, Entry]]:
        """Where `candidate` was measured, as (size along `axis`, entry), for the points whose size is `fixed`."""
        chosen = [p for p in self.points if all(p.size.get(name) == value for name, value in fixed.items())]
        return sorted((p.size[axis], p.entries[candidate]) for p in chosen if candidate in p.entries)


def read(source: str | Path) -> Recording:
    """The recording in a file, or the library's own called `source`, such as ``"decode-cpu"``.

    Raises FileNotFoundError for neither, RecordingError for a file that is truncated, of another schema, or incomplete.
    """
    path = Path(source)
    if not path.exists() and path.suffix == "" and len(path.parts) == 1:
        file = resources.files("attnledger") / "data" / "recordings" / f"{source}.json"
        if not file.is_file():
            raise FileNotFoundError(f"no file {source!r}, and no recording of the library; those are {names()}")
        return loads(file.read_text(encoding="utf8"), str(source))
    return loads(path.read_text(encoding="utf8"), path.name)


def names() -> list[str]:
    """The recordings that come with the library, those of a CPU first."""
    folder = resources.files("attnledger") / "data" / "recordings"
    found = [file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json")]
    return sorted(found, key=lambda name: (not name.endswith("-cpu"), name))


def loads(text: str, name: str = "recording") -> Recording:
    """The recording in a text; `name` is what errors call it."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise RecordingError(f"{name} is not complete JSON, perhaps cut off: {error}") from None
    if not isinstance(data, dict) or "schema" not in data:
        raise RecordingError(f"{name} is no recording: it has no schema version")
    if data["schema"] != SCHEMA:
        raise RecordingError(f"{name} has schema version {data['schema']!r}, this library reads {SCHEMA}")
    return _checked(data, name)


def dumps(data: Mapping[str, Any]) -> str:
    """A recording's JSON: one line per candidate, floats to five significant digits."""
    return _laid_out(_rounded(data), "") + "\n"


def _checked(data: dict[str, Any], name: str) -> Recording:
    """`data` as a recording, every field asked for by its place."""

    def need(where: Mapping, place: str, key: str, *kinds: type) -> Any:
        if not isinstance(where, Mapping) or key not in where:
            raise RecordingError(f"{name}: {place}{key} is missing")
        if kinds and (not isinstance(where[key], kinds) or isinstance(where[key], bool)):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise RecordingError(f"{name}: {place}{key} must be {wanted}, got {where[key]!r:.40}")
        return where[key]

    def samples(where: Mapping, place: str) -> Samples:
        values = need(where, place, "samples", list)
        if not values or not all(isinstance(v, int | float) and 0 <= v < math.inf for v in values):
            raise RecordingError(f"{name}: {place}samples must be milliseconds, at least one")
        return Samples(tuple(map(float, values)))

    def rate(key: str) -> float:
        value = need(top, "ceilings.", key, int, float)
        if not 0 < value < math.inf:
            raise RecordingError(f"{name}: ceilings.{key} must be above 0, got {value!r}")
        return float(value)

    def entry(where: Mapping, place: str) -> Entry:
        counts = [need(where, place, key, int) for key in ("flops", "bytes")]
        if min(counts) <= 0:
            raise RecordingError(f"{name}: {place}flops and bytes must be above 0, got {counts}")
        bound = Bound(*counts, counts[0] / flop_per_second, counts[1] / bytes_per_second, ridge)
        first, overhead = (float(need(where, place, key, int, float)) for key in ("first", "overhead"))
        memory = where.get("memory_bytes")
        return Entry(samples(where, place), first, overhead, memory, *counts, bound)

    suite, kind = need(data, "", "suite", str), need(data, "", "kind", str)
    if kind not in ("cpu", "cuda"):
        raise RecordingError(f"{name}: kind must be 'cpu' or 'cuda', got {kind!r}")
    environment, geometry = need(data, "", "environment", dict), need(data, "", "geometry", dict)
    for key in ENVIRONMENT:
        need(environment, "environment.", key)
    top = need(data, "", "ceilings", dict)
    flop_per_second, bytes_per_second = rate("flop_per_second"), rate("bytes_per_second")
    ridge = flop_per_second / bytes_per_second
    for part in ("gemm", "copy"):
        samples(need(top, "ceilings.", part, dict), f"ceilings.{part}.")
    points = []
    for i, point in enumerate(need(data, "", "points", list)):
        place = f"points[{i}]."
        size, found = need(point, place, "size", dict), need(point, place, "candidates", dict)
        entries = {key: entry(found[key], f"{place}candidates.{key}.") for key in found}
        if len({e.times.n for e in entries.values()}) > 1:
            raise RecordingError(f"{name}: {place}candidates have unequal numbers of samples; rounds hold one of each")
        points.append(Point(size, entries, need(point, place, "skipped", dict)))
    return Recording(suite, environment, flop_per_second, bytes_per_second, geometry, tuple(points), data)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def _laid_out(value: Any, indent: str) -> str:
    """JSON in which whatever holds no mapping stands on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(item, dict | list) for item in inner) or len(flat) <= 100:
        return flat
    if isinstance(value, list):
        lines = [_laid_out(item, indent + " ") for item in value]
    else:
        lines = [f"{json.dumps(key)}: {_laid_out(item, indent + ' ')}" for key, item in value.items()]
    left, right = "[]" if isinstance(value, list) else "{}"
    return f"{left}\n{indent} " + f",\n{indent} ".join(lines) + f"\n{indent}{right}"
