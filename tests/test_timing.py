"""The timers: counted under a clock that the tests move, queued on a card that they play, and what is refused."""

import dataclasses
import itertools
import json
import platform
import shutil
import statistics
import subprocess
import sys
import types

import pytest
import torch
from torch.utils.benchmark import Timer

from attnledger import timing
from attnledger.timing import EMPTY_CALLS, ceilings, check_dtype, compare, environment, measure, sweep


class Clock:
    """Seconds that pass only when told, and `tick` at each reading."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def work(self, *milliseconds: float):
        """A function whose calls take these times, the last one for ever."""
        rest = itertools.chain(milliseconds, itertools.repeat(milliseconds[-1]))

        def fn() -> torch.Tensor:
            self.now += next(rest) / 1e3
            return torch.zeros(1)

        return fn


class OnCard(torch.Tensor):
    """A tensor that says it is on a card."""

    device = property(lambda self: torch.device("cuda", 0))


class Card:
    """A minimal `torch.cuda`: a queue that runs behind the host's clock, and a log of what was put in it."""

    def __init__(self, monkeypatch, *, l2: int = 50 * 2**20, capability: tuple[int, int] = (9, 0)) -> None:
        self.clock, self.free_at, self.log, self.buffers, self.at_wait = Clock(), 0.0, [], [], lambda: None
        card, empty = self, torch.empty

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing

            def record(self, stream: object = None) -> None:
                card.log.append("mark")
                card.clock.now += 1e-6
                self.at = max(card.free_at, card.clock.now)

            def elapsed_time(self, other: "Event") -> float:
                assert max(self.at, other.at) <= card.clock.now, "read before it was waited for"
                return (other.at - self.at) * 1e3

        def synchronize(device: object = None) -> None:
            card.log.append("wait")
            card.clock.now = max(card.clock.now, card.free_at)
            card.at_wait()

        def make_empty(*size, **kind):
            if str(kind.get("device", "cpu")).startswith("cuda"):
                self.buffers.append(size[0])
                return types.SimpleNamespace(zero_=lambda: self.queue("flush", 0.05))
            return empty(*size, **kind)

        properties = types.SimpleNamespace(name="Test card", total_memory=16 * 2**30, L2_cache_size=l2)
        for name, value in {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "current_device": lambda: 0,
            "current_stream": lambda device: "stream",
            "get_device_properties": lambda device: properties,
            "get_device_capability": lambda device: capability,
            "synchronize": synchronize,
            "Event": Event,
            "reset_peak_memory_stats": lambda device: self.log.append("peak restarted"),
            "memory_allocated": lambda device: 1000,
            "max_memory_allocated": lambda device: 1000 + 4096,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(torch, "empty", make_empty)

    def queue(self, what: str, milliseconds: float) -> None:
        self.log.append(what)
        self.clock.now += 2e-6  # the launch
        self.free_at = max(self.free_at, self.clock.now) + milliseconds / 1e3

    def kernel(self, milliseconds: float, what: str = "kernel", dtype: torch.dtype = torch.float32):
        def fn() -> torch.Tensor:
            self.queue(what, milliseconds)
            return torch.zeros(1, dtype=dtype).as_subclass(OnCard)

        return fn

    def run_log(self) -> list[str]:
        """What was queued after the warm-up."""
        waits = [i for i, what in enumerate(self.log) if what == "wait"]
        return self.log[waits[-2] + 1 :]


@pytest.fixture
def clock() -> Clock:
    return Clock()


# Statistics


def test_quantiles_are_those_of_the_standard_library():
    values = (3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.3)
    samples = timing.Samples(values)
    fifths = statistics.quantiles(values, n=5, method="inclusive")
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    assert [samples.p20, samples.p80] == pytest.approx([fifths[0], fifths[3]])
    assert [samples.p25, samples.median, samples.p75] == pytest.approx(quarters)
    assert (samples.min, samples.n, samples.samples) == (1.0, 7, values)
    assert samples.spread == pytest.approx((quarters[2] - quarters[0]) / quarters[1])


@pytest.mark.parametrize(("high", "flagged"), [(12.4, False), (12.6, True)])
def test_a_spread_over_a_quarter_of_the_median_is_flagged(high, flagged):
    samples = timing.Samples((10.0, 10.0, 10.0, high, high))  # p25 and median 10, p75 high
    assert samples.flagged is flagged


# On a CPU


def test_the_first_call_is_timed_apart(clock):
    timed = measure(clock.work(900.0, 10.0), clock=clock)
    assert timed.first == pytest.approx(900.0)
    assert timed.samples == pytest.approx([10.0] * timed.n)


@pytest.mark.parametrize(("milliseconds", "n"), [(10.0, 20), (1.0, 200), (5000.0, 6), (0.001, 10_000)])
def test_the_run_lasts_as_long_as_asked_between_six_and_ten_thousand_calls(clock, milliseconds, n):
    assert measure(clock.work(milliseconds), run_ms=200.0, clock=clock).n == n


@pytest.mark.parametrize(("most_rounds", "n"), [(40, 40), (41, 40), (7, 6), (500, 200)])
def test_the_rounds_can_be_capped_and_are_an_even_number(clock, most_rounds, n):
    assert measure(clock.work(1.0), run_ms=200.0, most_rounds=most_rounds, clock=clock).n == n


@pytest.mark.parametrize("most_rounds", [5, 0, 10.0, None])
def test_a_cap_below_the_least_rounds_is_refused(most_rounds):
    with pytest.raises(ValueError, match="most_rounds must be a whole number from 6 on, got"):
        measure(lambda: torch.zeros(1), most_rounds=most_rounds)


@pytest.mark.parametrize("warmup_ms", [25.0, 400.0])
def test_the_warm_up_lasts_as_long_as_asked_and_is_not_counted(clock, warmup_ms):
    slow_calls = 1 + int(warmup_ms / 100)  # the first call, and what is still slow
    timed = measure(clock.work(*[100.0] * slow_calls, 10.0), warmup_ms=warmup_ms, clock=clock)
    assert max(timed.samples) == pytest.approx(10.0)


def test_there_is_a_warm_up_even_when_the_clock_jumps():
    clock = Clock(tick=1.0)  # more than the warm-up between two readings
    assert measure(clock.work(10.0), clock=clock).n == timing.LEAST_ROUNDS


def test_the_timers_own_cost_is_measured_and_reported():
    clock = Clock(tick=1e-6)
    timed = measure(clock.work(10.0), clock=clock)
    assert timed.overhead == pytest.approx(1e-3)
    assert timed.median == pytest.approx(10.0 + 1e-3)
    assert timed.flags == ()
    assert measure(clock.work(0.01), clock=clock).flags == ("the timer's own overhead is over 5% of the median",)


@pytest.mark.parametrize("alone", [True, False])
def test_gradients_are_none_before_every_call(clock, alone):
    w, found = torch.ones(3, requires_grad=True), []

    def backward() -> None:
        found.append(w.grad)
        clock.now += 0.01
        (2 * w).sum().backward()

    timed = measure(backward, grad_to_none=w if alone else [w], clock=clock)
    assert found == [None] * len(found)
    assert len(found) > timed.n
    assert torch.equal(w.grad, torch.full((3,), 2.0))


def test_resetting_gradients_is_not_timed(clock):
    class Slow(torch.Tensor):
        grad = property(lambda self: None, lambda self, value: clock.work(700.0)() and None)

    timed = measure(clock.work(10.0), grad_to_none=torch.zeros(1).as_subclass(Slow), clock=clock)
    assert clock.now > 0.7 * timed.n
    assert [timed.first, *timed.samples] == pytest.approx([10.0] * (timed.n + 1))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a peak is not inherited")
def test_a_large_parent_does_not_hide_the_memory_of_its_child():
    held = torch.ones(300 * 2**20, dtype=torch.uint8)
    call = "timing.measure(lambda: torch.ones(2**25)).memory_bytes"
    script = f"import torch; from attnledger import timing; print({call})"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert int(told) > 2**26, "128 MiB are filled"
    assert held.numel()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the resident peak cannot be set back")
def test_memory_on_a_cpu_is_the_growth_of_the_resident_peak():
    sizes = (64, 32, 64)  # MiB; a smaller peak is seen after a larger one
    functions = [lambda size=size: torch.ones(size * 2**20, dtype=torch.uint8) for size in sizes]
    grown = [measure(fn, warmup_ms=1.0, run_ms=1.0).memory_bytes / 2**20 for fn in functions]
    assert grown == pytest.approx(sizes, abs=8)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep their free pages")
def test_memory_that_earlier_work_left_in_the_heap_counts_again():
    pieces = [torch.ones(100 * 2**10, dtype=torch.uint8) for _ in range(600)]  # too small for mappings of their own
    last = pieces.pop()  # and something above them that stays, so that freeing does not shrink the heap
    del pieces
    grown = measure(lambda: torch.ones(32 * 2**20, dtype=torch.uint8), warmup_ms=1.0, run_ms=1.0).memory_bytes / 2**20
    assert grown == pytest.approx(32, abs=8)
    assert last.numel()


def test_memory_is_unknown_where_the_system_does_not_say(monkeypatch, clock):
    monkeypatch.setattr(timing, "resource", None)  # as on Windows
    timed = measure(clock.work(1.0), clock=clock)
    assert timed.memory_bytes is None
    assert "memory unknown" in repr(timed)


def test_half_precision_on_a_cpu_is_flagged(clock):
    def half() -> dict[str, list[torch.Tensor]]:
        clock.now += 0.01
        return {"out": [torch.zeros(1, dtype=torch.bfloat16)]}

    timed = measure(half, clock=clock)
    assert (timed.dtype, timed.device) == ("bfloat16", "cpu")
    assert timed.flags == ("bfloat16 on a CPU is often emulated",)


@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_deterministic_algorithms_are_off_inside_and_as_before_outside(clock, mode):
    before, seen, work = torch.get_deterministic_debug_mode(), set(), clock.work(1.0)

    def fn() -> torch.Tensor:
        seen.add(torch.are_deterministic_algorithms_enabled())
        return work()

    try:
        torch.set_deterministic_debug_mode(mode)
        measure(fn, clock=clock)
        with pytest.raises(ZeroDivisionError):
            measure(lambda: 1 / 0)
        assert torch.get_deterministic_debug_mode() == ["default", "warn", "error"].index(mode)
    finally:
        torch.set_deterministic_debug_mode(before)
    assert seen == {False}


def test_a_timing_is_frozen_and_becomes_json_with_all_samples(clock):
    timed = measure(clock.work(10.0), run_ms=100.0, clock=clock)
    with pytest.raises(dataclasses.FrozenInstanceError):
        timed.first = 0.0
    stored = json.loads(json.dumps(dataclasses.asdict(timed)))
    assert stored["samples"] == list(timed.samples)
    assert timing.Timing(**stored | {"samples": tuple(stored["samples"])}) == timed
    assert repr(timed).startswith("10 ms (p20 10, p80 10, min 10, n 10) on cpu, float32; first 10 ms, overhead 0 ms")


# Comparisons


def test_candidates_take_turns_and_every_other_round_is_reversed(clock):
    order = []

    def candidate(name: str):
        work = clock.work(10.0)
        return lambda: (order.append(name), work())[1]

    compared = compare({name: candidate(name) for name in "ABC"}, run_ms=80.0, clock=clock)
    rounds = compared.timings["A"].n
    assert rounds == 8
    assert "".join(order[-3 * rounds :]) == "ABCCBA" * 4


def test_ratios_inside_a_round_survive_a_clock_that_falls(clock):
    speed = [1.0]

    def candidate(milliseconds: float):
        def fn() -> None:
            clock.now += milliseconds * speed[0] / 1e3
            speed[0] *= 1.001

        return fn

    compared = compare({"one": candidate(1.0), "two": candidate(2.0)}, run_ms=500.0, clock=clock)
    assert compared.timings["one"].flagged
    ratio = compared.ratios["two"]
    assert [ratio.p25, ratio.median, ratio.p75] == pytest.approx([2.0] * 3, rel=2e-3)
    assert not ratio.flagged
    assert ratio.samples == tuple(
        two / one for one, two in zip(compared.timings["one"].samples, compared.timings["two"].samples, strict=True)
    )


def test_the_baseline_can_be_named(clock):
    work = {"one": clock.work(1.0), "four": clock.work(4.0)}
    assert compare(work, clock=clock).ratios["four"].median == pytest.approx(4.0)
    named = compare(work, baseline="four", clock=clock)
    assert named.ratios["one"].median == pytest.approx(0.25)
    assert repr(named).splitlines()[-1].startswith("one / four: 0.25 (p25 0.25, p75 0.25, n ")


def test_a_clock_too_coarse_for_the_baseline_gives_no_number(clock):
    ratios = compare({"none": clock.work(0.0), "ten": clock.work(10.0)}, clock=clock).ratios["ten"]
    assert ratios.median != ratios.median


# Ctrl-C


def interrupting(clock: Clock, at: int):
    """10 ms of work that is interrupted at call number `at`, counted from 0, the first call included."""
    calls, work = itertools.count(), clock.work(10.0)

    def fn() -> torch.Tensor:
        if next(calls) == at:
            raise KeyboardInterrupt
        return work()

    return fn


def test_ctrl_c_keeps_the_samples_taken(clock):
    warm = 1 + 3  # the first call, then warm-up calls 1 + 2 for 25 ms
    timed = measure(interrupting(clock, warm + 7), clock=clock)
    assert timed.samples == pytest.approx([10.0] * 7)
    assert timed.interrupted
    assert "interrupted" in repr(timed)


def test_ctrl_c_keeps_complete_rounds_only(clock):
    compared = compare({"a": clock.work(10.0), "b": interrupting(clock, 1 + 3 + 4)}, clock=clock)
    assert {name: timed.n for name, timed in compared.timings.items()} == {"a": 4, "b": 4}
    assert compared.ratios["b"].n == 4


@pytest.mark.parametrize("at", [0, 2, 4])
def test_ctrl_c_before_any_sample_is_passed_on(clock, at):
    with pytest.raises(KeyboardInterrupt):
        measure(interrupting(clock, at), clock=clock)


@pytest.mark.parametrize("at", [0, 10])
def test_ctrl_c_ends_a_sweep_and_keeps_it(clock, at):
    def make(size: int):
        return {"fn": interrupting(clock, at) if size == 2 else clock.work(10.0)}

    found = sweep(make, [1, 2, 3], clock=clock)
    assert list(found) == [1, 2]
    assert found[1].timings["fn"].n == 20
    assert found[2].skipped == ({"all": "interrupted"} if at == 0 else {})
    assert at == 0 or found[2].timings["fn"].interrupted


# Sweeps


def no_memory() -> torch.Tensor:
    return torch.empty(1 << 50, dtype=torch.uint8)  # more than any address space


def no_card_memory() -> torch.Tensor:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 32.00 GiB.")


def no_python_memory() -> list[int]:
    raise MemoryError


@pytest.mark.parametrize("exhaust", [no_memory, no_card_memory, no_python_memory])
def test_a_candidate_that_runs_out_of_memory_is_skipped_and_recorded(clock, exhaust):
    def make(size: int):
        return {"dense": exhaust if size > 1 else clock.work(4.0), "flash": clock.work(2.0)}

    found = sweep(make, [1, 2], clock=clock)
    assert found[1].skipped == {}
    assert found[1].ratios["flash"].median == pytest.approx(0.5)
    assert found[2].skipped == {"dense": "out of memory"}
    assert found[2].timings["flash"].median == pytest.approx(2.0)
    assert found[2].ratios == {}  # its baseline is missing
    assert "dense: skipped, out of memory" in repr(found[2])


@pytest.mark.parametrize("whole", [True, False])
def test_a_size_that_does_not_fit_is_skipped_and_the_next_one_measured(clock, whole):
    def make(size: int):
        if size == 2 and whole:
            no_memory()
        return {"fn": no_memory if size == 2 else clock.work(1.0)}

    found = sweep(make, [1, 2, 3], clock=clock)
    assert found[2].timings == {}
    assert found[2].skipped == {"all" if whole else "fn": "out of memory"}
    assert found[3].timings["fn"].median == pytest.approx(1.0)


def test_other_errors_end_a_sweep():
    with pytest.raises(RuntimeError, match="shapes"):
        sweep(lambda size: {"fn": lambda: torch.ones(2, 3) @ torch.ones(2, 3)}, [1])


def test_outside_a_sweep_running_out_of_memory_is_an_error():
    with pytest.raises(RuntimeError, match="memory"):
        measure(no_memory)


# On a card


def test_on_a_card_every_call_follows_a_flush_and_one_wait_ends_the_run(monkeypatch):
    card = Card(monkeypatch)
    timed = measure(card.kernel(2.0), clock=card.clock)
    log = card.run_log()
    assert log == ["flush", "mark", "mark"] * EMPTY_CALLS + ["flush", "mark", "kernel", "mark"] * timed.n + ["wait"]
    assert timed.n > 50


def test_on_a_card_the_kernel_is_timed_and_not_its_launch(monkeypatch):
    card = Card(monkeypatch)
    timed = measure(card.kernel(2.0), clock=card.clock)
    assert timed.samples == pytest.approx([2.0] * timed.n)
    assert (timed.device, timed.dtype) == ("cuda:0", "float32")
    assert timed.first == pytest.approx(2.0, rel=0.01)
    assert timed.memory_bytes == 4096


def test_on_a_card_work_still_queued_is_not_charged_to_the_first_call(monkeypatch):
    card = Card(monkeypatch)
    card.queue("earlier work", 700.0)
    assert measure(card.kernel(2.0), clock=card.clock).first == pytest.approx(2.0, rel=0.01)


def test_on_a_card_memory_is_that_of_the_second_call(monkeypatch):
    card = Card(monkeypatch)
    measure(card.kernel(2.0), clock=card.clock)
    assert card.log[:6] == ["wait", "kernel", "wait", "peak restarted", "kernel", "flush"]


@pytest.mark.parametrize("l2", [4 * 2**20, 50 * 2**20, 200 * 2**20])
def test_the_flush_is_at_least_twice_the_cards_l2(monkeypatch, l2):
    card = Card(monkeypatch, l2=l2)
    measure(card.kernel(2.0), clock=card.clock)
    assert len(card.buffers) == 1
    assert card.buffers[0] >= 2 * l2


def test_without_a_flush_the_cache_stays_warm(monkeypatch):
    card = Card(monkeypatch)
    measure(card.kernel(2.0), flush=False, clock=card.clock)
    assert "flush" not in card.log
    assert card.buffers == []


def test_on_a_card_comparisons_alternate_too(monkeypatch):
    card = Card(monkeypatch)
    compared = compare({"a": card.kernel(1.0, "a"), "b": card.kernel(3.0, "b")}, clock=card.clock)
    order = [what for what in card.run_log() if what in "ab"]
    assert "".join(order) == "abba" * (compared.timings["a"].n // 2)
    assert compared.ratios["b"].median == pytest.approx(3.0)


def test_on_a_card_ctrl_c_while_waiting_keeps_what_was_queued(monkeypatch):
    card = Card(monkeypatch)
    waits = itertools.count()

    def stop_at_the_last_wait() -> None:
        next(waits)
        if card.log.count("mark") > 2 * EMPTY_CALLS + 100:
            card.at_wait = lambda: None
            raise KeyboardInterrupt

    card.at_wait = stop_at_the_last_wait
    timed = measure(card.kernel(2.0), clock=card.clock)
    assert timed.interrupted
    assert timed.samples == pytest.approx([2.0] * timed.n)


def test_a_function_that_leaves_nothing_to_wait_for_is_refused(monkeypatch):
    card = Card(monkeypatch)
    for device in ("cuda", "cuda:0", None):
        with pytest.raises(ValueError, match="fn returned NoneType, no tensor on .* to wait for"):
            measure(lambda: card.queue("kernel", 2.0), device=device, clock=card.clock)
    with pytest.raises(ValueError, match="fn returned float, no tensor on cuda:0"):
        measure(lambda: 1.0, device="cuda", clock=card.clock)


def test_a_backward_pass_is_waited_for_through_its_gradients(monkeypatch):
    card = Card(monkeypatch)
    leaf = torch.zeros(1).as_subclass(OnCard)
    timed = measure(lambda: card.queue("kernel", 2.0), grad_to_none=leaf, clock=card.clock)
    assert timed.median == pytest.approx(2.0)
    assert timed.device == "cuda:0"


def test_a_cards_work_is_not_timed_by_a_cpus_clock(monkeypatch):
    card = Card(monkeypatch)
    with pytest.raises(ValueError, match="launch only"):
        measure(card.kernel(2.0), device="cpu", clock=card.clock)


def test_candidates_on_two_devices_are_refused(monkeypatch):
    card = Card(monkeypatch)
    with pytest.raises(ValueError, match=r"one device, got \['cpu', 'cuda:0'\]"):
        compare({"card": card.kernel(2.0), "cpu": lambda: torch.zeros(1)}, clock=card.clock)


def test_bfloat16_on_a_t4_is_refused(monkeypatch):
    card = Card(monkeypatch, capability=(7, 5))
    message = r"bfloat16 needs compute capability 8.0, not Test card \(compute capability 7.5\); use float16"
    for refused in (
        lambda: measure(card.kernel(2.0, dtype=torch.bfloat16), clock=card.clock),
        lambda: check_dtype(torch.bfloat16, "cuda"),
        lambda: ceilings("cuda", dtype=torch.bfloat16),
    ):
        with pytest.raises(ValueError, match=message):
            refused()
    assert measure(card.kernel(2.0, dtype=torch.float16), clock=card.clock).flags == ()
    check_dtype(torch.bfloat16, "cpu")


# What is refused


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_asking_for_a_card_that_is_not_there_says_so():
    for refused in (
        lambda: measure(lambda: torch.zeros(1), device="cuda"),
        lambda: ceilings("cuda:0"),
        lambda: environment("cuda"),
        lambda: sweep(lambda size: {"fn": lambda: torch.zeros(1)}, [1], device="cuda"),
    ):
        with pytest.raises(RuntimeError, match="finds no CUDA; use device='cpu'"):
            refused()


def test_devices_that_cannot_be_timed_are_refused():
    with pytest.raises(ValueError, match="CPU or a CUDA card, got meta"):
        measure(lambda: torch.zeros(1), device="meta")
    with pytest.raises(ValueError, match=r"on \['meta'\]: a CPU's clock times the launch only"):
        measure(lambda: torch.zeros(1, device="meta"))


def test_what_is_not_a_function_is_refused_by_name():
    with pytest.raises(ValueError, match="fn must be a function, got Tensor"):
        measure(torch.zeros(1))
    with pytest.raises(ValueError, match="dense must be a function, got NoneType"):
        compare({"flash": lambda: torch.zeros(1), "dense": None})


@pytest.mark.parametrize("argument", ["warmup_ms", "run_ms"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "25", None])
def test_durations_must_be_positive(argument, value):
    with pytest.raises(ValueError, match=f"{argument} must be a positive number of milliseconds, got"):
        measure(lambda: torch.zeros(1), **{argument: value})


@pytest.mark.parametrize("candidates", [{}, [len], None])
def test_candidates_must_be_named(candidates):
    with pytest.raises(ValueError, match="at least one"):
        compare(candidates)


def test_the_baseline_must_be_a_candidate():
    with pytest.raises(ValueError, match=r"baseline must be one of \['a'\], got 'b'"):
        compare({"a": lambda: torch.zeros(1)}, baseline="b")


# Progress


def test_progress_is_quiet_by_default_and_goes_to_stderr_or_a_function(clock, capsys):
    measure(clock.work(1.0), clock=clock)
    assert capsys.readouterr() == ("", "")
    measure(clock.work(1.0), progress=True, clock=clock)
    assert capsys.readouterr() == ("", "fn: first call\n")
    lines = []
    measure(clock.work(500.0), run_ms=4000.0, progress=lines.append, clock=clock)
    assert lines == ["fn: first call", *(f"fn: round {i} of 8" for i in (2, 4, 6, 8))]  # one a second


# Real clocks: sanity only, no time decides


def test_ceilings_are_rates_of_counted_work():
    found = ceilings("cpu", gemm_size=64, copy_mib=1, warmup_ms=1.0, run_ms=5.0)
    assert found.flop_per_second == pytest.approx(2 * 64**3 / (found.gemm.median / 1e3))
    assert found.bytes_per_second == pytest.approx(2 * 2**20 / (found.copy.median / 1e3))
    assert found.gemm.n == found.copy.n
    assert found.gemm.dtype == "float32"
    assert " GFLOP/s, " in repr(found)


def test_it_agrees_with_torchs_own_timer(record_property):
    a = torch.randn(384, 384, dtype=torch.float64)
    theirs = Timer("a @ a", globals={"a": a}, num_threads=torch.get_num_threads())
    ours, others = [], []
    for _ in range(3):
        ours.append(measure(lambda: a @ a, run_ms=40.0).min)
        others.append(min(theirs.blocked_autorange(min_run_time=0.04).times) * 1e3)
    ratio = min(ours) / min(others)
    record_property("measure / torch.utils.benchmark.Timer", ratio)
    assert 1 / 3 < ratio < 3


# Where it was measured


def test_the_environment_can_be_stored_and_names_no_host_and_no_path():
    found = environment("cpu", dtype=torch.float32)
    assert json.loads(json.dumps(found)) == found
    assert (found["dtype"], found["threads"]) == ("float32", torch.get_num_threads())
    assert (found["torch"], found["python"]) == (torch.__version__, platform.python_version())
    assert {"device", "memory_bytes", "clocks", "driver", "cuda", "system", "version", "commit"} < set(found)
    text = json.dumps(found)
    assert platform.node() not in text
    assert not any(str(place) in text for place in (timing.Path(timing.__file__).parent, timing.Path.home()))


def test_the_environment_of_a_card_comes_from_torch_and_the_driver(monkeypatch):
    Card(monkeypatch)
    monkeypatch.setattr(timing, "_ask", lambda *command: "570.86, 1980 MHz, 3201 MHz" if "smi" in command[0] else None)
    found = environment()
    assert (found["device"], found["memory_bytes"]) == ("Test card", 16 * 2**30)
    assert (found["driver"], found["clocks"], found["commit"]) == ("570.86", "1980 MHz, 3201 MHz", None)
    monkeypatch.setattr(timing, "_ask", lambda *command: None)
    found = environment("cuda")
    assert (found["driver"], found["clocks"]) == (None, None)


def test_a_library_that_is_used_without_being_installed_has_no_version(monkeypatch):
    def missing(name: str) -> str:
        raise timing.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(timing.metadata, "version", missing)
    assert environment("cpu")["version"] is None


def test_a_missing_or_failing_command_is_no_error():
    assert timing._ask("no-such-command-anywhere") is None
    assert timing._ask(sys.executable, "-c", "raise SystemExit(1)") is None
    assert timing._ask(sys.executable, "-c", "print('said')") == "said"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_told_only_where_the_file_is_tracked(monkeypatch, tmp_path):
    here = tmp_path / "timing.py"
    here.write_text("one")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    monkeypatch.setattr(timing, "__file__", str(here))
    assert environment("cpu")["commit"] is None  # no checkout
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "none"], check=True)
    assert environment("cpu")["commit"] is None  # installed inside someone else's checkout
    subprocess.run([*git, "add", "timing.py"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert environment("cpu")["commit"] == head
    here.write_text("two")
    assert environment("cpu")["commit"] == f"{head}-dirty"
