"""The summary that a run starts with, and what `gtpo train --dry-run` adds to it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.prepare import prepare
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
    assert "nothing: a file has no test split" in summary(replace(ready, plan=replace(ready.plan, options=options)))


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
