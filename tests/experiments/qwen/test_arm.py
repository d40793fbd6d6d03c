"""An arm of the real model is trained and evaluated end to end, here on the lab."""

import gc
import json

import pytest
from transformers import PreTrainedModel

from experiments.lab.arms import ARMS, GROUPS
from experiments.present.qwen_data import read_measurements, read_runs
from experiments.qwen.arm import evaluate_arm, main, train_arm
from experiments.qwen.lane import engine_for
from experiments.qwen.specs import SPECS, ArmRun, arm_options
from gtpo.errors import ConfigError
from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import Setting
from trl import GRPOConfig


def config_of(spec, arm):
    spec = SPECS[spec]
    options = {**spec.options, **({} if arm == "sft" else spec.rl_options), **arm_options(spec, arm)}
    options |= {"use_cpu": True, "output_dir": "runs/nowhere"}
    return make_plan(spec.recipe, {name: Setting(value, "test") for name, value in options.items()}).config


@pytest.mark.parametrize("arm", ["grpo", "grpo-kl", "gtpo", "sft"])
def test_the_recipe_accepts_the_options_of_every_arm(arm):
    config = config_of("qwen", arm)
    batch = config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert (batch, config.max_steps) == (256, 100)  # 32 prompts × 8
    if arm != "sft":
        assert (config.num_generations, config.max_completion_length, config.temperature) == (8, 300, 1.0)
        assert config.learning_rate == 2e-6
    if arm.startswith("grpo"):
        parts = (config.conflict_edges, config.entropy_filter, config.entropy_penalty, config.beta)
        assert parts == ("none", "off", 0.0, 1e-6 if arm == "grpo-kl" else 0.0)


@pytest.mark.parametrize("spec", ["qwen-leaderboard", "qwen-math"])
@pytest.mark.parametrize("arm", [arm for arm in GROUPS["credit"] if arm != "base"])
def test_every_arm_of_the_leaderboard_trains_50_steps_of_32_prompts(spec, arm):
    config = config_of(spec, arm)
    batch = config.per_device_train_batch_size * config.gradient_accumulation_steps
    assert (batch, config.num_generations, config.max_steps) == (256, 8, 50)
    if ARMS[arm].method == "gtpo":
        assert config.choose_credit().name == ARMS[arm].options.get("credit", "gtpo")
    assert config.loss_type == ("dr_grpo" if arm == "dr-grpo" else "grpo")
    if ARMS[arm].method == "grpo":  # the protocol names TRL's own config; entropies of MATH are to be compared
        assert (type(config) is GRPOConfig) == (spec == "qwen-leaderboard")


def test_a_new_attempt_keeps_nothing_of_the_last_one(tmp_path):
    run = ArmRun(tmp_path, "dry", "gtpo", 1)
    left = [run.curve, run.result(run.tasks[0]), run.samples(run.tasks[1]), run.work / "metrics.jsonl"]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of other weights")
    run.remove()
    assert not any(path.exists() for path in left)


def num_models():
    gc.collect()
    return sum(issubclass(type(thing), PreTrainedModel) for thing in gc.get_objects())


def test_an_arm_is_trained_and_evaluated_and_its_results_can_be_read(tmp_path):
    run, before = ArmRun(tmp_path, "dry", "gtpo", 5), num_models()
    assert not run.is_trained
    assert train_arm(run, "lab", None, steps=2) == 0
    assert run.is_trained
    assert num_models() == before  # the next run of the process has the memory
    other = ArmRun(tmp_path, "dry", "grpo", 5)
    assert train_arm(other, "lab", None, steps=1) == 0
    assert json.loads(other.curve.read_text())["steps"] == 1
    other.curve.unlink()
    assert evaluate_arm(run, engine_for(run, "lab", None), None) == 0
    assert run.is_evaluated
    (trained,) = read_runs(tmp_path / "results", "dry")
    assert (trained.method, trained.seed, trained.num_steps) == ("gtpo", 5, 2)
    measured = read_measurements(tmp_path / "results", "dry")
    assert list(measured) == [("gtpo", 5, name) for name in ("lab-at-1.2", "lab-greedy", "lab")]
    warm, greedy, sampled = measured.values()
    assert sampled.num_problems == greedy.num_problems == 4
    assert {"pass@1", "pass@2", "maj@2", "format_rate", "common_beginning", "copied"} <= set(sampled.values)
    assert {"pass@1", "format_rate"} <= set(greedy.values)
    assert [task.header["settings"]["temperature"] for task in (warm, greedy, sampled)] == [1.2, 0.0, 0.9]
    result = run.result(SPECS["dry"].tasks[0])
    graded = result.read_bytes()
    result.unlink()
    assert main(["dry", "gtpo", "5", "--out", str(tmp_path)]) == 0  # the samples are enough
    assert result.read_bytes() == graded


def test_a_task_with_a_result_is_not_evaluated_again(tmp_path):
    run = ArmRun(tmp_path, "dry", "base", 1)
    for task in run.tasks:
        run.result(task).parent.mkdir(parents=True, exist_ok=True)
        run.result(task).write_text("kept")
    assert evaluate_arm(run, engine_for(run, "lab", None), None) == 0
    assert {run.result(task).read_text() for task in run.tasks} == {"kept"}


def test_unfinished_samples_are_not_graded(tmp_path):
    run = ArmRun(tmp_path, "dry", "gtpo", 1)
    settings = {"num_samples": 2, "temperature": 0.9, "top_p": 1.0, "max_new_tokens": 9, "seed": 0}
    problems = {"name": "lab", "count": 4, "sha256": "0"}
    header = {"gtpo_samples": 1, "model": "m", "engine": {}, "problems": problems, "settings": settings}
    sample = {"problem": 0, "sample": 0, "gold": "1", "text": "", "num_tokens": 1, "truncated": False, "entropy": None}
    path = run.samples(SPECS["dry"].tasks[0])
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, sample)))
    with pytest.raises(ConfigError, match="samples of lab"):
        main(["dry", "gtpo", "1", "--out", str(tmp_path)])
