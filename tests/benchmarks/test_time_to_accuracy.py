"""Runs of time to accuracy are pooled only if they are of one commit, on one kind of machine, with equal versions."""

import argparse
import importlib
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("GTPO_COMMIT", "abc1234")
    return importlib.import_module("bench_time_to_accuracy")


def write_run(bench, folder, provider, seed, *, is_finished=True, **changes):
    points = [{"step": step, "seconds": 10.0 * step, "pass_at_1": 0.2 + 0.25 * step} for step in range(3)]
    about = {"provider": provider, "seed": seed, "model": "lab", "setting": "micro-batch 8", **bench.origin()}
    content = {**about, "is_finished": is_finished, "points": points, "steps": [], **changes}
    (folder / f"{provider.lower()}-{seed}.json").write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["commit", "hardware", "versions"])
def test_runs_of_several_origins_are_refused(bench, name, tmp_path):
    write_run(bench, tmp_path, "TRL", 1)
    write_run(bench, tmp_path, "GRPO", 1)
    bench.summarise(tmp_path, tmp_path / "rows.csv")
    assert "abc1234" in (tmp_path / "rows.csv").read_text()
    write_run(bench, tmp_path, "GTPO", 1, is_finished=False, **{name: "another"})
    bench.summarise(tmp_path, None)  # an unfinished one does not count
    write_run(bench, tmp_path, "GTPO", 1, **{name: "another"})
    with pytest.raises(SystemExit, match=r"(?s)GRPO-1, TRL-1: .*\nGTPO-1: .*another"):
        bench.summarise(tmp_path, None)


def test_a_run_of_another_origin_is_refused_before_it_starts(bench, monkeypatch, tmp_path):
    write_run(bench, tmp_path, "TRL", 1, commit="another")
    monkeypatch.setattr("sys.argv", ["bench", "--size", "tiny", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"(?s)TRL-1: another.*\nnew-1: abc1234"):
        bench.main()


@pytest.mark.parametrize("name", ["model", "commit", "hardware", "versions"])
def test_the_untrained_policy_is_measured_again_unless_everything_is_the_same(bench, monkeypatch, name, tmp_path):
    options = argparse.Namespace(size="tiny", out=tmp_path, micro_batch=8, own_micro_batch=8)
    monkeypatch.setattr(bench.Run, "measure", lambda run, step: run.points.append({"step": step, "is_new": True}))
    for changes, is_new in (({name: "another"}, True), ({}, False)):
        write_run(bench, tmp_path, "TRL", 1, **changes)
        run = bench.Run(options, "GRPO", 1, None, None)
        run.measure_start()
        assert [point.get("is_new", False) for point in run.points] == [is_new]


def test_the_figure_leaves_out_unfinished_runs(bench, monkeypatch, tmp_path):
    plot = importlib.import_module("plot")
    monkeypatch.setattr(plot, "ACCURACY", tmp_path)
    write_run(bench, tmp_path, "TRL", 1)
    write_run(bench, tmp_path, "TRL", 2, is_finished=False)
    (axis,) = plot.accuracy([]).axes
    assert len(axis.lines) == len(bench.LEVELS) + 1
