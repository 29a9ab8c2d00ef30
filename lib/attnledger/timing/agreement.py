"""Does the timer agree with others? The same matrix product by `measure`, torch's `Timer`, and on a card `do_bench`.

The three take turns, and what is compared are their smallest times, the steadiest number on a machine that does other
things as well. Work of 1 ms and more should agree within 5 % on a CPU and within 3 % on a card.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.benchmark import Timer

from . import measure
from .suites import Where

SIZES = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192, 16_384)}
TURNS = 5


def agreement(where: Where, sizes: tuple[int, ...] | None = None, turns: int = TURNS) -> Iterator[dict[str, Any]]:
    """For each size the work, our smallest time and the timer's own overhead in ms, and ours over theirs by name."""
    for n in sizes or SIZES[where.device.type]:
        a, b = where.normal(n, n, seed=0), where.normal(n, n, seed=1)
        timers = {"measure": lambda a=a, b=b: measure(lambda: a @ b, device=where.device)}
        timer = Timer("a @ b", globals={"a": a, "b": b}, num_threads=torch.get_num_threads())
        timers["torch.utils.benchmark"] = lambda timer=timer: timer.blocked_autorange(min_run_time=0.2)
        if where.card and (bench := _do_bench()):
            timers["triton.testing.do_bench"] = lambda a=a, b=b: bench(lambda: a @ b, return_mode="min")
        found = {name: [] for name in timers}
        for turn in range(turns):
            for name in list(timers)[:: 1 if turn % 2 == 0 else -1]:
                found[name].append(timers[name]())
        least = {
            "measure": min(t.min for t in found["measure"]),
            "torch.utils.benchmark": 1e3 * min(min(t.times) for t in found["torch.utils.benchmark"]),
        }
        if "triton.testing.do_bench" in found:
            least["triton.testing.do_bench"] = min(found["triton.testing.do_bench"])
        ours = least.pop("measure")
        overhead = min(t.overhead for t in found["measure"])
        yield {"work": f"{n} x {n} product", "ms": ours, "overhead": overhead} | {k: ours / v for k, v in least.items()}


def _do_bench():
    try:
        from triton.testing import do_bench
    except ImportError:
        return None
    return do_bench
