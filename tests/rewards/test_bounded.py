"""A bounded reward that hangs or dies costs one row, and its workers end with the process that asks."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gtpo.errors import ConfigError, DataError, GradingError
from gtpo.rewards import bounded
from tests.rewards import own_bounded


def test_a_completion_that_hangs_or_kills_the_worker_costs_one_row(caplog: pytest.LogCaptureFixture):
    completions = ["sleeps", "a", "loops", "exits", "bb", "faults", "grows", "ccc"]
    logged: dict[str, float] = {}
    with caplog.at_level(logging.WARNING):
        scores = own_bounded.misbehaving(
            completions, extra=list(range(8)), trainer_state=object(), log_metric=logged.__setitem__
        )
    assert scores == [None, 2.0, None, None, 6.0, None, None, 10.0]
    assert "misbehaving failed for 5 of 8 completions (2 timeouts, 3 crashes)" in caplog.text
    assert logged == {"rewards/timeouts": 2.0, "rewards/crashes": 3.0}


def test_an_exception_a_wrong_result_and_a_column_that_is_not_json_stop_the_run():
    with pytest.raises(DataError, match=r"misbehaving raised ValueError: no such thing \(own_bounded\.py, line \d+\)"):
        own_bounded.misbehaving(["a", "raises"])
    with pytest.raises(DataError, match=r"raised JSONDecodeError: .* \(own_bounded\.py, line \d+\)\. Fix it"):
        own_bounded.misbehaving(["misuses a library"])
    with pytest.raises(DataError, match=r"misbehaving returned \[\] for completion 0.*return a list with one score"):
        own_bounded.misbehaving(["forgets"])
    with pytest.raises(DataError, match="does not fit into JSON"):
        own_bounded.misbehaving(["a"], extra=[object()])


def test_a_reward_that_always_dies_stops_the_run_before_the_batch_is_complete(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gtpo.rewards.grading.grader._MIN_FAILURES", 6)
    monkeypatch.setattr("gtpo.rewards.grading.grader._WINDOW", 64)
    monkeypatch.setattr(sys.modules["gtpo.rewards.bounded"], "_CHECK_CALLS", 2)
    assert own_bounded.never(["a"] * 4) == [None] * 4
    with pytest.raises(GradingError, match="never timed out or crashed for more than 10% of the last 6 completions"):
        own_bounded.never(["a"] * 20)


def test_batches_keep_their_order_and_an_exception_stops_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sys.modules["gtpo.rewards.bounded"], "_CHECK_CALLS", 2)
    assert own_bounded.misbehaving(["a", "bb", "a", "bb", "ccc"]) == [1.0, 2.0, 1.0, 2.0, 3.0]
    with pytest.raises(DataError, match="for completion 2"):
        own_bounded.misbehaving(["a", "a", "forgets"])
    paths = [str(tmp_path / name) for name in "abc"]
    with pytest.raises(DataError, match="no such thing"):
        own_bounded.writing(["raises", "a", "a"], path=paths)
    assert os.listdir(tmp_path) == ["b"]


def test_a_worker_starts_no_workers():
    assert own_bounded.length(["ccc"]) == [6.0]  # doubled once, not in the worker, too
    assert own_bounded.calling(["a"]) == [1.0]


def test_functions_that_a_worker_cannot_import_are_refused():
    with pytest.raises(ConfigError, match="at the top level of a module"):
        bounded()(lambda completions: completions)

    async def later(completions):
        return completions

    with pytest.raises(ConfigError, match="at the top level of a module"):
        bounded()(later)
    with pytest.raises(ConfigError, match="at the top level of a module"):
        bounded()(InClass.score)
    script = "from gtpo.rewards import bounded\n@bounded()\ndef f(completions): return [1.0]"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "f is defined in the script or notebook itself" in result.stderr


class InClass:
    @staticmethod
    def score(completions):
        return completions


def test_a_worker_and_its_children_end_when_the_parent_is_killed(tmp_path: Path):
    ids = tmp_path / "ids"
    script = f"from tests.rewards.own_bounded import spawning; spawning(['a'], path=[{str(ids)!r}])"
    parent = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (ids.exists() and len(ids.read_text().split()) == 2):
        time.sleep(0.05)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    pids = [int(word) for word in ids.read_text().split()]
    while time.monotonic() < deadline and any(map(is_running, pids)):
        time.sleep(0.05)
    assert not any(map(is_running, pids))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
