"""A sitting keeps its lanes running until every job is done, and starts a lane again that fails."""

import os
import time

import pytest

from experiments.lab.collect import main as collect
from experiments.lab.jobs import write_result
from experiments.qwen import sitting
from experiments.qwen.specs import ArmRun
from gtpo.errors import ConfigError

ARGUMENTS = ["--spec", "dry", "--arms", "grpo,gtpo,balanced", "--seeds", "1-2"]


def lanes_are(monkeypatch, script):
    """Replace the command of a lane by a shell script, which gets its number."""
    monkeypatch.setattr(sitting.Sitting, "command", lambda self, number: ["sh", "-c", script, "sh", str(number)])


def finish(run):
    paths = " ".join(map(str, (run.curve, *map(run.result, run.tasks))))
    return f"mkdir -p {run.curve.parent}; touch {paths}; "


def test_it_ends_when_every_job_is_done(monkeypatch, tmp_path, capsys):
    runs = sitting.jobs(tmp_path, "dry", "grpo,gtpo,balanced", "1-2")
    assert [run.seed for run in runs] == [1, 1, 1, 2, 2, 2]  # a seed is completed before the next one
    lanes_are(monkeypatch, "".join(map(finish, runs)) + "sleep 60")
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path)]) == 0
    assert "6/6" in capsys.readouterr().err
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path), "--list"]) == 0
    assert capsys.readouterr().out.count("done") == 6


def test_open_jobs_are_told_by_the_exit_code(monkeypatch, tmp_path, capsys):
    lanes_are(monkeypatch, finish(ArmRun(tmp_path, "dry", "gtpo", 1)) + "exit 0")
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path)]) == 1
    assert "1/6" in capsys.readouterr().err


def test_a_lane_that_fails_is_started_again_a_few_times(monkeypatch, tmp_path):
    lanes_are(monkeypatch, f"echo $1 >> {tmp_path}/starts; exit 3")
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path), "--lanes", "1"]) == 1
    assert (tmp_path / "starts").read_text().split() == ["0"] * (1 + sitting.RESTARTS)


def test_a_lane_may_fail_again_after_a_job_is_done(monkeypatch, tmp_path):
    run = ArmRun(tmp_path, "dry", "gtpo", 1)
    third = f"[ $(wc -l < {tmp_path}/starts) = 3 ] && {{ {finish(run)} sleep 2; }}"
    lanes_are(monkeypatch, f"echo $MASTER_PORT >> {tmp_path}/starts; {third}; exit 3")
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path), "--lanes", "1"]) == 1
    ports = (tmp_path / "starts").read_text().split()
    assert len(ports) == len(set(ports)) == 3 + sitting.RESTARTS


def test_a_lane_that_is_not_done_at_the_end_is_stopped(monkeypatch, tmp_path):
    lanes_are(monkeypatch, "sleep 600")
    start = time.monotonic()
    assert sitting.main([*ARGUMENTS, "--out", str(tmp_path), "--minutes", "0.02"]) == 1
    assert time.monotonic() - start < 60


def test_attempts_of_an_earlier_sitting_do_not_count(monkeypatch, tmp_path):
    (run, *_) = sitting.jobs(tmp_path, "dry", "grpo,gtpo,balanced", "1-2")
    run.attempts.parent.mkdir()
    run.count_attempt()
    lanes_are(monkeypatch, "exit 0")
    sitting.main([*ARGUMENTS, "--out", str(tmp_path)])
    assert run.num_attempts == 0


@pytest.mark.parametrize("commit", ["unknown", "abc1234+"])
def test_a_sitting_needs_a_commit_that_names_its_code(monkeypatch, commit, tmp_path):
    monkeypatch.setenv("GTPO_COMMIT", commit)
    monkeypatch.setattr(sitting.Sitting, "run", lambda self: 0)
    with pytest.raises(ConfigError, match="worktree without changes"):
        sitting.main(["--out", str(tmp_path)])
    assert sitting.main(["--spec", "dry", "--out", str(tmp_path)]) == 0


def test_all_sittings_are_of_one_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(sitting.Sitting, "run", lambda self: 0)
    run = ArmRun(tmp_path, "qwen-leaderboard", "dr-grpo", 21)
    write_result(run.curve, {"commit": "abc1234"})
    write_result(run.result(run.tasks[0]), {"commit": "abc1234"})
    monkeypatch.setenv("GTPO_COMMIT", "abc1234")
    assert sitting.main(["--out", str(tmp_path)]) == 0
    monkeypatch.setenv("GTPO_COMMIT", "def5678")
    with pytest.raises(ConfigError, match=r"than def5678: qwen-leaderboard_dr-grpo_seed21 \(abc1234\)"):
        sitting.main(["--out", str(tmp_path)])
    run.result(run.tasks[0]).write_text('{"commit"')  # copied in part
    with pytest.raises(ConfigError, match=r"seed21_on_gsm8k\.json is damaged\. Copy it again"):
        sitting.main(["--out", str(tmp_path)])


def test_inputs_that_no_lane_can_use_end_the_sitting(monkeypatch, tmp_path):
    lanes_are(monkeypatch, f"echo There are no problems. >&2; exit {sitting.WRONG_INPUT}")
    with pytest.raises(ConfigError, match=r"cannot start: There are no problems\. See .*lane-0\.txt"):
        sitting.main([*ARGUMENTS, "--out", str(tmp_path), "--lanes", "1"])


def test_lanes_get_the_end_of_the_sitting(tmp_path):
    arguments = [*ARGUMENTS, "--out", str(tmp_path), "--minutes", "20"]
    options = type("Options", (), {"lanes": 1, "minutes": 20.0, "out": tmp_path})
    begun = sitting.Sitting([], options, arguments)
    *_, lane, until, end, sitting_option, process = begun.command(1)
    assert (lane, until) == ("1", "--until")
    assert (sitting_option, process) == ("--sitting", str(os.getpid()))
    assert float(end) == pytest.approx(time.time() + 20 * 60, abs=60)


def test_a_short_run_cannot_count_as_one_of_the_protocol(tmp_path, capsys):
    with pytest.raises(SystemExit):
        sitting.main(["--spec", "qwen-leaderboard", "--steps", "2", "--out", str(tmp_path)])
    assert "--steps is for --spec dry" in capsys.readouterr().err


@pytest.mark.slow
def test_two_lanes_train_and_evaluate_on_the_lab(tmp_path):
    arguments = ["--spec", "dry", "--arms", "grpo,component", "--seeds", "21", "--out", str(tmp_path), "--steps", "1"]
    assert sitting.main([*arguments, "--minutes", "8", "--job-minutes", "0.1"]) == 0
    assert all(run.is_done for run in sitting.jobs(tmp_path, "dry", "grpo,component", "21"))


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
