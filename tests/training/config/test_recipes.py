"""Every recipe in the repository resolves through the real configuration classes, for every method."""

import json
import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest
from accelerate.commands.config.config_args import load_config_from_file

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import Setting
from gtpo.training.config.settings import LAB_RECIPE

RECIPES = Path(__file__).parents[3] / "recipes"
FILES = sorted(path for path in RECIPES.rglob("*.yaml") if path.name in ("config.yaml", "g12.yaml"))


@pytest.mark.parametrize("method", ["gtpo", "grpo", "sft"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RECIPES)))
def test_a_recipe_resolves(path, method):
    plan = make_plan(path, {"method": Setting(method, "command line")})
    assert plan.options.method == method
    assert (path.parent / "README.md").is_file()
    if method != "sft":
        assert plan.config.generation_batch_size % plan.config.num_generations == 0


@pytest.mark.parametrize(("name", "kind"), [("ddp", "MULTI_GPU"), ("fsdp2", "FSDP"), ("zero3", "DEEPSPEED")])
def test_accelerate_loads_its_files(name, kind):
    config = load_config_from_file(str(RECIPES / "multi-gpu" / f"{name}.yaml"))
    assert (str(config.distributed_type.value), config.num_processes, config.mixed_precision) == (kind, 8, "bf16")
    if kind == "FSDP":
        assert config.fsdp_config["fsdp_version"] == 2
    if kind == "DEEPSPEED":
        assert config.deepspeed_config["zero_stage"] == 3


@pytest.mark.parametrize("recipe", ["multi-gpu", "qwen2.5-1.5b-gsm8k"])
def test_recipes_for_several_gpus_split_no_group(recipe):
    config = make_plan(RECIPES / recipe / "config.yaml", {}).config
    assert config.per_device_train_batch_size % config.num_generations == 0


def test_the_papers_settings_reach_the_configuration():
    plan = make_plan(RECIPES / "qwen2.5-3b-math" / "g12.yaml", {})
    assert (plan.options.model, plan.options.problems) == ("Qwen/Qwen2.5-3B-Instruct", "math")
    config, model = plan.config, plan.model_config
    assert (config.num_generations, config.generation_batch_size) == (12, 12)  # one prompt a step
    assert (config.learning_rate, config.temperature, config.max_completion_length) == (1e-6, 0.9, 1500)
    assert (config.weight_decay, config.max_grad_norm, config.adam_beta1) == (0.1, 0.1, 0.999999)
    assert (model.lora_r, model.lora_alpha, model.load_in_4bit) == (128, 128, True)
    assert len(model.lora_target_modules) == 7
    assert (config.entropy_penalty, config.loss_type, config.scale_rewards, config.beta) == (0.1, "grpo", "none", 0.0)


def test_methods_differ_where_they_must():
    plans = {
        m: make_plan(RECIPES / "qwen2.5-3b-math" / "config.yaml", {"method": Setting(m, "x")}) for m in ("grpo", "sft")
    }
    assert type(plans["grpo"].config).__name__ == "GRPOConfig"
    assert (plans["grpo"].config.loss_type, plans["grpo"].config.scale_rewards) == ("grpo", "none")
    assert (plans["sft"].config.learning_rate, plans["sft"].config.num_train_epochs) == (2e-5, 3)


def test_the_lab_is_trained_without_a_recipe():
    assert make_plan(None, {}).options.model == "lab"
    assert LAB_RECIPE.is_file()


def test_verl_gets_prompts_with_answers_and_rewards_right_ones(tmp_path, monkeypatch):
    row = {"question": "How many eggs are 2 + 3 eggs?", "answer": "2 + 3 = 5\n#### 5"}
    for split in ("train", "test"):
        (tmp_path / f"gsm8k_{split}.jsonl").write_text(json.dumps(row) + "\n")
    monkeypatch.setenv("GTPO_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["prepare.py", "gsm8k", str(tmp_path)])
    runpy.run_path(str(RECIPES / "verl" / "prepare.py"), run_name="__main__")
    (prompt,) = pd.read_parquet(tmp_path / "train.parquet").to_dict("records")
    assert prompt["prompt"][-1] == {"role": "user", "content": row["question"]}
    compute_score = runpy.run_path(str(RECIPES / "verl" / "reward.py"))["compute_score"]
    answers = ["<reasoning>3 more</reasoning><answer>5</answer>", "<reasoning>.</reasoning><answer>6</answer>", "5"]
    gold = prompt["reward_model"]["ground_truth"]
    assert [compute_score(prompt["data_source"], text, gold) for text in answers] == [20.0, 10.0, 0.0]
    eggs = "<reasoning>.</reasoning><answer>5 eggs</answer>"
    assert compute_score(prompt["data_source"], eggs, gold) == 10.0
    assert compute_score(prompt["data_source"], eggs, gold, extra_info=prompt["extra_info"]) == 20.0
    assert "algorithm.adv_estimator=gtpo" in (RECIPES / "verl" / "run.sh").read_text()
