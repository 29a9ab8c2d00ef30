"""tools/bench.py: what it counts is what is run, and a missing peer makes a row that says so."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import bench
from attnledger.ops.delta import chunked_delta_rule


@pytest.mark.parametrize("T", [64, 1024])
def test_counted_flops_are_those_that_run(T):
    inputs = bench.delta_inputs(T)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        chunked_delta_rule(**inputs)
    solve = bench.H * T * bench.CHUNK**2  # torch's counter passes over triangular solves
    assert bench.delta_flops(T) == counter.get_total_flops() + solve


def test_a_row_without_its_peer_says_so(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name="fla")

    monkeypatch.setattr(bench, "fla_naive", missing)
    (row,) = bench.Bench(quick=True).rows("linear")
    assert row.verdict == "not measured" and "no module fla" in bench.line(row)


def test_verdicts():
    assert bench.Row("", 1.0, 0.8, measured=0.9).verdict == "kept"
    assert bench.Row("", 1.0, 0.8, measured=0.7).verdict == "reached"
    assert bench.Row("", 6.0, 10.0, floor=True, measured=5.9).verdict == "MISSED"
    assert bench.Row("", 2.0, None, measured=1.9).verdict == "kept"


def test_errors_are_within_their_tolerances():
    rows = list(bench.Bench(quick=True).rows("errors"))
    assert len(rows) == 4 and all(row.verdict == "kept" for row in rows)


def test_a_process_of_its_own_tells_the_same():
    here, elsewhere = bench.Bench(quick=True).rows("errors"), bench.rows_elsewhere("errors", quick=True)
    assert [bench.line(row) for row in here] == [bench.line(row) for row in elsewhere]


def test_a_process_that_fails_ends_the_bench(capfd):
    with pytest.raises(SystemExit):
        list(bench.rows_elsewhere("no_such_measure", quick=True))
    assert "no_such_measure" in capfd.readouterr().err
