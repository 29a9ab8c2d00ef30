"""Timers: CUDA events on a GPU, the wall clock on a CPU, and what a time must be shown with.

A GPU runs behind the program: a call returns before its work is done. So on CUDA each timed call stands between two
events in the card's own queue, a buffer larger than the L2 cache is overwritten before it, and the program waits once,
at the end. On a CPU the wall clock is read before and after. Candidates to compare take turns in rounds, the order
reversed in every other one, so that a falling clock or a waking neighbour meets them all; what is compared is the ratio
inside a round. Times are in milliseconds, memory in bytes. The procedure is that of ``triton.testing.do_bench``; on a
CPU it agrees with ``torch.utils.benchmark.Timer`` at the same number of threads. While anything is timed,
``torch.use_deterministic_algorithms`` is off: it fills fresh memory, and cuBLAS may refuse to run under it.
"""

import ctypes
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

try:
    import resource
except ImportError:  # Windows
    resource = None

LEAST_ROUNDS, MOST_ROUNDS, EMPTY_CALLS = 6, 10_000, 25
FLUSH_BYTES = 256 * 10**6  # as much as do_bench; a card whose L2 is larger than half of it gets more
CAPABILITY = {torch.bfloat16: (8, 0), torch.float8_e4m3fn: (8, 9), torch.float8_e5m2: (8, 9)}  # least, on NVIDIA cards
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")

Functions = Mapping[str, Callable[[], object]]
Device = str | torch.device | None


def _quantile(q: float) -> property:
    return property(lambda self: float(np.quantile(self.samples, q)))


@dataclass(frozen=True, repr=False)
class Samples:
    """All values of a run, in the order they were taken. `spread` is interquartile range over median."""

    samples: tuple[float, ...]

    min, p20, p25, median, p75, p80 = map(_quantile, (0.0, 0.2, 0.25, 0.5, 0.75, 0.8))
    n = property(lambda self: len(self.samples))
    spread = property(lambda self: (self.p75 - self.p25) / self.median if self.median else 0.0)
    flagged = property(lambda self: self.spread > 0.25, doc="Too wide a spread for the median to be quoted.")

    def __repr__(self) -> str:
        return f"{self.median:.3g} (p25 {self.p25:.3g}, p75 {self.p75:.3g}, n {self.n})"


@dataclass(frozen=True, repr=False)
class Timing(Samples):
    """Times of one function: `samples`, `first`, `overhead` in ms; `memory_bytes` is what one call adds at its peak.

    `first` is the first call, compilation included, by the wall clock. `overhead` is what this timer reads for a
    function that does nothing; it is not subtracted. `memory_bytes` is, on CUDA, the peak allocated during the second
    call above what was allocated before it; on a CPU, the growth of the resident peak in the first call, a lower bound:
    pages an allocator still holds do not count (glibc is first made to give its free ones back), nor, outside Linux,
    what stays below an earlier peak. None: unknown.
    """

    first: float
    overhead: float
    memory_bytes: int | None
    device: str
    dtype: str | None
    interrupted: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """Why the median should not be quoted as it is; empty when nothing speaks against it."""
        reasons = {
            f"flagged: IQR is {self.spread:.0%} of the median": self.flagged,
            "the timer's own overhead is over 5% of the median": self.overhead > 0.05 * self.median,
            f"{self.dtype} on a CPU is often emulated": self.device == "cpu" and self.dtype in ("float16", "bfloat16"),
            "interrupted": self.interrupted,
        }
        return tuple(reason for reason, holds in reasons.items() if holds)

    def __repr__(self) -> str:
        memory = "unknown" if self.memory_bytes is None else f"{self.memory_bytes / 2**20:.1f} MiB"
        spread = f"p20 {self.p20:.4g}, p80 {self.p80:.4g}, min {self.min:.4g}, n {self.n}"
        extra = f"first {self.first:.4g} ms, overhead {self.overhead:.2g} ms, memory {memory}"
        return "; ".join([f"{self.median:.4g} ms ({spread}) on {self.device}, {self.dtype}", extra, *self.flags])


@dataclass(frozen=True, repr=False)
class Comparison:
    """Candidates measured in the same rounds: sample i of every timing is from round i.

    `skipped` gives the reason for each candidate, or for ``"all"``, that is missing.
    """

    timings: dict[str, Timing]
    baseline: str | None
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[str, Samples]:
        """Time over the baseline's, round by round: below 1 is faster. Empty if the baseline was skipped."""
        if self.baseline not in self.timings:
            return {}
        base = self.timings[self.baseline].samples
        pairs = {name: zip(timing.samples, base, strict=True) for name, timing in self.timings.items()}
        return {name: Samples(tuple(a / b if b else math.nan for a, b in pair)) for name, pair in pairs.items()}

    def __repr__(self) -> str:
        lines = [f"{name}: {timing}" for name, timing in self.timings.items()]
        lines += [f"{name} / {self.baseline}: {ratio}" for name, ratio in self.ratios.items() if name != self.baseline]
        return "\n".join(lines + [f"{name}: skipped, {reason}" for name, reason in self.skipped.items()])


@dataclass(frozen=True, repr=False)
class Ceilings:
    """What the device reached in one run. A multiply-add is 2 FLOP; a copied byte counts twice, read and written."""

    flop_per_second: float
    bytes_per_second: float
    gemm: Timing
    copy: Timing

    def __repr__(self) -> str:
        rates = f"{self.flop_per_second / 1e9:.4g} GFLOP/s, {self.bytes_per_second / 1e9:.4g} GB/s"
        return f"{rates}\ngemm: {self.gemm}\ncopy: {self.copy}"


def measure(fn: Callable[[], object], **options: Any) -> Timing:
    """Time `fn()`: it takes no arguments and returns what it computed. Options and errors are those of `compare`."""
    return compare({"fn": fn}, **options).timings["fn"]


def compare(
    candidates: Functions,
    *,
    baseline: str | None = None,
    device: Device = None,
    grad_to_none: torch.Tensor | Iterable[torch.Tensor] = (),
    warmup_ms: float = 25.0,
    run_ms: float = 200.0,
    flush: bool = True,
    most_rounds: int = MOST_ROUNDS,
    skip_out_of_memory: bool = False,
    progress: bool | Callable[[str], None] = False,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Time candidates in turns, A B C, C B A, A B C, …, and take ratios to `baseline`, by default the first.

    `device`: by default where the tensors are that the functions return. `grad_to_none`: tensors whose ``.grad`` is set
    to None before each call; a backward pass that returns nothing is waited for through them. `warmup_ms`, `run_ms`:
    wall clock per candidate, cache flushes included; each is called at least 6 and at most `most_rounds` times, always
    an even number. `flush`: False leaves a card's L2 cache warm (a CPU's caches are never flushed). `progress`: True
    writes to stderr, or a function gets the lines. `clock`: seconds. Ctrl-C keeps the complete rounds and marks the
    timings.

    Raises ValueError for what is not callable, a duration that is not positive, results on another device than asked
    for, on two, or without a tensor to wait for, and a dtype the card lacks; RuntimeError without CUDA; torch's own
    error when memory runs out, unless `skip_out_of_memory` (then the candidate is left out and the reason recorded).
    """
    _check(candidates, baseline, warmup_ms=warmup_ms, run_ms=run_ms)
    if not (isinstance(most_rounds, int) and most_rounds >= LEAST_ROUNDS):
        raise ValueError(f"most_rounds must be a whole number from {LEAST_ROUNDS} on, got {most_rounds!r}")
    baseline, asked = baseline or next(iter(candidates)), _device(device)
    grads = [grad_to_none] if isinstance(grad_to_none, torch.Tensor) else list(grad_to_none)
    tell = partial(print, file=sys.stderr, flush=True) if progress is True else progress or (lambda line: None)
    firsts, skipped, deterministic = {}, {}, torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("default")
    try:
        for name, fn in candidates.items():
            tell(f"{name}: first call")
            try:
                firsts[name] = _first_call(name, fn, asked, grads, clock)
            except (RuntimeError, MemoryError) as error:
                if not (skip_out_of_memory and _is_out_of_memory(error)):
                    raise
                skipped[name] = "out of memory"
        places = {first["device"] for first in firsts.values()}
        if len(places) > 1:
            raise ValueError(f"candidates must run on one device, got {sorted(places)}")
        if not places:
            return Comparison({}, baseline, skipped)
        functions = {name: candidates[name] for name in firsts}
        timer = _timer(torch.device(*places), flush, clock)
        taken, shared = _rounds(functions, timer, grads, warmup_ms, run_ms, most_rounds, tell, clock)
    finally:
        torch.set_deterministic_debug_mode(deterministic)
    return Comparison({name: Timing(taken[name], **firsts[name], **shared) for name in firsts}, baseline, skipped)


def sweep(make: Callable[[Any], Functions], sizes: Iterable, **options: Any) -> dict[Any, Comparison]:
    """`compare` at each size, by size; `make(size)` makes the inputs and returns ``{name: fn}``.

    A candidate that runs out of memory is left out at that size, a size whose inputs do not fit is left out whole, and
    both are recorded. Ctrl-C ends the sweep and keeps what was measured. A backward pass uses ``torch.autograd.grad``,
    which leaves no gradient to reset. Options and errors: those of `compare`.
    """
    found = {}
    for size in sizes:
        try:
            found[size] = compare(make(size), skip_out_of_memory=True, **options)
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            found[size] = Comparison({}, None, {"all": "out of memory"})
        except KeyboardInterrupt:
            if not found:
                raise
            found[size] = Comparison({}, None, {"all": "interrupted"})
        if "interrupted" in found[size].skipped.values() or any(t.interrupted for t in found[size].timings.values()):
            break
    return found


def ceilings(
    device: Device = None, *, dtype: torch.dtype | None = None, gemm_size: int = 0, copy_mib: int = 0, **options: Any
) -> Ceilings:
    """Rate of a square matrix product and bandwidth of a copy, measured in turns on `device` (a GPU if there is one).

    `dtype` of the product: float32 on a CPU, bfloat16 on a card that has it, else float16. `gemm_size`: 2048 on a CPU,
    8192 on a card. The copy reads `copy_mib` MiB (256, 1024) and writes as many: more than a cache holds. Options and
    errors: those of `compare`.
    """
    where = _device(device) or _device("cuda" if torch.cuda.is_available() else "cpu")
    card = where.type == "cuda"
    if dtype is None:
        old = card and torch.cuda.get_device_capability(where) < CAPABILITY[torch.bfloat16]
        dtype = torch.float32 if not card else torch.float16 if old else torch.bfloat16
    check_dtype(dtype, where)
    n, size = gemm_size or (8192 if card else 2048), (copy_mib or (1024 if card else 256)) * 2**20
    random = torch.Generator(where).manual_seed(0)  # a card multiplies ones faster than numbers
    a, b, out = (torch.randn(n, n, dtype=dtype, device=where, generator=random) for _ in range(3))
    source, target = (torch.ones(size, dtype=torch.uint8, device=where) for _ in range(2))
    pair = {"gemm": lambda: torch.mm(a, b, out=out), "copy": lambda: target.copy_(source)}
    taken = compare(pair, device=where, **options).timings
    return Ceilings(2e3 * n**3 / taken["gemm"].median, 2e3 * size / taken["copy"].median, **taken)


def environment(device: Device = None, *, dtype: torch.dtype | None = None) -> dict[str, str | int | None]:
    """What a time on `device` (a GPU if there is one) must be shown with; None where the system does not say.

    `clocks` are those of this moment; `commit` is that of the checkout this file is tracked in, ``-dirty`` when it has
    changes. No host name, no path. RuntimeError without CUDA.
    """
    where = _device(device) or _device("cuda" if torch.cuda.is_available() else "cpu")
    git = ("git", "-C", str(Path(__file__).resolve().parent))
    tracked = _ask(*git, "ls-files", "--error-unmatch", Path(__file__).name)
    return (_card(where) if where.type == "cuda" else _processor()) | {
        "cuda": torch.version.cuda or torch.version.hip,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "dtype": dtype and str(dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "float32_matmul": torch.get_float32_matmul_precision(),
        "version": _version(),
        "commit": tracked and _ask(*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"),
    }


def check_dtype(dtype: torch.dtype, device: str | torch.device) -> None:
    """Raise ValueError when the card computes `dtype` only by emulation, or not at all (bfloat16 on a T4)."""
    need = CAPABILITY.get(dtype, (0, 0))
    if torch.device(device).type == "cuda" and (have := torch.cuda.get_device_capability(device)) < need:
        card = f"{torch.cuda.get_device_properties(device).name} (compute capability {have[0]}.{have[1]})"
        raise ValueError(f"dtype {dtype} needs compute capability {need[0]}.{need[1]}, not {card}; use float16")


def _rounds(
    functions: Functions,
    timer: tuple,
    grads: list,
    warmup_ms: float,
    run_ms: float,
    most_rounds: int,
    tell: Callable,
    clock: Callable,
) -> tuple[dict[str, tuple[float, ...]], dict[str, Any]]:
    """Warm-up, empty calls and timed rounds: the samples of the complete rounds, and what all candidates share."""
    before, mark, wait, elapsed = timer
    names, taken, interrupted = list(functions), [], False

    def call(name: str | None, fn: Callable[[], object]) -> None:
        _reset(grads)
        before()
        start = mark()
        fn()
        taken.append((name, start, mark()))

    def turn(order: list[str]) -> None:
        for name in order:
            call(name, functions[name])

    per_round, batch, begun = 0.0, 1, clock()  # ms of wall clock
    while batch == 1 or (clock() - begun) * 1e3 < warmup_ms * len(names):
        start = clock()
        for _ in range(batch):
            turn(names)
        wait()
        per_round, batch = (clock() - start) * 1e3 / batch, batch * 2
    taken.clear()
    rounds = int(min(max(run_ms * len(names) / max(per_round, 1e-6), LEAST_ROUNDS), most_rounds - most_rounds % 2))
    rounds += rounds % 2  # as many in either order
    try:
        for _ in range(EMPTY_CALLS):
            call(None, lambda: None)
        for i in range(rounds):
            if (i + 1) * per_round // 1e3 > i * per_round // 1e3:  # about once a second
                tell(f"{', '.join(names)}: round {i + 1} of {rounds}")
            turn(names if i % 2 == 0 else names[::-1])
        wait()
    except KeyboardInterrupt:
        if len(taken) < EMPTY_CALLS + len(names):
            raise
        interrupted = True
        wait()
    complete = (len(taken) - EMPTY_CALLS) // len(names)
    times = {name: [elapsed(start, stop) for whose, start, stop in taken if whose == name] for name in [None, *names]}
    shared = {"overhead": float(np.median(times.pop(None))), "interrupted": interrupted}
    return {name: tuple(samples[:complete]) for name, samples in times.items()}, shared


def _timer(device: torch.device, flush: bool, clock: Callable) -> tuple[Callable, Callable, Callable, Callable]:
    """What to do before a call, how to mark a moment, how to wait for all marks, and the ms between two."""
    if device.type == "cpu":
        return (lambda: None), clock, (lambda: None), (lambda start, stop: (stop - start) * 1e3)
    size = max(FLUSH_BYTES, 2 * getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))
    before = torch.empty(size, dtype=torch.uint8, device=device).zero_ if flush else lambda: None
    stream = torch.cuda.current_stream(device)

    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    return before, mark, lambda: torch.cuda.synchronize(device), lambda start, stop: start.elapsed_time(stop)


def _first_call(name: str, fn: Callable, asked: torch.device | None, grads: list, clock: Callable) -> dict[str, Any]:
    """Where `fn` runs and in what dtype, its first call by the wall clock, and the memory a call adds."""
    _reset(grads)
    if torch.cuda.is_initialized():
        torch.cuda.synchronize(asked if asked and asked.type == "cuda" else None)
    resident = _resident_peak(restart=True)
    start = clock()
    result = fn()
    where, dtype = _place(name, result, asked, grads)
    if where.type == "cuda":
        torch.cuda.synchronize(where)
    first = (clock() - start) * 1e3
    memory = resident and _resident_peak() - resident
    if where.type == "cuda":
        if dtype:
            check_dtype(dtype, where)
        del result
        _reset(grads)
        torch.cuda.reset_peak_memory_stats(where)
        held = torch.cuda.memory_allocated(where)
        fn()
        memory = torch.cuda.max_memory_allocated(where) - held
    word = dtype and str(dtype).removeprefix("torch.")
    return {"first": first, "memory_bytes": memory, "device": str(where), "dtype": word}


def _place(
    name: str, result: object, asked: torch.device | None, grads: list
) -> tuple[torch.device, torch.dtype | None]:
    """Device and dtype of what a call returns: what there is to wait for."""
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)] + grads
    devices = {tensor.device: None for tensor in tensors}
    where = asked or next((device for device in devices if device.type == "cuda"), torch.device("cpu"))
    got = f"{name} returned {type(result).__name__}"
    if where.type == "cuda" and where not in devices or not (asked or devices) and torch.cuda.is_initialized():
        raise ValueError(f"{got}, no tensor on {asked or 'the card'} to wait for: return it, or use grad_to_none")
    if where.type == "cpu" and any(device.type != "cpu" for device in devices):
        raise ValueError(f"{got} on {[*map(str, devices)]}: a CPU's clock times the launch only; use device='cuda'")
    return where, next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), None)


def _device(asked: Device) -> torch.device | None:
    """`asked` with its index, if it can be timed on."""
    device = None if asked is None else torch.device(asked)
    if device is None or device.type == "cpu":
        return device and torch.device("cpu")
    if device.type != "cuda":
        raise ValueError(f"device must be a CPU or a CUDA card, got {device}")
    if not torch.cuda.is_available():
        raise RuntimeError(f"device {device} asked for, but torch {torch.__version__} finds no CUDA; use device='cpu'")
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def _check(candidates: object, baseline: str | None, **durations: float) -> None:
    if not isinstance(candidates, Mapping) or not candidates:
        raise ValueError(f"candidates must be {{name: function}} with at least one, got {candidates!r}")
    for name, fn in candidates.items():
        if not callable(fn):
            raise ValueError(f"{name} must be a function, got {type(fn).__name__}; write lambda: attention(q, k, v)")
    if baseline is not None and baseline not in candidates:
        raise ValueError(f"baseline must be one of {list(candidates)}, got {baseline!r}")
    for name, value in durations.items():
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ValueError(f"{name} must be a positive number of milliseconds, got {value!r}")


def _reset(grads: list) -> None:
    for tensor in grads:
        tensor.grad = None


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


def _resident_peak(restart: bool = False) -> int | None:
    """Peak resident bytes of this process; Linux can start it again from the present size (proc_pid_clear_refs(5)).

    Before that, glibc gives free pages back (malloc_trim(3)), or a call served from them would seem to need none.
    ``ru_maxrss`` begins with what the parent held when it started this process, so Linux's own mark is read.
    """
    if resource is None:
        return None
    if restart:
        with suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    with suppress(OSError, TypeError):
        return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _ask(*command: str) -> str | None:
    """What a command prints, None when it is missing or fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=10, check=True)
        return done.stdout.strip() or None
    return None


def _version() -> str | None:
    """The library's version; None where it is used without being installed."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("attnledger")
    return None


def _card(device: torch.device) -> dict[str, str | int | None]:
    card = torch.cuda.get_device_properties(device)
    which = f"--id=GPU-{card.uuid}" if hasattr(card, "uuid") else f"--id={device.index}"
    told = _ask("nvidia-smi", which, "--query-gpu=driver_version,clocks.sm,clocks.mem", "--format=csv,noheader")
    driver, _, clocks = (told or "").partition(", ")
    return {"device": card.name, "memory_bytes": card.total_memory, "driver": driver or None, "clocks": clocks or None}


def _processor() -> dict[str, str | int | None]:
    told, memory = "", None
    with suppress(OSError):
        told = Path("/proc/cpuinfo").read_text()
    with suppress(OSError, ValueError, AttributeError):  # Windows has no sysconf
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name, clock = re.search(r"model name\s*: (.+)", told), re.search(r"cpu MHz\s*: (\d+)", told)
    name = name[1] if name else _ask("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return {"device": name, "memory_bytes": memory, "driver": None, "clocks": clock and f"{clock[1]} MHz"}
