"""The card of a model carries the numbers of its run, and no name can break it."""

import json
from dataclasses import replace

import pytest
import yaml

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.prepare import prepare
from gtpo.training.publish.card import model_card, write_card
from gtpo.training.run_folder import RunFolder

HOSTILE = "x`|\n---\n# <script>alert(1)</script>\u202e"
MEASURED = {"problems": "gsm8k", "num_problems": 64, "num_samples": 2, "temperature": 0.9}


@pytest.fixture(scope="module")
def ready():
    words = "--max_problems 64 --rewards format,correctness --reward_weights 1 0.5 --seed 7"
    return prepare(make_plan(None, parse_overrides(words.split())))


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "my run", {}, {})
    before = {**MEASURED, "accuracy": 0.25, "format": 0.5, "intervals": {"accuracy": [0.125, 0.375]}}
    after = {**MEASURED, "accuracy": 0.75, "format": 1.0, "intervals": {"accuracy": [0.625, 0.875], "format": [1, 1]}}
    run.write_summary(before=before, after=after, steps=40, max_steps=80)
    rows = [{"step": step, "reward": 0.5 if step < 30 else 0.0} for step in range(1, 41)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def with_names(ready, **names):
    return replace(ready, plan=replace(ready.plan, options=replace(ready.plan.options, **names)))


def front_matter(card):
    assert card.startswith("---\n")
    return yaml.safe_load(card.split("\n---\n")[0])


def test_a_card_carries_the_numbers_the_method_the_seed_and_the_verdict(ready, run):
    card = model_card(ready, run)
    for words in (
        "# my run\n",
        "| accuracy | 25.0 % (12.5 to 37.5) | 75.0 % (62.5 to 87.5) |",
        "| format | 50.0 % | 100.0 % (100.0 to 100.0) |",
        "64 problems × 2, temperature 0.9), with 95 % intervals",
        "| method | `GTPO (arXiv:2508.03772), λ = 2 / 0 (both)",
        "| seed | 7 |",
        "| steps | 40 of 80 |",
        "| rewards | `format` × 1, `correctness` × 0.5 |",
        "| health | `collapsing: the reward fell from 0.5 at its best to 0",
        "trl `1.",
    ):
        assert words in card
    assert front_matter(card)["tags"] == ["gtpo", "trl", "reinforcement-learning"]
    assert "base_model" not in front_matter(card)  # the lab's is not on the hub


def test_a_card_names_the_grader_and_the_adapter(ready, run, monkeypatch):
    run.write_summary(after={**run.summary()["after"], "grader": "mine:is_right"})
    monkeypatch.setattr(ready.plan.model_config, "use_peft", True)
    run.model.mkdir()
    (run.model / "adapter_config.json").write_text(
        '{"r": 3, "lora_alpha": 6}'
    )  # of an adapter that was trained further
    card = model_card(ready, run)
    assert "Accuracy is pass@1, graded by `mine:is_right`." in card
    assert "| LoRA | rank 3, α 6 |" in card


def test_a_card_of_another_credit_scheme_does_not_name_gtpo(ready, run, monkeypatch):
    monkeypatch.setattr(ready.plan.config, "credit", "balanced")
    card = model_card(ready, run)
    assert front_matter(card)["tags"] == ["grpo", "trl", "reinforcement-learning"]
    assert "arXiv:2508.03772" not in card


def test_models_and_problems_of_the_hub_are_linked(ready, run):
    hub = replace(with_names(ready, model="Qwen/Qwen2.5-0.5B", problems="gsm8k"), model="Qwen/Qwen2.5-0.5B")
    metadata = front_matter(model_card(hub, run))
    assert (metadata["base_model"], metadata["datasets"]) == ("Qwen/Qwen2.5-0.5B", ["openai/gsm8k"])
    assert (metadata["base_model_relation"], metadata["library_name"]) == ("finetune", "transformers")


def test_no_name_can_break_the_card_and_no_folder_of_this_machine_is_in_it(ready, run, tmp_path):
    mine = str(tmp_path / f"{HOSTILE.replace('/', '')}.jsonl")
    named = with_names(ready, model=HOSTILE, problems=mine, rewards=(HOSTILE, "a"), system_prompt="```\n<b>")
    card = model_card(named, run)
    assert front_matter(card) == front_matter(model_card(ready, run))
    assert card.count("\n---\n") == 1
    assert str(tmp_path) not in card
    assert "\u202e" not in card
    for line in card.splitlines():
        assert "<script>" not in line or line.startswith(("Trained from `", "| problems | `", "| rewards | `"))
    assert "\n````\n```\n<b>\n````\n" in card  # a longer fence


def test_a_damaged_summary_leaves_out_what_is_not_a_number(ready, run):
    run.write_summary(before={"accuracy": "many", "format": 0.5, "intervals": {"format": [None, 1]}})
    card = model_card(ready, run)
    assert "| accuracy | – | 75.0 %" in card
    assert "| format | 50.0 % | 100.0 %" in card
    run.write_summary(before=None)
    assert "## Results" not in model_card(ready, run)


def test_the_folder_of_the_model_has_no_pickle(ready, run):
    run.model.mkdir()
    (run.model / "training_args.bin").write_bytes(b"pickle")
    write_card(ready, run)
    assert [path.name for path in run.model.iterdir()] == ["README.md"]
