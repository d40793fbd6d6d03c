"""The summary that a run starts with, and what `gtpo train --dry-run` adds to it."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.prepare import prepare
from gtpo.training.run_folder import RunFolder
from gtpo.training.summary import dry_run, method_in_words, summary


def prepared(*options):
    return prepare(make_plan(None, parse_overrides(["--max_problems", "64", *options])))


def test_a_penalty_that_is_too_large_for_the_rewards_gets_a_note():
    binary = ["--rewards", "tests.training.own_rewards:binary"]
    small, unused = ["--entropy_penalty", "0.005"], ["--credit", "balanced"]
    texts = [dry_run(prepared(*options)) for options in ([], binary, [*binary, *small], [*binary, *unused])]
    assert [text.count("these by 1. Try --entropy_penalty 0.005.") for text in texts] == [0, 1, 0, 0]


def test_rewards_that_are_coroutines_are_awaited():
    text = dry_run(prepared("--rewards", "tests.training.own_rewards:awaited"))
    assert "awaited: [0.25, 0.25, 0.25] for right answers" in text


def test_problems_without_an_answer_have_no_right_answer_to_try(tmp_path):
    path, reward = tmp_path / "open.jsonl", "tests.training.own_rewards:awaited"
    unanswered = '{"prompt": "Say hi."}\n' * 20
    path.write_text(unanswered + '{"prompt": "1+1=?", "answer": "2"}\n')
    text = dry_run(prepared("--problems", str(path), "--rewards", reward))
    assert "awaited: [0.25] for right answers, [0.25] for nonsense\n" in text
    assert "awaited gives right answers and nonsense the same score" in text
    path.write_text(unanswered)
    text = dry_run(prepared("--problems", str(path), "--rewards", reward))
    assert "awaited: [0.25, 0.25, 0.25] for nonsense\n" in text
    assert "the same score" not in text


def test_sft_is_described_without_rewards_and_completions():
    text = dry_run(prepared("--method", "sft", "--num_train_epochs", "2"))
    assert "     steps  about 1 (2 epochs), learning rate 0.001" in text
    assert "reward" not in text
    assert "completions" not in text


def test_the_generation_batch_is_that_of_all_processes():
    ready = prepared()
    config = SimpleNamespace(
        **{**vars(ready.plan.config), "generation_batch_size": 16, "num_generations": 4, "world_size": 2}
    )
    text = dry_run(replace(ready, plan=replace(ready.plan, config=config)))
    assert "steps  80, each 4 prompts × 4 completions of at most 96 tokens, learning rate 0.0002" in text
    assert "per generation batch of 16 completions over 2 processes" in text


def test_nothing_is_held_out_from_a_file(tmp_path):
    ready = prepared()
    options = replace(ready.plan.options, problems="mine.jsonl")
    assert "nothing: your data has no test split" in summary(replace(ready, plan=replace(ready.plan, options=options)))


def write_checkpoint(folder, **state):
    """The newest checkpoint of a run as far as the summary reads it: 40 steps of 80 at a rate of 2e-4."""
    checkpoint = folder / "checkpoint-40"
    checkpoint.mkdir(parents=True)
    (checkpoint / "complete").touch()
    (checkpoint / "trainer_state.json").write_text(json.dumps({"max_steps": 80, **state}))
    torch.save({"base_lrs": [2e-4]}, checkpoint / "scheduler.pt")
    return checkpoint


def test_a_resumed_run_states_the_learning_rate_that_applies(tmp_path):
    checkpoint = write_checkpoint(tmp_path)
    run = RunFolder(tmp_path)
    edited = "learning rate 0.0002 (0.01 in config.yaml has no effect on a run that has started)"
    assert edited in summary(prepared("--learning_rate", "0.01"), run)
    assert "learning rate 0.0002, seed" in summary(prepared(), run)
    assert "schedule" not in summary(prepared(), run)
    assert "  resuming  from checkpoint-40 (step 40 of 80)\n" in summary(prepared(), run)
    assert "resuming" not in summary(prepared())
    for name in ("scheduler.pt", "trainer_state.json"):
        (checkpoint / name).write_bytes(b"damaged")
    assert "learning rate 0.01, seed" in summary(prepared("--learning_rate", "0.01", "--max_steps", "160"), run)


@pytest.mark.parametrize(
    ("scheduler", "sentence"),
    {
        "constant": "constant, planned anew over 160 steps instead of 80: after 40 steps, the rate stays at 0.0002",
        "linear": "after 40 steps, the rate changes from 0.0001 to 0.00015 in step 41",
        "cosine": "after 40 steps, the rate changes from 0.0001 to 0.000171 in step 41",
    }.items(),
)
def test_a_longer_run_states_what_its_schedule_does(scheduler, sentence, tmp_path):
    write_checkpoint(tmp_path)
    options = ["--max_steps", "160", "--lr_scheduler_type", scheduler, "--warmup_steps", "0"]
    assert sentence in summary(prepared(*options), RunFolder(tmp_path))


def test_lora_and_a_grader_other_than_the_default_are_in_the_summary():
    lora = ["--use_peft", "true", "--lora_r", "8", "--lora_target_modules", "q_proj", "v_proj"]
    text = summary(prepared(*lora, "--grader", "boxed"))
    assert "  model  lab with LoRA r 8, alpha 32, on q_proj, v_proj\n" in text
    assert "before and after, graded by boxed\n" in text
    text = summary(prepared())
    assert "  model  lab\n" in text
    assert "graded" not in text


def test_a_dry_run_notes_a_folder_that_is_taken_and_rounds_rewards(tmp_path):
    (tmp_path / "file").touch()
    words = ["--output_dir", str(tmp_path), "--rewards", "tests.training.own_rewards:uneven"]
    ready = prepared(*words)
    text = dry_run(ready)
    assert f"note  {tmp_path} is not empty, so the run will be refused" in text
    assert "uneven: [0.8675, 0.8675, 0.8675] for right answers, [None, None, None] for nonsense" in text
    assert "is not empty" not in dry_run(ready, RunFolder(tmp_path))


def test_a_resumed_run_is_not_told_to_set_a_held_out_set(tmp_path):
    ready = prepared()
    ready = replace(ready, plan=replace(ready.plan, options=replace(ready.plan.options, problems="mine.jsonl")))
    assert "  held out  nothing\n" in summary(ready, RunFolder(tmp_path))
    (tmp_path / "held_out/before").mkdir(parents=True)
    assert "nothing more: config.yaml names no held-out set" in summary(ready, RunFolder(tmp_path))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "GTPO (arXiv:2508.03772), λ = 2 / 0 (both), filter at 0.693 nats (auto), γ = 0.1"),
        (["--method", "grpo"], "GRPO, β = 0"),
        (["--credit", "balanced"], "GRPO with balanced credit"),
        (["--credit", "negative", "--credit_parameters", "{}"], "GRPO with negative credit"),
    ],
)
def test_the_method_is_described_with_its_parts(options, words, tmp_path):
    plan = make_plan(None, parse_overrides([*options, "--output_dir", str(tmp_path)]))
    assert method_in_words(plan.options.method, plan.config) == words
