"""A lane takes the jobs that no other lane has, and evaluates the weights that it has just trained."""

import argparse
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import trl
from experiments.qwen import lane, sitting
from experiments.qwen.arm import check_arm
from experiments.qwen.specs import ArmRun
from gtpo.errors import ConfigError, DataError


@pytest.fixture
def trained(monkeypatch):
    """The jobs that were run, as "train NAME" and "evaluate NAME"; each writes its files."""
    log = []

    def train(run, model, data_dir, steps):
        log.append(f"train {run.name}")
        for path in (run.curve, run.work / "model" / "weights"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        return 0

    def evaluate(run, engine, data_dir):
        log.append(f"evaluate {run.name} with {engine}")
        for task in run.tasks:
            run.result(task).write_text("{}")

    monkeypatch.setattr(lane, "train_arm", train)
    monkeypatch.setattr(lane, "evaluate_arm", evaluate)
    monkeypatch.setattr(lane, "engine_for", lambda run, model, llm: "its weights" * (run.work / "model").is_dir())
    return log


RUN_LANE = """
import argparse, os, pathlib, time
from experiments.qwen.specs import ArmRun
until, sitting = time.time() + 600, os.getppid()
options = argparse.Namespace(spec="dry", model='lab', data_dir=None, until=until, sitting=sitting)
lane.run_lane([ArmRun(pathlib.Path("unused"), "dry", "grpo", 1)], options)
"""


def run_script(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)


def options(minutes=10.0):
    until = time.time() + 60 * minutes
    return argparse.Namespace(spec="dry", model="lab", data_dir=None, steps=None, until=until, job_minutes=1.0)


def test_it_works_through_the_open_jobs_and_deletes_their_weights(trained, tmp_path):
    done, first, second = (ArmRun(tmp_path, "dry", arm, 1) for arm in ("base", "grpo", "gtpo"))
    for task in done.tasks:
        done.result(task).parent.mkdir(parents=True, exist_ok=True)
        done.result(task).write_text("{}")
    assert lane.work_through([done, first, second], options()) == 0
    names = (first.name, second.name)
    assert trained == [line for name in names for line in (f"train {name}", f"evaluate {name} with its weights")]
    assert first.is_done
    assert not first.work.exists()


def test_a_job_without_the_time_for_it_is_not_started(trained, tmp_path):
    assert lane.work_through([ArmRun(tmp_path, "dry", "grpo", 1)], options(minutes=0.5)) == 0
    assert trained == []


def test_a_job_that_fails_is_tried_again_after_the_others(trained, monkeypatch, tmp_path):
    first, second = runs = [ArmRun(tmp_path, "dry", arm, 1) for arm in ("grpo", "gtpo")]
    with monkeypatch.context() as patch:
        patch.setattr(lane, "train_arm", lambda run, *_: 130)
        assert lane.work_through(runs, options()) == 1
    assert lane.work_through(runs, options()) == 0
    assert [line.split()[1] for line in trained if line.startswith("train")] == [second.name, first.name]


def test_a_job_that_failed_is_left_after_two_attempts(trained, monkeypatch, tmp_path):
    failing, other, next_seed = runs = [ArmRun(tmp_path, "dry", *of) for of in (("grpo", 1), ("gtpo", 1), ("gtpo", 2))]
    started, train = [], lane.train_arm

    def fail(run, *rest):
        started.append(run)
        return 130 if run is failing else train(run, *rest)

    monkeypatch.setattr(lane, "train_arm", fail)
    assert [lane.work_through(runs, options()) for _ in range(3)] == [1, 1, 0]
    assert started == [failing, other, failing, next_seed]  # a seed is completed before the next one


def test_the_next_job_is_chosen_after_the_last_one(trained, monkeypatch, tmp_path):
    first, second, third = runs = [ArmRun(tmp_path, "dry", arm, 1) for arm in ("grpo", "gtpo", "balanced")]
    evaluate = lane.evaluate_arm

    def other_lane(run, *rest):
        if run is first:  # meanwhile, another lane fails with the second
            second.count_attempt()
        evaluate(run, *rest)

    monkeypatch.setattr(lane, "evaluate_arm", other_lane)
    assert lane.work_through(runs, options()) == 0
    assert [line.split()[1] for line in trained if line.startswith("train")] == [first.name, third.name, second.name]


@pytest.mark.parametrize("minutes", [0.5, 2.0])
def test_an_engine_is_started_only_if_it_and_a_job_have_time(trained, monkeypatch, minutes, tmp_path):
    monkeypatch.setattr(lane, "start_engine", lambda *_: pytest.fail("started"))
    late = options(minutes)  # a job takes one, the engine one and a half
    late.spec = "qwen-leaderboard"
    assert lane.work_through([ArmRun(tmp_path, "qwen-leaderboard", "grpo", 21)], late) == 0


def test_a_lane_with_an_engine_needs_time_for_the_job_only(trained, monkeypatch, tmp_path):
    monkeypatch.setattr(lane, "start_engine", lambda *_: "engine")
    clock = [0.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    some = options(2.6)
    some.spec = "qwen-leaderboard"
    runs = [ArmRun(tmp_path, "qwen-leaderboard", "grpo", seed) for seed in (21, 22, 23)]
    train = lane.train_arm

    def slow(run, *rest):
        clock[0] += 60
        return train(run, *rest)

    monkeypatch.setattr(lane, "train_arm", slow)
    assert lane.work_through(runs, some) == 0
    assert [run.is_done for run in runs] == [True, True, False]


def test_the_process_of_a_lane_ends_whatever_still_runs_in_it(tmp_path):
    script = (
        "import threading, time; from experiments.qwen import lane\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "lane.check_arm = lambda *_: None\n"
        "lane.work_through = lambda *_: 1 / 0\n"
    )
    done = run_script(script + RUN_LANE)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_a_lane_ends_with_its_sitting_or_soon_after_its_time():
    script = (
        "import time; from experiments.qwen import lane\n"
        "lane.GRACE_SECONDS, lane.check_arm, lane.work_through = -3600, lambda *_: None, lambda *_: time.sleep(600)\n"
    )
    assert run_script(script + RUN_LANE).returncode == 1
    orphan = "import time; from experiments.qwen import lane\nlane.end_with_sitting(-1, time.time() + 600)"
    assert run_script(orphan).returncode == 1


def test_wrong_inputs_are_found_before_an_engine_starts(monkeypatch, tmp_path):
    script = "from experiments.qwen import lane\nlane.work_through = lambda *_: 1 / 0\n"
    done = run_script(script + RUN_LANE.replace("'lab'", repr(str(tmp_path / "nowhere"))))
    assert done.returncode == sitting.WRONG_INPUT
    assert "ConfigError" in done.stderr
    run = ArmRun(tmp_path, "qwen-leaderboard", "grpo", 21)
    with pytest.raises(ConfigError, match=r"has no \*\.safetensors"):
        check_arm(run, str(tmp_path), None)
    with pytest.raises(DataError, match="gsm8k"):
        check_arm(run, "some/model", str(tmp_path))


def test_a_claim_holds_for_other_processes_and_ends_with_its_own(trained, tmp_path):
    run = ArmRun(tmp_path, "dry", "grpo", 1)
    run.claim.parent.mkdir(parents=True)
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, 2); print('held', flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(run.claim)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout.readline() == "held\n"
        lane.work_through([run], options())
        assert trained == []
        other.kill()
    lane.work_through([run], options())
    assert trained[0] == f"train {run.name}"


def test_the_engine_gets_every_tensor_of_the_folder_and_forgets_its_cache(tmp_path):
    tensors = {f"layer.{number}": torch.randn(2, 3) for number in range(3)}
    save_file({"layer.0": tensors["layer.0"]}, tmp_path / "model-1.safetensors")
    save_file({name: tensors[name] for name in ("layer.1", "layer.2")}, tmp_path / "model-2.safetensors")
    loaded, resets = {}, []

    def load(weights):
        loaded.update(weights)
        return loaded.keys() & tensors.keys()

    model = types.SimpleNamespace(load_weights=load, named_parameters=lambda: tensors.items())
    runner = types.SimpleNamespace(model=model)
    executor = types.SimpleNamespace(driver_worker=types.SimpleNamespace(model_runner=runner))
    llm = types.SimpleNamespace(
        llm_engine=types.SimpleNamespace(model_executor=executor), reset_prefix_cache=lambda: resets.append(1)
    )
    lane.load_weights(llm, str(tmp_path))
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    assert resets == [1]
    llm.reset_prefix_cache = lambda: False
    with pytest.raises(RuntimeError, match="in its cache"):
        lane.load_weights(llm, str(tmp_path))
    tensors["layer.3"] = torch.zeros(1)
    with pytest.raises(RuntimeError, match=r"lacks 1 of the model's parameters, such as layer\.3"):
        lane.load_weights(llm, str(tmp_path))


def test_trainers_of_the_process_get_the_engine_of_the_lane():
    """What lane.start_engine relies on: TRL creates its engine through this name of this module."""
    source = (Path(trl.__file__).parent / "generation/vllm_generation.py").read_text()
    assert "self.llm = LLM(" in source
    assert "from vllm import LLM" in source
