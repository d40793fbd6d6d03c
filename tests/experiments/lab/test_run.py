"""A job can be killed at any point: results stay, training resumes, and a result file is complete or absent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.lab import run_job as job_module
from experiments.lab.collect import find_results
from experiments.lab.jobs import Job, JobFolder, make_jobs, parse_seeds, write_result
from experiments.lab.run import Runner
from experiments.lab.run_job import commit, run_job, train_arguments
from gtpo.errors import ConfigError, DataError
from gtpo.training.session import StopAtStep


@pytest.fixture(autouse=True)
def small_evaluation(monkeypatch):
    monkeypatch.setattr(job_module, "NUM_SAMPLES", 2)
    monkeypatch.setattr(job_module, "KS", (1, 2))
    monkeypatch.setattr(job_module, "MAX_NEW_TOKENS", 8)


def test_jobs_are_ordered_by_seed():
    names = [job.name for job in make_jobs("smoke", "grpo,gtpo", "1-2,5")]
    assert names == [f"smoke_{arm}_seed{seed}" for seed in (1, 2, 5) for arm in ("grpo", "gtpo")]
    assert [Job.parse(name).name for name in names] == names
    assert [job.arm for job in make_jobs("smoke", "main", "3-9")].count("base") == 1


def test_wrong_seeds_and_arms_are_refused():
    with pytest.raises(ConfigError, match="1-8,11"):
        parse_seeds("one")
    with pytest.raises(ConfigError, match="arm"):
        Job("smoke", "grpoo", 1)


def test_collecting_unfinished_jobs_is_refused_with_their_number(tmp_path):
    log = JobFolder(tmp_path).log(Job("smoke", "gtpo", 1))
    log.parent.mkdir()
    log.touch()
    with pytest.raises(DataError, match="has 1 unfinished and no finished jobs"):
        find_results([tmp_path])


@pytest.mark.slow
def test_a_job_killed_in_training_resumes_and_ends_the_same(tmp_path, monkeypatch):
    job = Job("smoke", "gtpo", 3)
    unbroken, broken = JobFolder(tmp_path / "unbroken"), JobFolder(tmp_path / "broken")
    assert run_job(job, unbroken) == 0

    def killed(self, args, state, control, **_):
        if state.global_step == 2:
            raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(StopAtStep, "on_step_end", killed)
        with pytest.raises(RuntimeError, match="killed"):
            run_job(job, broken)
    assert (broken.work(job) / "checkpoint-1" / "complete").is_file()
    assert not broken.is_done(job)
    assert run_job(job, broken) == 0
    first, second = (json.loads(folder.result(job).read_text()) for folder in (unbroken, broken))
    assert first["curve"] == second["curve"]
    assert first["after"] == second["after"]
    assert not broken.work(job).exists()


def test_a_run_with_a_complete_checkpoint_is_resumed_and_another_is_started_again(tmp_path):
    job, work = Job("smoke", "grpo", 1), tmp_path / "work"
    (work / "checkpoint-1").mkdir(parents=True)
    (work / "config.yaml").write_text("method: grpo\n")
    assert "--resume" not in train_arguments(job, work)
    assert not work.exists()  # an incomplete checkpoint is of no use
    (work / "checkpoint-1").mkdir(parents=True)
    (work / "config.yaml").write_text("method: grpo\n")
    (work / "checkpoint-1" / "complete").write_text("")
    assert train_arguments(job, work) == ["train", "--resume", str(work)]


def test_the_result_contains_the_job_its_evaluation_and_the_versions(tmp_path):
    job, folder = Job("smoke", "base", 1), JobFolder(tmp_path)
    assert run_job(job, folder) == 0
    result = json.loads(folder.result(job).read_text())
    assert (result["setting"], result["arm"], result["seed"], result["steps"]) == ("smoke", "base", 1, 0)
    assert result["after"]["num_problems"] == 4
    assert 0 <= result["after"]["accuracy"] <= result["after"]["pass@2"] <= 1
    assert {"torch", "trl", "python"} <= set(result["versions"])


def test_a_variable_names_the_commit_of_a_copy_without_history(monkeypatch):
    monkeypatch.setenv("GTPO_COMMIT", "abc1234")
    assert commit() == "abc1234"


def test_the_runner_skips_finished_jobs_and_continues_after_a_failure(tmp_path, monkeypatch):
    folder = JobFolder(tmp_path)
    done, failing, fine = make_jobs("smoke", "grpo", "1-3")
    write_result(folder.result(done), {})
    script = tmp_path / "fake.py"
    script.write_text(
        "import pathlib, sys\n"
        "name, out = sys.argv[1], pathlib.Path(sys.argv[2])\n"
        "assert 'seed1' not in name, 'a finished job was started again'\n"
        "if 'seed2' in name: sys.exit(3)\n"
        "(out / 'results' / (name + '.json')).write_text('{}')\n"
    )

    def start(self, job):
        return subprocess.Popen([sys.executable, str(script), job.name, str(folder.path)])

    monkeypatch.setattr(Runner, "_start", start)
    runner = Runner(folder, 2, "cpu")
    assert runner.run([done, failing, fine]) == 1
    assert runner.failed == [failing]
    assert folder.is_done(fine)
    assert not list(folder.path.rglob("*.partial"))


def test_when_the_time_is_over_running_jobs_are_terminated(tmp_path, monkeypatch):
    folder = JobFolder(tmp_path)

    def start(self, job):
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    monkeypatch.setattr(Runner, "_start", start)
    runner = Runner(folder, 1, "cpu", minutes=0.0)
    assert runner.run(make_jobs("smoke", "grpo", "1-2")) == 1
    assert len(runner.failed) == 1  # the second was never started


def test_a_job_waits_for_a_running_one_of_the_same_name_and_then_does_nothing(tmp_path):
    job, folder = Job("smoke", "grpo", 1), JobFolder(tmp_path)
    command = [sys.executable, "-m", "experiments.lab.run_job", job.name, "--out", str(tmp_path)]
    with folder.lock(job):
        second = subprocess.Popen(command, cwd=Path(__file__).parents[3])
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=2)
        write_result(folder.result(job), {"of": "the first"})
    assert second.wait(timeout=60) == 0
    assert json.loads(folder.result(job).read_text()) == {"of": "the first"}
    assert not folder.work(job).exists()
