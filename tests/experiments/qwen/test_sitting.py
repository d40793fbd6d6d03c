"""A sitting runs what is missing, two jobs at a time, and starts no pair that it has no time for."""

import pytest

from experiments.lab.collect import main as collect
from experiments.qwen import sitting
from experiments.qwen.specs import ArmRun

ARGUMENTS = ["--spec", "dry", "--arms", "grpo,gtpo,balanced", "--seeds", "1-2", "--pair-minutes", "0.5"]


@pytest.fixture
def pairs(monkeypatch):
    """The pairs that were run, and the time that each was given; running a pair writes the files of its results."""
    started = []

    class Rehearsal:
        def __init__(self, runs, options):
            started.append(([run.name for run in runs], options.minutes, options.evaluation_minutes))
            self.runs = runs

        def run(self):
            for run in self.runs:
                for path in (run.curve, *map(run.result, run.tasks)):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text("{}")

    monkeypatch.setattr(sitting, "ArmsRunner", Rehearsal)
    return started


def test_what_is_done_is_left_out_and_the_rest_runs_in_pairs(pairs, tmp_path, capsys):
    done = ArmRun(tmp_path, "dry", "gtpo", 1)
    for path in (done.curve, *map(done.result, done.tasks)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path)]) == 0
    names = [name for pair, _, _ in pairs for name in pair]
    assert [len(pair) for pair, _, _ in pairs] == [2, 2, 1]
    assert sorted(names) == sorted(
        f"dry_{arm}_seed{seed}"
        for arm in ("grpo", "gtpo", "balanced")
        for seed in (1, 2)
        if (arm, seed) != ("gtpo", 1)
    )
    assert all(name.endswith("seed1") for name in names[:2])  # a seed is completed before the next one
    assert {for_evaluation for *_, for_evaluation in pairs} == {0.0}  # no arm is stopped early for it
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path), "--list"]) == 0
    assert capsys.readouterr().out.count("done") == 6


def test_no_pair_starts_without_the_time_for_it(pairs, tmp_path):
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path), "--minutes", "0.4"]) == 1
    assert pairs == []


def test_the_results_of_a_sitting_are_collected(tmp_path):
    run = ArmRun(tmp_path / "out", "qwen-leaderboard", "dr-grpo", 21)
    for path in (run.curve, run.result(run.tasks[0])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    for _ in range(2):  # the second time, the copies of the first are there
        assert collect([str(tmp_path), "--data", str(tmp_path / "data")]) == 0
    assert sorted(path.name for path in (tmp_path / "data/real").iterdir()) == [
        "qwen-leaderboard_dr-grpo_seed21.json",
        "qwen-leaderboard_dr-grpo_seed21_on_gsm8k.json",
    ]
