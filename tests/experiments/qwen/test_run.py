"""The runner starts the arms in turn, stops them after the same step and evaluates each of them."""

import argparse
import subprocess

from experiments.qwen.run import ArmsRunner
from experiments.qwen.specs import ArmRun


def two_runs(tmp_path):
    return [ArmRun(tmp_path, "dry", arm, 1) for arm in ("grpo", "gtpo")]


class Rehearsal(ArmsRunner):
    """Arms are short shell scripts that write the files of real ones."""

    def __init__(self, runs, minutes=1.0, seconds=(0.2, 0.6), fails=()):
        super().__init__(runs, argparse.Namespace(minutes=minutes, evaluation_minutes=0.0, model="m", data_dir=None))
        self.seconds, self.fails, self.started = seconds, fails, []

    def _start(self, stage, run, attempt):
        self.started.append((stage, run.arm, attempt))
        number = self.runs.index(run)
        if stage == "train" and (run.arm, attempt) in self.fails:
            script = "exit 3"
        elif stage == "train":
            script = f"""mkdir -p {run.work}/model {run.curve.parent}
                         echo '{{"step": 1}}' > {run.work}/metrics.jsonl
                         sleep {self.seconds[number]}; echo '{{"steps": 7}}' > {run.curve}"""
        else:
            paths = " ".join(str(run.result(task)) for task in run.tasks)
            script = f"sleep {self.seconds[number]}; touch {paths}"
        self.processes[run] = subprocess.Popen(["sh", "-c", script], start_new_session=True)


def test_arms_stop_together_after_the_last_step_of_any(tmp_path):
    runs = [ArmRun(tmp_path, "dry", arm, 1) for arm in ("grpo", "gtpo")]
    for run, num_steps in zip(runs, (7, 5), strict=True):
        run.work.mkdir(parents=True)
        (run.work / "metrics.jsonl").write_text('{"step": 1}\n' * num_steps)
    runner = ArmsRunner(runs, argparse.Namespace(minutes=1.0))
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        runner.processes = dict.fromkeys(runs, sleeping)
        runner._stop_together()
        sleeping.kill()
    assert [run.stop_at.read_text() for run in runs] == ["8", "8"]


def test_arms_start_in_turn_and_are_evaluated_when_they_end(tmp_path):
    runner = Rehearsal(two_runs(tmp_path))
    assert runner.run() == 0
    assert runner.started == [
        ("train", "grpo", 0),
        ("train", "gtpo", 0),
        ("evaluate", "grpo", 0),
        ("evaluate", "gtpo", 0),
    ]


def test_an_arm_that_fails_before_its_first_step_is_started_again(tmp_path):
    runner = Rehearsal(two_runs(tmp_path), fails=[("grpo", 0)])
    assert runner.run() == 0
    assert runner.started[:2] == [("train", "grpo", 0), ("train", "grpo", 1)]


def test_when_the_time_is_over_every_arm_is_killed_and_the_exit_code_is_1(tmp_path):
    runner = Rehearsal(two_runs(tmp_path), minutes=1 / 60, seconds=(0.1, 60))
    assert runner.run() == 1
    assert not any(map(runner._is_running, runner.runs))


def test_an_arm_that_starts_later_trains_as_many_steps_as_the_other(tmp_path):
    runs = two_runs(tmp_path)
    runs[0].curve.parent.mkdir(parents=True)
    runs[0].curve.write_text('{"steps": 64}')
    Rehearsal(runs)._stop_like_the_others(runs[1])
    assert runs[1].stop_at.read_text() == "64"
