"""The plan that `gtpo train --dry-run` prints."""

from types import SimpleNamespace

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.dry_run import _batch, describe
from gtpo.training.prepare import prepare


def plan_for(*options):
    words = ["--max_problems", "64", *options]
    return describe(prepare(make_plan(None, parse_overrides(words))))


def test_a_penalty_that_is_too_large_for_the_rewards_gets_a_note():
    binary = ["--rewards", "tests.training.own_rewards:binary"]
    texts = [plan_for(*options) for options in ([], binary, [*binary, "--entropy_penalty", "0.005"])]
    assert [text.count("these differ by 1. Try --entropy_penalty 0.005.") for text in texts] == [0, 1, 0]


def test_rewards_that_are_coroutines_are_awaited():
    plan = plan_for("--rewards", "tests.training.own_rewards:awaited")
    assert "awaited: [0.25, 0.25, 0.25] for right answers" in plan


def test_sft_is_described_without_rewards_and_batches_of_completions():
    plan = plan_for("--method", "sft", "--num_train_epochs", "2")
    assert "steps       about 1 (2 epochs)" in plan
    assert "reward" not in plan
    assert "completions" not in plan


def test_the_generation_batch_is_that_of_all_processes():
    config = SimpleNamespace(generation_batch_size=16, max_completion_length=40, world_size=2, num_generations=4)
    tokens, batch = _batch(config, 10)
    assert "at most 800 per generation batch of 16 over 2 processes" in tokens
    assert "4 prompts × 4 completions of at most 40 tokens" in batch
