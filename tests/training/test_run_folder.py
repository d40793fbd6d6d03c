"""Run folders, rewards and models: what is refused before any work is done."""

import asyncio
import hashlib
import inspect
import math
import sys
from dataclasses import replace

import pytest
import torch

from gtpo import ConfigError, DataError
from gtpo.problems import Problem
from gtpo.training.data import problems_digest
from gtpo.training.model import locate_model
from gtpo.training.rewards import find_reward, guarded
from gtpo.training.run_folder import RunFolder


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    RunFolder.create(tmp_path / "run", {"seed": 1}, {"method": "gtpo"})
    with pytest.raises(ConfigError, match="gtpo train --resume"):
        RunFolder.create(tmp_path / "run", {"seed": 2}, {"method": "gtpo"})
    assert RunFolder.open(tmp_path / "run").config() == {"seed": 1}
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="is not empty"):
        RunFolder.create(tmp_path / "theirs", {}, {})
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path):
    with pytest.raises(DataError, match="is not a run"):
        RunFolder.open(tmp_path)


def test_the_summary_grows_and_is_never_half_written(tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    run.write_summary(before={"accuracy": 0.3})
    run.write_summary(seconds=1.0)
    assert run.summary() == {"before": {"accuracy": 0.3}, "seconds": 1.0}
    assert not list(run.path.glob("*.partial"))


BROKEN = {
    "raises": (lambda completions, **k: 1 / 0, r"raised ZeroDivisionError: .* \(test_run\.py, line \d+\)"),
    "too few": (lambda completions, **k: [1.0], "returned 1 scores for 2 completions"),
    "nan": (lambda completions, **k: [1.0, math.nan], "returned nan for completion 1"),
    "infinite": (lambda completions, **k: [math.inf, 1.0], "returned inf for completion 0"),
    "too large for float32": (lambda completions, **k: [1.0, 1e39], r"returned 1e\+39 for completion 1"),
    "an integer beyond floats": (
        lambda completions, **k: [10**5000, 1.0],
        "returned an enormous integer for completion 0",
    ),
    "exits": (lambda completions, **k: sys.exit(0), "raised SystemExit: 0"),
}


@pytest.mark.parametrize(("reward", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_reward_stops_the_run(reward, message):
    with pytest.raises(DataError, match=message):
        guarded(reward)(prompts=["", ""], completions=["a", "b"])


def test_problems_are_told_apart_and_a_run_of_an_earlier_version_goes_on():
    problem = Problem("1+1", "2", "mine")
    written = hashlib.sha256(b"[('1+1', '2', 'mine', '', None, None)]").hexdigest()[:16]
    assert problems_digest([problem]) == written
    digests = [problems_digest([replace(problem, others=others)]) for others in ({"bonus": 1}, {"bonus": 2})]
    assert len({written, *digests}) == 3


def test_a_reward_may_return_a_tensor():
    scores = guarded(lambda completions, **k: torch.tensor([1.0, 0.5]))(completions=["a", "b"])
    assert scores == [1.0, 0.5]
    assert type(scores[0]) is float
    with pytest.raises(DataError, match="raised TypeError: 'float' object is not iterable"):
        guarded(lambda completions, **k: torch.tensor(1.0))(completions=["a", "b"])


def test_a_reward_may_be_awaited():
    async def late(completions, **columns):
        return [1.0] * len(completions)

    async def broken(completions, **columns):
        raise OSError("no answer")

    assert inspect.iscoroutinefunction(guarded(late))
    assert asyncio.run(guarded(late)(completions=["a", "b"])) == [1.0, 1.0]
    with pytest.raises(DataError, match="Reward broken raised OSError: no answer"):
        asyncio.run(guarded(broken)(completions=["a"]))


def test_a_reward_may_abstain():
    assert guarded(lambda completions, **k: [None, 1])(completions=["a", "b"]) == [None, 1]


def test_rewards_are_found_by_name_and_by_path(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def length(completions, **k): return [float(len(c)) for c in completions]")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_reward("mine:length")(completions=["abc"]) == [3.0]
    assert find_reward("mine:length").__name__ == "length"
    assert find_reward("format")(completions=["x"]) == [0.0]
    for name, message in {
        "nice": "There is no reward",
        "mine:width": "cannot be imported",
        "no.such:f": "No module",
    }.items():
        with pytest.raises(ConfigError, match=message):
            find_reward(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [("def f(:", "SyntaxError"), ("1 / 0", "ZeroDivisionError"), ("import sys; sys.exit(3)", "SystemExit: 3")],
)
def test_a_module_that_cannot_be_imported_is_said(text, message, tmp_path, monkeypatch):
    (tmp_path / "broken_rewards.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=rf"Reward 'broken_rewards:f' cannot be imported: {message}"):
        find_reward("broken_rewards:f")


def test_a_module_in_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("def zero(completions, **k): return [0.0] * len(completions)")
    monkeypatch.setattr("sys.path", [path for path in sys.path if path])
    monkeypatch.chdir(tmp_path)
    assert find_reward("beside:zero")(completions=["x"]) == [0.0]


def test_a_folder_that_is_trained_in_is_not_taken_twice(tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    with run.only_trainer(), pytest.raises(ConfigError, match="Another process is training in"), run.only_trainer():
        pass
    with run.only_trainer():  # given back
        pass
    assert not (tmp_path / "run" / "lock").exists()


def test_models_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ConfigError, match="There is no model at"):
        locate_model(str(tmp_path / "nowhere"), tmp_path)
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        locate_model(str(tmp_path), tmp_path)
    with pytest.raises(ConfigError, match="There is no file"):
        locate_model(str(tmp_path / "x.gguf"), tmp_path)
    assert locate_model("Qwen/Qwen2.5-3B-Instruct", tmp_path) == "Qwen/Qwen2.5-3B-Instruct"
