"""Rewards by name, and what is refused of a reward."""

import asyncio
import inspect
import math
import sys

import pytest
import torch

from gtpo import ConfigError, DataError
from gtpo.training.inputs.rewards import find_reward, guarded


def without_columns(completions):
    return [1.0] * len(completions)


def with_a_missing_column(completions, bonus, **columns):
    return [1.0] * len(completions)


BROKEN = {
    "raises": (
        lambda completions, **k: 1 / 0,
        r"raised ZeroDivisionError: .* \(test_rewards\.py, line \d+\)\. Fix it, .* or resume the run",
    ),
    "exits": (lambda completions, **k: sys.exit(0), "raised SystemExit: 0"),
    "takes no columns": (without_columns, "It gets prompts, completions and every column"),
    "takes a column that does not exist": (with_a_missing_column, "missing .* 'bonus'. It gets prompts, completions"),
    "returns nothing": (lambda completions, **k: None, "returned None. Return a list"),
    "returns too few": (lambda completions, **k: [1.0], r"returned 1 scores for 2 completions\. Return one each"),
    "returns words": (lambda completions, **k: ["much"] * 2, "returned 'much' for completion 0"),
    "returns nan": (lambda completions, **k: [1.0, math.nan], "returned nan for completion 1"),
    "returns infinity": (lambda completions, **k: [math.inf, 1.0], "returned inf for completion 0"),
    "is too large for float32": (lambda completions, **k: [1.0, 1e39], r"returned 1e\+39 for completion 1"),
    "returns one number": (lambda completions, **k: torch.tensor(1.0), "returned 1.0. Return a list"),
}


@pytest.mark.parametrize(("reward", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_reward_stops_the_run(reward, message):
    with pytest.raises(DataError, match=message):
        guarded(reward)(prompts=["", ""], completions=["a", "b"])


def test_a_reward_may_return_a_tensor():
    scores = guarded(lambda completions, **k: torch.tensor([1.0, 0.5]))(completions=["a", "b"])
    assert scores == [1.0, 0.5]
    assert type(scores[0]) is float


def test_a_reward_that_is_an_object_keeps_its_spans():
    class Judge:
        def __call__(self, completions, **columns):
            return [1.0] * len(completions)

        def spans(self, completion):
            return [(0, 1)]

    assert guarded(Judge()).spans("ab") == [(0, 1)]


def test_a_reward_may_abstain():
    assert guarded(lambda completions, **k: [None, 1])(completions=["a", "b"]) == [None, 1]


def test_a_reward_may_be_a_coroutine():
    async def slow(completions, **columns):
        return [1.0] * len(completions)

    async def broken(completions, **columns):
        raise OSError("no answer")

    assert inspect.iscoroutinefunction(guarded(slow))
    assert asyncio.run(guarded(slow)(completions=["a", "b"])) == [1.0, 1.0]
    with pytest.raises(DataError, match="Reward broken raised OSError: no answer"):
        asyncio.run(guarded(broken)(completions=["a"]))


def test_rewards_are_found_by_name_and_by_path(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def length(completions, **k): return [float(len(c)) for c in completions]")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_reward("mine:length")(completions=["abc"]) == [3.0]
    assert find_reward("mine:length").__name__ == "length"
    assert find_reward("format")(completions=["x"]) == [0.0]
    for name, message in {
        "nice": "There is no reward 'nice'",
        "mine:width": "cannot be imported.*Check the name",
        "mine:lenght": "cannot be imported.*Did you mean mine:length\\?",
        "mine:__name__": "is of type str, not a function",
        "no.such:f": "No module",
        "nowhere:format": "No module.*Check the name",
    }.items():
        with pytest.raises(ConfigError, match=message):
            find_reward(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [("def f(:", "SyntaxError"), ("1 / 0", "ZeroDivisionError"), ("import sys; sys.exit(3)", "SystemExit: 3")],
)
def test_a_module_that_cannot_be_imported_is_named(text, message, tmp_path, monkeypatch):
    (tmp_path / "broken_rewards.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=rf"Reward 'broken_rewards:f' cannot be imported: {message}.*Fix the module"):
        find_reward("broken_rewards:f")


def test_a_module_in_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "rewards_here.py").write_text("def zero(completions, **k): return [0.0] * len(completions)")
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    monkeypatch.chdir(tmp_path)
    assert find_reward("rewards_here:zero")(completions=["x"]) == [0.0]
