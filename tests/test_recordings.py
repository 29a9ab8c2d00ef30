"""Recordings: what the files must hold, what the pages say of them, and the reader's own run beside them."""

import copy
import importlib
import json
import re
import statistics
from pathlib import Path

import pytest
import torch

from attnledger import book
from attnledger.book import drawing
from attnledger.timing import recording, suites
from attnledger.timing.recording import RecordingError

measuring = importlib.import_module("attnledger.book.measured")
ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(recording.__file__).parent.parent / "data" / "recordings"
NAMES = recording.names()
FIGURES = {
    "decode": "cost.decode_measured",
    "prefill": "linear.prefill_measured",
    "flash": "exact.flash_measured",
    "block-sparse": "sparse.three_speeds",
    "hybrid": "hybrid.layers_measured",
}


def small() -> dict:
    """The least that is a recording: 2 and 1 ms for 10⁶ and 10³ FLOP, at 10⁹ FLOP/s and 10⁹ bytes/s."""
    times = {"first": 9.0, "overhead": 0.001, "memory_bytes": 4096}
    dense = times | {"samples": [2.0, 2.2, 1.8], "flops": 10**6, "bytes": 10**3}
    flash = times | {"samples": [1.0, 1.0, 1.2], "flops": 10**3, "bytes": 4 * 10**5, "memory_bytes": None}
    about = {"device": "Some CPU", "system": "Linux x86_64", "torch": "2.13", "python": "3.11"}
    return {
        "schema": 1,
        "suite": "flash",
        "kind": "cpu",
        "environment": about | {"dtype": "float32", "threads": 2, "version": None},
        "ceilings": {
            "flop_per_second": 1e9,
            "bytes_per_second": 1e9,
            "gemm": times | {"samples": [1.0]},
            "copy": times | {"samples": [1.0]},
        },
        "geometry": {"heads": 4},
        "points": [{"size": {"tokens": 64}, "candidates": {"dense": dense, "flash": flash}, "skipped": {}}],
    }


def load(data: dict) -> recording.Recording:
    return recording.loads(json.dumps(data), "mine.json")


# reading


def test_times_bounds_and_ratios_are_what_they_are_called():
    point = load(small()).point(tokens=64)
    dense, flash = point.entries["dense"], point.entries["flash"]
    assert dense.ms == statistics.median([2.0, 2.2, 1.8])
    assert (dense.bound_ms, dense.bound.limit) == (1.0, "compute"), "10⁶ FLOP at 10⁹ a second"
    assert (flash.bound_ms, flash.bound.limit) == (pytest.approx(0.4), "memory"), "4·10⁵ bytes at 10⁹ a second"
    assert dense.over_bound == 2.0
    assert point.ratio("dense", "flash").samples == (2.0, 2.2, pytest.approx(1.5)), "round by round"


def test_a_series_is_one_candidate_along_one_axis():
    data = small()
    second = copy.deepcopy(data["points"][0])
    second["size"] = {"tokens": 32, "batch": 2}
    del second["candidates"]["flash"]
    data["points"].append(second)
    run = load(data)
    assert [n for n, _ in run.series("dense", "tokens")] == [32, 64]
    assert [n for n, _ in run.series("dense", "tokens", batch=2)] == [32]
    assert [n for n, _ in run.series("flash", "tokens")] == [64]
    with pytest.raises(LookupError, match="no point {'tokens': 65}"):
        run.point(tokens=65)


def test_the_place_names_device_dtype_and_ceilings():
    assert load(small()).place == "Some CPU, 2 threads, float32, torch 2.13; reached 1 GFLOP/s, 1 GB/s"


def test_what_is_written_reads_back_with_five_digits():
    data = small()
    data["points"][0]["candidates"]["dense"]["samples"] = [1.23456789, 1234567.89, 0.000123456789]
    again = recording.loads(recording.dumps(data))
    assert again.points[0].entries["dense"].times.samples == (1.2346, 1234600.0, 0.00012346)
    assert json.loads(recording.dumps(data))["points"][0]["candidates"]["dense"]["flops"] == 10**6, "counts stay exact"
    assert recording.dumps(json.loads(recording.dumps(data))) == recording.dumps(data)


def test_a_readers_own_file_is_read(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(recording.dumps(small()), encoding="utf8")
    assert recording.read(file).suite == recording.read(str(file)).suite == "flash"


def test_a_name_that_is_no_recording_says_which_there_are():
    with pytest.raises(FileNotFoundError, match="no recording of the library; those are .*decode-cpu"):
        recording.read("decode-h9000")
    with pytest.raises(FileNotFoundError):
        recording.read("nowhere/decode.json")


def broken(change) -> dict:
    data = small()
    change(data)
    return data


DENSE = ("points", 0, "candidates", "dense")


def at(data: dict, *path):
    for key in path:
        data = data[key]
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema=2), "mine.json has schema version 2, this library reads 1"),
        (lambda d: d.pop("schema"), "mine.json is no recording: it has no schema version"),
        (lambda d: d.pop("environment"), "mine.json: environment is missing"),
        (lambda d: d["environment"].pop("dtype"), "environment.dtype is missing"),
        (lambda d: d.update(kind="tpu"), "kind must be 'cpu' or 'cuda', got 'tpu'"),
        (lambda d: d["ceilings"].pop("copy"), "ceilings.copy is missing"),
        (lambda d: d["ceilings"].update(flop_per_second=0), "ceilings.flop_per_second must be above 0"),
        (lambda d: d["ceilings"]["gemm"].update(samples=[]), "ceilings.gemm.samples must be milliseconds"),
        (lambda d: d.update(points={}), "points must be list"),
        (lambda d: d["points"][0].pop("skipped"), r"points\[0\].skipped is missing"),
        (lambda d: at(d, *DENSE).pop("samples"), r"points\[0\].candidates.dense.samples is missing"),
        (lambda d: at(d, *DENSE).update(samples=[1.0, None]), r"dense.samples must be milliseconds"),
        (lambda d: at(d, *DENSE).update(samples=[1.0, -1.0, 1.0]), r"dense.samples must be milliseconds"),
        (lambda d: at(d, *DENSE).update(samples=[1.0]), "unequal numbers of samples"),
        (lambda d: at(d, *DENSE).pop("flops"), r"dense.flops is missing"),
        (lambda d: at(d, *DENSE).update(flops=1.5), r"dense.flops must be int, got 1.5"),
        (lambda d: at(d, *DENSE).update(bytes=0), r"flops and bytes must be above 0"),
        (lambda d: at(d, *DENSE).update(first="soon"), r"dense.first must be int or float"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change, message):
    with pytest.raises(RecordingError, match=message):
        load(broken(change))


@pytest.mark.parametrize("text", ["", "{", json.dumps(small())[:-40], "[1]", "null"])
def test_a_file_that_was_cut_off_or_is_something_else_is_refused(text):
    with pytest.raises(RecordingError, match="mine.json is (not complete JSON|no recording)"):
        recording.loads(text, "mine.json")


# what comes with the library


def test_every_suite_was_recorded_on_a_cpu():
    assert {f"{name}-cpu" for name in suites.SUITES} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_complete_small_and_names_no_place(name):
    file = FOLDER / f"{name}.json"
    text = file.read_text(encoding="utf8")
    run = recording.read(name)
    assert file.stat().st_size < 200 * 1024
    assert f"{run.suite}-{'cpu' if not run.card else ''}" in suites.file_name(run.data)
    assert recording.dumps(json.loads(text)) == text, "as the command writes it"
    assert run.geometry == suites.SUITES[run.suite].geometry, "the suite has changed: record it again"
    assert not run.data["interrupted"]
    assert "/" not in str(run.environment["device"]) and "home" not in text


@pytest.mark.parametrize("name", NAMES)
def test_recorded_counts_are_those_of_the_suite(name, monkeypatch):
    """Counts are exact: what costs says today must stand in the file. Inputs are not made."""
    run = recording.read(name)
    number = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    where = suites.Where(torch.device("meta"), number[run.environment["dtype"]])
    monkeypatch.setattr(suites, "COLD", 0)
    monkeypatch.setattr(
        suites.Where, "normal", lambda self, *s, seed=0, dtype=None: torch.empty(*s, dtype=self.dtype, device="meta")
    )
    monkeypatch.setattr(suites, "select_blocks", lambda iq, ik, *, top_k, **o: iq.new_empty((*iq.shape[:-1], top_k)))
    for point in run.points:
        candidates = suites.SUITES[run.suite].make(dict(point.size), where)
        for key, entry in point.entries.items():
            assert (entry.flops, entry.bytes_moved) == (candidates[key].flops, candidates[key].bytes), (point.size, key)


# what the pages say of the CPU's recordings


def cpu(suite: str) -> recording.Recording:
    return recording.read(f"{suite}-cpu")


def growth(run: recording.Recording, name: str, low: int, high: int, **fixed: int) -> float:
    series = dict(run.series(name, "tokens", **fixed))
    return series[high].ms / series[low].ms


def test_decode_caches_grow_and_weights_and_states_do_not():
    run = cpu("decode")
    grown = {name: growth(run, name, 4096, 65_536, batch=1) for name in ("softmax", "grouped", "weights", "delta")}
    assert min(grown["softmax"], grown["grouped"]) > 8 > 3 > max(grown["weights"], grown["delta"])


def test_decode_orders_at_a_long_context():
    far = cpu("decode").point(batch=1, tokens=65_536).entries
    assert far["softmax"].ms > max(far["grouped"].ms, far["weights"].ms)
    assert min(far["grouped"].ms, far["weights"].ms) > max(far["delta"].ms, far["linear"].ms)
    assert 2 < cpu("decode").point(batch=1, tokens=65_536).ratio("softmax", "grouped").median < 6


def test_decode_cache_and_weights_meet_near_six_widths():
    run = cpu("decode")
    passed = [n for n, e in run.series("softmax", "tokens", batch=1) if e.ms > _weights(run, n)]
    assert 4096 < min(passed) <= 32_768
    assert passed == [n for n, _ in run.series("softmax", "tokens", batch=1) if n >= min(passed)]


def _weights(run: recording.Recording, n: int) -> float:
    return run.point(batch=1, tokens=n).entries["weights"].ms


def test_decode_a_batch_shares_the_weights_and_not_the_caches():
    one, many = (cpu("decode").point(batch=b, tokens=4096).entries for b in (1, 16))
    assert many["weights"].ms / one["weights"].ms < many["softmax"].ms / one["softmax"].ms


def test_decode_waits_for_memory():
    limits = {e.bound.limit for p in cpu("decode").points if p.size["batch"] == 1 for e in p.entries.values()}
    assert limits == {"memory"}


def test_prefill_a_token_is_level_with_a_state_and_rises_with_all_pairs():
    run = cpu("prefill")
    n = [n for n, _ in run.series("dense", "tokens")]
    each = {name: growth(run, name, n[0], n[-1]) / (n[-1] / n[0]) for name in ("dense", "linear", "kda", "delta")}
    assert n[-1] >= 8192 and each["dense"] > 4 > 2 > max(each["linear"], each["kda"], each["delta"])


def test_prefill_all_pairs_are_fastest_on_the_shortest_text_and_slowest_on_the_longest():
    run = cpu("prefill")
    first, last = (run.point(tokens=run.series("dense", "tokens")[i][0]).entries for i in (0, -1))
    assert first["dense"].ms < min(first["linear"].ms, first["kda"].ms)
    assert last["dense"].ms > max(last["linear"].ms, last["kda"].ms, last["sparse"].ms, last["window"].ms)
    assert last["linear"].over_bound > last["dense"].over_bound, "a reference form beside a fused one"


def test_flash_is_faster_and_holds_less_at_long_lengths():
    points = [p for p in cpu("flash").points if len(p.entries) == 2 and p.size["tokens"] >= 1024]
    assert points[-1].size["tokens"] >= 4096
    assert all(p.ratio("naive", "flash").median > 1 for p in points)
    for p in points[1:]:  # below 2048 an allocator may have kept enough from before
        square = 2 * 4 * 4 * p.size["tokens"] ** 2
        assert p.entries["naive"].memory_bytes == pytest.approx(square, rel=0.1), "two score matrices"
        assert p.entries["flash"].memory_bytes < square / 16


def test_flash_is_bound_by_arithmetic_on_a_cpu_in_either_order():
    assert {e.bound.limit for p in cpu("flash").points for e in p.entries.values()} == {"compute"}


def test_three_speeds_fall_from_count_to_attention_to_layer():
    point = cpu("block-sparse").point(top_k=4)
    counted = point.entries["dense"].flops / point.entries["sparse"].flops
    alone, layer = point.ratio("dense", "sparse").median, point.ratio("layer, dense", "layer, sparse").median
    assert counted > alone > layer > 1


def test_block_selection_gains_little_when_many_blocks_are_read():
    points = {p.size["top_k"]: p for p in cpu("block-sparse").points if {"dense", "sparse"} <= set(p.entries)}
    ratios = [points[k].ratio("dense", "sparse").median for k in sorted(points)]
    assert ratios[0] > 2 > 1.3 > ratios[-1]


def test_no_pattern_passes_the_layer_without_attention():
    for p in cpu("hybrid").points:
        if p.entries:
            rest = p.ratio("dense", "rest").median
            assert max(p.ratio("dense", "hybrid").median, p.ratio("dense", "gated").median) < rest


def test_a_mix_loses_on_a_short_text_and_gains_on_a_long_one():
    points = [p for p in cpu("hybrid").points if p.entries]
    short, long = points[0].ratio("dense", "hybrid").median, points[-1].ratio("dense", "hybrid").median
    assert short < 1 < long < points[-1].ratio("dense", "gated").median


# the reader's run


@pytest.fixture
def reader(monkeypatch):
    """`measured` with a suite that takes no time, and nothing measured before."""
    monkeypatch.setattr(measuring, "_TAKEN", {})

    def record(name, *, device, minutes, tell):
        tell("measuring")
        data = copy.deepcopy(dict(recording.read(f"{name}-cpu").data))
        data["kind"] = "cuda"
        data["environment"] |= {"device": "Tesla T4", "dtype": "float16"}
        data["ceilings"]["flop_per_second"] *= 10
        data["ceilings"]["bytes_per_second"] *= 10
        for point in data["points"]:
            for candidate in point["candidates"].values():
                candidate["samples"] = [sample / 20 for sample in candidate["samples"]]
        return data

    monkeypatch.setattr(suites, "record", record)
    return record


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
@pytest.mark.parametrize("suite", suites.SUITES)
def test_without_a_card_nothing_is_run(suite, monkeypatch):
    monkeypatch.setattr(suites, "record", lambda *a, **o: pytest.fail("ran"))
    found = book.measured(suite)
    assert [run.suite for run in found] == [suite]
    assert found.reader is None
    assert str(found).splitlines()[0].startswith("Recorded on ")
    assert "With a GPU in this kernel" in str(found)
    shown = found.table(**found.book.points[0].size)
    assert shown.columns == ["what", "ms", "p20 to p80", "times the bound", "bound by"]
    assert shown.caption.endswith(f"; {found.book.device}"), "a time is shown with its device"


@pytest.mark.parametrize("suite", suites.SUITES)
def test_the_readers_run_is_drawn_over_the_books(suite, reader, tmp_path):
    lines = []
    found = book.measured(suite, device="cuda", folder=tmp_path, tell=lines.append)
    assert lines == ["measuring"]
    assert found.reader.device == "Tesla T4"
    alone, both = (drawing.load(FIGURES[suite]).draw(runs=runs) for runs in ([found.book], found))
    dashed = [
        [line for axes in fig.axes for line in axes.lines if line.get_markerfacecolor() == "none"]
        for fig in (alone, both)
    ]
    assert not dashed[0] and dashed[1]
    shown = found.table(**found.book.points[0].size)
    assert {row[0] for row in shown.rows} == {found.book.device, "Tesla T4"}
    assert shown.columns == ["on", "what", "ms", "p20 to p80", "times the bound", "bound by"]
    assert recording.read(tmp_path / f"{suite}-t4.json").suite == suite


PAGES = {
    "cost/decode": "decode",
    "exact/flash-attention": "flash_runs",
    "linear/linear-attention": "prefill",
    "sparse/block-selection": "selection",
    "hybrid/choosing": "layers",
}


def cells_of(page: str, name: str) -> list[str]:
    """The code cells of a page from the one that measures on, as far as they use what was measured."""
    text = (ROOT / "chapters" / f"{page}.md").read_text(encoding="utf8")
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(?:---\n.*?---\n|(?::[\w-]+:[^\n]*\n)*)(.*?)^```", text, re.M | re.S)
    first = next(i for i, cell in enumerate(cells) if "= measured(" in cell)
    return [cell for cell in cells[first:] if re.search(rf"\b{name}\b(\.| =|\)|:)", cell)]


@pytest.mark.parametrize("lost", ["nothing", "half the sizes", "every other candidate", "a candidate"])
@pytest.mark.parametrize("page", PAGES)
def test_a_pages_cells_survive_the_readers_run(page, lost, reader, monkeypatch, tmp_path):
    """With a card beside the book's recording, whatever it could not do; what is spoken stays the book's."""

    def record(*args, **options):
        data = reader(*args, **options)
        second = list(data["points"][0]["candidates"])[1]
        if lost == "half the sizes":
            data["points"] = data["points"][::2]
        if lost == "a candidate":
            for point in data["points"]:
                point["candidates"].pop(second, None)
        if lost == "every other candidate":
            for point in data["points"]:
                point["candidates"] = dict(list(point["candidates"].items())[::2])
        return data

    monkeypatch.setattr(suites, "record", record)
    monkeypatch.chdir(tmp_path)
    spoken = []
    for card in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda card=card: card)
        said = {}
        names = {name: getattr(book, name) for name in ("figure", "measured", "table")}
        names["say"] = lambda name, value, spec="", said=said: said.update({name: format(value, spec)})
        cells = cells_of(page, PAGES[page])
        assert len(cells) >= 4
        for cell in cells:
            exec(compile(cell, page, "exec"), names)
        spoken.append(said)
        assert (names[PAGES[page]].reader is not None) == card
    assert spoken[0] == spoken[1] and spoken[0]


def test_a_card_is_found_by_itself(reader, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert book.measured("flash", folder=tmp_path, tell=print).reader.device == "Tesla T4"


def test_the_difference_is_said_with_spread_bound_and_what_the_ceilings_explain(reader, tmp_path):
    sentence = book.measured("decode", device="cuda", folder=tmp_path, tell=print).sentences[2]
    assert sentence.startswith("1 sequence, 65,536 tokens, cache, 16 heads: ")
    assert sentence.count("ms (p20 to p80 ") == 2 and sentence.count("times its bound, which memory sets") == 2
    assert sentence.endswith("20 times as long, where the ceilings alone would make it 10.")


def test_a_second_cell_does_not_run_again(reader, monkeypatch, tmp_path):
    first = book.measured("flash", device="cuda", folder=tmp_path, tell=print)
    monkeypatch.setattr(suites, "record", lambda *a, **o: pytest.fail("ran again"))
    again = book.measured("flash", device="cuda", folder=tmp_path, tell=print)
    assert again.reader is first.reader
    assert "Measured earlier in this session." in str(again)


def test_a_suite_really_runs_on_a_device_that_poses_as_the_readers(monkeypatch, tmp_path):
    """The whole way, on this CPU: record, round, read, overlay, save."""
    import dataclasses
    from functools import partial

    from attnledger import timing

    monkeypatch.setattr(measuring, "_TAKEN", {})
    monkeypatch.setattr(suites, "ceilings", partial(timing.ceilings, gemm_size=64, copy_mib=1))
    quick = dataclasses.replace(suites.SUITES["flash"], sizes=lambda where: [{"tokens": 256}])
    monkeypatch.setitem(suites.SUITES, "flash", quick)
    found = book.measured("flash", device="cpu", minutes=0.01, folder=tmp_path, tell=lambda line: None)
    assert [dict(p.size) for p in found.reader.points] == [{"tokens": 256}]
    assert found.sentences[2].startswith("256 tokens, fused: ")
    assert drawing.render(drawing.load("exact.flash_measured").draw, {"runs": found}, salt="x").svg.startswith("<svg")
    assert recording.read(tmp_path / "flash-cpu.json").points[0].entries["naive"].times.n >= 6


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"),
            "Nothing was measured here: CUDA out of memory",
        ),
        (RuntimeError("device cuda asked for, but torch finds no CUDA"), "finds no CUDA"),
        (MemoryError(), "Nothing was measured here: MemoryError"),
        (KeyboardInterrupt(), "Interrupted before anything was measured here."),
    ],
)
def test_whatever_stops_the_run_the_books_recording_is_shown(error, said, reader, monkeypatch, tmp_path):
    def record(*args, **options):
        raise error

    monkeypatch.setattr(suites, "record", record)
    found = book.measured("flash", device="cuda", folder=tmp_path, tell=print)
    assert found.reader is None and said in str(found)
    assert "more" not in str(found)
    drawing.load("exact.flash_measured").draw(runs=found)


def test_a_run_that_fitted_nothing_is_not_drawn(reader, monkeypatch, tmp_path):
    def record(*args, **options):
        data = reader(*args, **options)
        data["points"] = [{"size": {"tokens": 256}, "candidates": {}, "skipped": {"all": "out of memory"}}]
        return data

    monkeypatch.setattr(suites, "record", record)
    found = book.measured("flash", device="cuda", folder=tmp_path, tell=print)
    assert found.reader is None and "no size fitted" in str(found)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_and_what_it_left_out_are_said(reader, monkeypatch, tmp_path):
    def record(*args, **options):
        data = reader(*args, **options)
        data["interrupted"] = True
        data["points"] = data["points"][:1]
        data["points"][0]["skipped"] = {"naive": "out of memory"}
        del data["points"][0]["candidates"]["naive"]
        return data

    monkeypatch.setattr(suites, "record", record)
    said = str(book.measured("flash", device="cuda", folder=tmp_path, tell=print))
    assert "The run was interrupted; this is what it had." in said
    assert "Left out: naive at 256 tokens (out of memory)." in said


def test_a_folder_that_cannot_be_written_is_no_obstacle(reader, tmp_path):
    found = book.measured("flash", device="cuda", folder=tmp_path / "nowhere", tell=print)
    assert found.reader is not None
    assert "The run could not be saved (No such file or directory)." in str(found)


def test_an_unknown_suite_is_refused():
    with pytest.raises(ValueError, match="suite must be one of decode, prefill"):
        book.measured("decoding")


def test_progress_in_a_cell_is_one_line_and_elsewhere_printed(monkeypatch, capsys):
    measuring._line()("decode: tokens 512")
    assert "decode: tokens 512" in capsys.readouterr().out

    class Handle:
        shown: list = []

        def update(self, what):
            self.shown.append(what.data)

    monkeypatch.setattr(measuring, "display", lambda *a, **o: Handle())
    tell = measuring._line()
    tell("a < b")
    tell("c")
    assert Handle.shown == ["<p>a &lt; b</p>", "<p>c</p>"]


def test_a_golden_depends_on_the_recording_it_shows():
    from attnledger.book import data

    book.measured("decode", device=None) if not torch.cuda.is_available() else None
    assert torch.cuda.is_available() or "recordings/decode-cpu.json" in data.OPENED
