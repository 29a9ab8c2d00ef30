"""The suites: candidates that compute what they are called, counts that are theirs, runs that survive what happens."""

import dataclasses
import itertools
import json
from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnledger import timing
from attnledger.ops.softmax import attention
from attnledger.ops.sparse import window_mask
from attnledger.timing import __main__ as command
from attnledger.timing import agreement, recording, suites

CPU = suites.Where(torch.device("cpu"), torch.float32)
SMALL = {
    "decode": {"batch": 2, "tokens": 64},
    "prefill": {"tokens": 640},
    "flash": {"tokens": 96},
    "block-sparse": {"tokens": 300, "top_k": 1},
    "hybrid": {"tokens": 96},
}


@pytest.fixture
def quick(monkeypatch):
    """Ceilings in no time, little memory to walk through, and every suite at one small size."""
    monkeypatch.setattr(suites, "ceilings", partial(timing.ceilings, gemm_size=64, copy_mib=1))
    monkeypatch.setattr(suites, "COLD", 2**20)
    monkeypatch.setitem(suites.DECODE, "d_model", 256)
    for name, size in SMALL.items():
        monkeypatch.setitem(suites.SUITES, name, dataclasses.replace(suites.SUITES[name], sizes=lambda w, s=size: [s]))


@pytest.fixture
def toy(monkeypatch, quick):
    """A suite whose sizes 1, 2, 4 do nothing for long; set `toy.make` or `toy.need` to make things happen."""

    class Toy:
        made: list = []

        def make(self, size, where):
            return {}

        def need(self, size, where):
            return 1

    toy = Toy()
    toy.made = []

    def make(size, where):
        toy.made.append(size["n"])
        plain = {
            "dense": suites.Candidate(lambda: torch.zeros(1), 10 * size["n"], 4),
            "fast": suites.Candidate(lambda: torch.zeros(1), 10, 4),
        }
        return plain | toy.make(size, where)

    sizes = [{"n": 1}, {"n": 2}, {"n": 4}]
    found = suites.Suite("toy", "nothing", {}, lambda w: sizes, lambda size, w: toy.need(size, w), make)
    monkeypatch.setitem(suites.SUITES, "toy", found)
    return toy


record = partial(suites.record, device="cpu", minutes=0.01, tell=lambda line: None, clock=lambda: 0.0)


# what is timed


@pytest.fixture
def small(quick):
    return {name: suites.SUITES[name].make(size, CPU) for name, size in SMALL.items()}


def test_every_candidate_computes_finite_numbers(small):
    for name, candidates in small.items():
        for key, candidate in candidates.items():
            result = candidate.run()
            for tensor in result if isinstance(result, tuple) else [result]:
                assert tensor.isfinite().all(), (name, key)


def test_dense_and_window_are_attention(small):
    x = suites.prefill_inputs(640, CPU)
    q, k, v = x["q"], x["k"], x["v"]
    run = {name: candidate.run() for name, candidate in small["prefill"].items()}
    torch.testing.assert_close(run["dense"], attention(q, k, v), atol=1e-5, rtol=1e-4)
    near = window_mask(640, window=suites.PREFILL["window"])
    torch.testing.assert_close(run["window"], attention(q, k, v, mask=near), atol=1e-5, rtol=1e-4)


def test_chosen_blocks_are_grouped_attention_where_they_cover_all(quick):
    """640 tokens are five blocks of 128: four slots leave one out from query 512 on, and none before."""
    x = suites.prefill_inputs(640, CPU)
    sparse = suites.prefill({"tokens": 640}, CPU)["sparse"].run()
    shared = (y[:, :1].expand(1, 4, 640, 128) for y in (x["k"], x["v"]))
    dense = attention(x["q"], *shared)
    torch.testing.assert_close(sparse[..., :512, :], dense[..., :512, :], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(sparse[..., 512:, :], dense[..., 512:, :], atol=1e-3)


def test_a_decode_step_is_attention_to_the_cache(small):
    size, whole = SMALL["decode"], suites.DECODE
    q = CPU.normal(2, whole["heads"], 1, whole["head_dim"])
    for name, heads in (("softmax", whole["heads"]), ("grouped", whole["kv_heads"])):
        k, v = (CPU.normal(2, heads, size["tokens"], whole["head_dim"], seed=i) for i in (0, 1))
        again = suites.decode(size, CPU)[name].run()  # its first layer
        wide = (x.repeat_interleave(whole["heads"] // heads, 1) for x in (k, v))
        torch.testing.assert_close(again, attention(q, *wide), atol=1e-5, rtol=1e-4)


def test_a_cpu_walks_through_many_caches_and_a_card_is_flushed_instead(monkeypatch):
    monkeypatch.setattr(suites, "COLD", 3 * 2 * 2 * 64 * 16 * 128 * 4)  # three caches
    made = []
    normal = suites.Where.normal
    monkeypatch.setattr(suites.Where, "normal", lambda self, *size, **o: made.append(size) or normal(self, *size, **o))
    run = suites.decode({"batch": 2, "tokens": 64}, CPU)["softmax"].run
    assert made.count((2, 16, 64, 128)) == 2 * 3
    first, second, third, again = (run() for _ in range(4))
    assert torch.equal(first, again) and not torch.equal(first, second) and not torch.equal(second, third)


def test_fused_and_written_out_attention_agree(small):
    naive, fused = (small["flash"][name].run() for name in ("naive", "flash"))
    torch.testing.assert_close(naive, fused, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("mechanism", ["dense", "sparse", "gated", "rest"])
def test_a_layer_is_causal_and_keeps_its_shape(mechanism):
    geometry = suites.BLOCK_SPARSE | {"top_k": 2}
    layer = suites.Layer(mechanism, geometry if mechanism != "gated" else suites.HYBRID, CPU)
    x = CPU.normal(1, 300, 512)
    changed = x.clone()
    changed[:, 200:] += 1
    before, after = layer(x), layer(changed)
    assert before.shape == x.shape
    torch.testing.assert_close(before[:, :200], after[:, :200], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(before[:, 200:], after[:, 200:], atol=1e-2)


def test_a_mix_is_three_states_and_one_dense_layer(small):
    x = CPU.normal(1, 96, 512)
    dense, gated = (suites.Layer(mechanism, suites.HYBRID, CPU) for mechanism in ("dense", "gated"))
    torch.testing.assert_close(small["hybrid"]["hybrid"].run(), dense(gated(gated(gated(x)))))


# what is counted


def flop(candidate: suites.Candidate) -> int:
    with FlopCounterMode(display=False) as counter:
        candidate.run()
    return counter.get_total_flops()


@pytest.mark.parametrize(("suite", "name"), [("decode", "weights"), ("flash", "naive"), ("hybrid", "rest")])
def test_counts_are_those_of_the_products_that_run(small, suite, name):
    assert small[suite][name].flops == flop(small[suite][name])


def test_a_layers_count_is_its_weights_and_its_attention():
    """Torch counts the products with weights; a causal query sees itself and what stands before it."""
    layer, n = suites.Layer("dense", suites.BLOCK_SPARSE, CPU), 96
    weights = flop(suites.stack([suites.Layer("rest", suites.BLOCK_SPARSE, CPU)], n, CPU.normal(1, n, 512), CPU))
    assert layer.flops(n) == weights + 4 * 4 * 128 * n * (n + 1) // 2


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_an_index_and_its_main_branch_make_both(quick, top_k):
    candidates = suites.block_sparse({"tokens": 300, "top_k": top_k}, CPU)
    assert candidates["sparse"].flops == candidates["index"].flops + candidates["main"].flops
    seen = candidates["main"].flops / candidates["dense"].flops
    assert (seen < 1) == (top_k < 3), "three blocks of 128 cover 300 tokens"


def test_what_a_recurrence_costs_grows_with_the_tokens_and_what_all_pairs_cost_with_their_square(quick):
    one, two = (suites.prefill({"tokens": n}, CPU) for n in (640, 1280))
    growth = {name: two[name].flops / one[name].flops for name in one}
    assert growth["linear"] == growth["delta"] == growth["kda"] == 2
    assert growth["dense"] == pytest.approx(4, rel=0.01)
    assert 2 < growth["window"] < growth["dense"]


def test_a_grouped_cache_has_a_quarter_of_the_bytes_and_all_of_the_operations(small):
    whole, grouped = small["decode"]["softmax"], small["decode"]["grouped"]
    assert (whole.bytes, whole.flops) == (4 * grouped.bytes, grouped.flops)


def test_a_batch_multiplies_all_but_the_bytes_of_the_weights(quick):
    one, two = (suites.decode({"batch": b, "tokens": 64}, CPU) for b in (1, 2))
    assert [two[name].flops / one[name].flops for name in one] == [2] * 5
    assert [two[name].bytes / one[name].bytes for name in one] == [1, 2, 2, 2, 2]


def test_all_pairs_are_half_the_square_and_the_diagonal(small):
    assert small["prefill"]["dense"].flops == 4 * 4 * 128 * 640 * 641 // 2


def test_half_precision_halves_what_is_moved_but_for_the_state(quick):
    half = suites.Where(torch.device("cpu"), torch.bfloat16)
    full, short = (suites.decode(SMALL["decode"], where) for where in (CPU, half))
    assert full["softmax"].bytes == 2 * short["softmax"].bytes
    assert full["delta"].bytes == short["delta"].bytes
    assert all(c.run() is not None for c in short.values())


# sizes and dtypes follow the device


class T4:
    """A card without bf16."""

    def __init__(self, monkeypatch, capability=(7, 5)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda device: type("Properties", (), {"name": "Tesla T4"})
        )


@pytest.mark.parametrize(("capability", "dtype"), [((7, 5), "float16"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")])
def test_the_dtype_is_the_cards(monkeypatch, capability, dtype):
    T4(monkeypatch, capability)
    where = suites.place()
    assert (str(where.device), str(where.dtype)) == ("cuda:0", f"torch.{dtype}")
    assert where.bytes == 2


def test_on_a_cpu_it_is_fp32_and_bf16_on_a_t4_is_refused(monkeypatch):
    assert suites.place("cpu").dtype == torch.float32
    T4(monkeypatch)
    with pytest.raises(ValueError, match="use float16"):
        suites.place("cuda", torch.bfloat16)


@pytest.mark.parametrize("name", suites.SUITES)
def test_sizes_ascend_further_on_a_card_and_are_needed_in_memory(name):
    suite, card = suites.SUITES[name], suites.Where(torch.device("cuda", 0), torch.float16)
    here, there = suite.sizes(CPU), suite.sizes(card)
    assert max(s["tokens"] for s in there) > max(s["tokens"] for s in here)
    longest = [max(sizes, key=lambda s: s["tokens"] * s.get("batch", 1)) for sizes in (here, there)]
    assert suite.need(longest[0], CPU) < 4 * 2**30, "a laptop holds the largest size of a CPU"
    assert suite.need(longest[1], card) > suite.need(there[0], card) or name == "block-sparse"


# a run


@pytest.mark.parametrize("name", SMALL)
def test_every_suite_records_all_samples_and_reads_back(quick, name):
    data = record(name)
    found = recording.loads(recording.dumps(data))
    (point,) = found.points
    assert (point.size, point.skipped) == (SMALL[name], {})
    assert list(point.entries) == list(suites.SUITES[name].make(SMALL[name], CPU))
    assert all(timing.LEAST_ROUNDS <= e.times.n <= suites.MOST_ROUNDS for e in point.entries.values())
    assert all(e.bound_ms > 0 for e in point.entries.values())
    assert (found.suite, found.data["kind"], found.environment["dtype"]) == (name, "cpu", "float32")


def test_a_recording_names_no_host_and_no_path(quick):
    import platform

    text = recording.dumps(record("flash"))
    assert platform.node() not in text and str(timing.Path.home()) not in text


def test_what_does_not_fit_into_memory_is_skipped_and_recorded(toy, monkeypatch):
    monkeypatch.setattr(suites, "free_bytes", lambda device: 1000)
    toy.need = lambda size, where: 400 * size["n"]
    points = record("toy")["points"]
    assert [list(p["candidates"]) for p in points] == [["dense", "fast"], [], []]
    assert points[1]["skipped"] == {"all": "needs about 800 B, 1,000 B are free"}
    assert toy.made == [1], "what does not fit is not even made"


def test_what_holds_too_much_is_skipped_and_the_others_measured(toy, monkeypatch):
    monkeypatch.setattr(suites, "free_bytes", lambda device: 10_000)
    toy.make = lambda size, where: {"dense": suites.Candidate(lambda: torch.zeros(1), 1, 1, 2000 * size["n"])}
    points = record("toy")["points"]
    assert [list(p["candidates"]) for p in points] == [["dense", "fast"], ["dense", "fast"], ["fast"]]
    assert points[2]["skipped"] == {"dense": "would hold 7.812 KiB, 9.766 KiB are free"}


def test_where_written_out_attention_does_not_fit_the_fused_one_still_runs(monkeypatch):
    size = {"tokens": 4096}
    monkeypatch.setitem(suites.SUITES, "flash", dataclasses.replace(suites.SUITES["flash"], sizes=lambda w: [size]))
    monkeypatch.setattr(suites, "ceilings", partial(timing.ceilings, gemm_size=64, copy_mib=1))
    monkeypatch.setattr(suites, "free_bytes", lambda device: 2**30)  # three squares of 256 MiB are more than half
    (point,) = record("flash")["points"]
    assert list(point["candidates"]) == ["flash"]
    assert point["skipped"]["naive"].startswith("would hold 768 MiB")


@pytest.mark.parametrize("whole", [True, False])
def test_running_out_of_memory_is_recorded_and_the_next_size_measured(toy, whole):
    def too_much():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 32.00 GiB.")

    def make(size, where):
        if size["n"] == 2 and whole:
            too_much()
        return {"dense": suites.Candidate(too_much, 1, 1)} if size["n"] == 2 else {}

    toy.make = make
    points = record("toy")["points"]
    assert points[1]["skipped"] == {"all" if whole else "dense": "out of memory"}
    assert list(points[1]["candidates"]) == ([] if whole else ["fast"])
    assert list(points[2]["candidates"]) == ["dense", "fast"]


def test_other_errors_are_not_hidden(toy):
    toy.make = lambda size, where: {"dense": suites.Candidate(lambda: torch.ones(2) @ torch.ones(3), 1, 1)}
    with pytest.raises(RuntimeError, match="size"):
        record("toy")


def test_time_that_is_up_ends_the_run_after_the_first_size(toy):
    ticks = itertools.count(0, 1000)
    points = record("toy", clock=lambda: next(ticks))["points"]
    assert list(points[0]["candidates"]) == ["dense", "fast"], "one size is always measured"
    assert [p["skipped"] for p in points[1:]] == [{"all": "out of time"}] * 2


def test_a_candidate_that_would_take_too_long_is_left_out_and_the_others_measured(toy, monkeypatch):
    """Ten milliseconds a call and a bound that grows a thousandfold: eleven calls are known not to fit."""

    def slow():
        timing.time.sleep(0.01)
        return torch.zeros(1)

    toy.make = lambda size, where: {"dense": suites.Candidate(slow, 10 ** (3 * size["n"] + 6), 4)}
    points = record("toy", minutes=0.05)["points"]
    assert list(points[0]["candidates"]) == ["dense", "fast"]
    assert list(points[1]["candidates"]) == ["fast"]
    assert points[1]["skipped"]["dense"].startswith("would take about ")


def test_candidates_that_belong_together_are_left_out_together(toy, monkeypatch):
    def slow():
        timing.time.sleep(0.01)
        return torch.zeros(1)

    toy.make = lambda size, where: {"dense": suites.Candidate(slow, 10 ** (3 * size["n"] + 6), 4)}
    monkeypatch.setitem(suites.SUITES, "toy", dataclasses.replace(suites.SUITES["toy"], together=True))
    points = record("toy", minutes=0.05)["points"]
    assert [list(p["candidates"]) for p in points] == [["dense", "fast"], [], []]
    assert points[1]["skipped"]["all"].startswith("would take about ")
    assert list(points[1]["skipped"]) == ["all"]


@pytest.mark.parametrize("during", ["make", "run"])
def test_ctrl_c_keeps_what_was_measured(toy, during):
    lines = []

    def interrupt():
        raise KeyboardInterrupt

    def make(size, where):
        if size["n"] < 4:
            return {}
        return interrupt() if during == "make" else {"fast": suites.Candidate(interrupt, 1, 1)}

    toy.make = make
    data = record("toy", tell=lines.append)
    assert data["interrupted"] is True
    assert [p["size"]["n"] for p in data["points"]] == [1, 2]
    assert lines[-1] == "toy: interrupted, what was measured is kept"
    assert recording.loads(recording.dumps(data)).points[1].entries["dense"].times.n >= timing.LEAST_ROUNDS


def test_ctrl_c_inside_the_rounds_keeps_the_complete_ones(toy):
    calls = itertools.count()

    def fn():
        if next(calls) == 20:
            raise KeyboardInterrupt
        timing.time.sleep(0.02)
        return torch.zeros(1)

    toy.make = lambda size, where: {"dense": suites.Candidate(fn, 1, 1)} if size["n"] == 1 else {}
    data = record("toy", minutes=0.2)
    assert data["interrupted"] is True
    (point,) = data["points"]
    assert 0 < len(point["candidates"]["dense"]["samples"]) < 20


def test_ctrl_c_before_anything_was_measured_is_passed_on(toy):
    def make(size, where):
        raise KeyboardInterrupt

    toy.make = make
    with pytest.raises(KeyboardInterrupt):
        record("toy")


def test_a_run_disturbs_neither_random_numbers_nor_settings(quick):
    before = torch.get_default_dtype(), torch.get_deterministic_debug_mode()
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_deterministic_debug_mode("error")
        torch.manual_seed(0)
        expected = torch.randn(3)
        torch.manual_seed(0)
        record("decode")
        assert torch.equal(torch.randn(3), expected)
        assert (torch.get_default_dtype(), torch.get_deterministic_debug_mode()) == (torch.float64, 2)
    finally:
        torch.set_default_dtype(before[0])
        torch.set_deterministic_debug_mode(before[1])


def test_progress_says_what_is_measured_and_what_is_left_out(toy, monkeypatch):
    monkeypatch.setattr(suites, "free_bytes", lambda device: 1000)
    toy.need = lambda size, where: 400 * size["n"]
    lines = []
    record("toy", tell=lines.append)
    assert lines[0] == "toy: nothing; cpu, float32; ceilings first"
    assert lines[1] == "toy: n 1: dense, fast"
    assert lines[2] == "toy: n 2: skipped, needs about 800 B, 1,000 B are free"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "prefil"}, "suite must be one of decode, prefill"),
        ({"name": "flash", "minutes": 0}, "minutes must be positive"),
        ({"name": "flash", "device": "meta"}, "CPU or a CUDA card"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        suites.record(**arguments)


@pytest.mark.parametrize(
    ("kind", "device", "name"),
    [
        ("cpu", "AMD EPYC 9B45", "flash-cpu.json"),
        ("cuda", "NVIDIA H200", "flash-h200.json"),
        ("cuda", "Tesla T4", "flash-t4.json"),
        ("cuda", "NVIDIA A100-SXM4-40GB", "flash-a100-sxm4-40gb.json"),
    ],
)
def test_files_are_called_by_suite_and_device(kind, device, name):
    assert suites.file_name({"suite": "flash", "kind": kind, "environment": {"device": device}}) == name


# the command


def test_the_command_lists_the_suites(capsys):
    assert command.main(["record", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(suites.SUITES)


def test_the_command_writes_one_recording(quick, tmp_path, capsys):
    file = tmp_path / "mine.json"
    assert (
        command.main(["record", "--suite", "flash", "--device", "cpu", "--minutes", "0.01", "--output", str(file)]) == 0
    )
    assert recording.read(file).suite == "flash"
    assert "reached" in capsys.readouterr().out


def test_the_command_writes_all_into_a_folder(quick, tmp_path):
    folder = tmp_path / "new"
    assert command.main(["record", "--all", "--device", "cpu", "--minutes", "0.01", "--output", str(folder)]) == 0
    assert {file.name for file in folder.iterdir()} == {f"{name}-cpu.json" for name in suites.SUITES}
    assert all(json.loads(file.read_text(encoding="utf8"))["schema"] == 1 for file in folder.iterdir())


def test_all_suites_share_eight_minutes(monkeypatch, tmp_path):
    asked = []

    def one(name, *, minutes, **options):
        asked.append(minutes)
        raise RuntimeError("no more")

    monkeypatch.setattr(command, "record", one)
    assert command.main(["record", "--all", "--output", str(tmp_path)]) == 1
    assert asked[0] * len(suites.SUITES) <= 8


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_the_command_says_what_is_wrong(capsys):
    assert command.main(["record", "--suite", "flash", "--device", "cuda"]) == 1
    assert "flash: device cuda asked for, but torch" in capsys.readouterr().err


def test_agreement_is_a_ratio_of_the_same_work_and_decides_nothing(monkeypatch, capsys):
    """That both run and what is printed; how close they are on this machine is for people to read."""
    monkeypatch.setattr(agreement, "SIZES", {"cpu": (64,)})
    monkeypatch.setattr(agreement, "TURNS", 1)
    (row,) = agreement.agreement(CPU, turns=1)
    assert set(row) == {"work", "ms", "overhead", "torch.utils.benchmark"}
    assert 0 < row["overhead"] < row["ms"]
    assert row["torch.utils.benchmark"] > 0
    assert command.main(["agree", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("64 x 64 product: ")


def test_on_a_card_triton_is_asked_as_well(monkeypatch):
    class Card(suites.Where):
        card = True

    monkeypatch.setattr(agreement, "_do_bench", lambda: lambda fn, return_mode: (fn(), 1e9)[1])
    (row,) = agreement.agreement(Card(torch.device("cpu"), torch.float32), sizes=(64,), turns=1)
    assert row["triton.testing.do_bench"] < 1e-6
