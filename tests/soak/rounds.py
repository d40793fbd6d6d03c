"""Rounds of a soak test: train, break, resume, and compare with a run that was never interrupted."""

import dataclasses
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.soak import faults
from tests.soak.training import NUM_STEPS, launch

LIMIT = 300.0
"""Seconds until a run counts as hanging."""


@dataclasses.dataclass
class Soak:
    """A folder for the runs, the folder of the model, and what an uninterrupted run ends with."""

    folder: Path
    model: str
    rng: random.Random
    expected: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    num_runs: int = 0

    def train_unbroken(self) -> None:
        """Train twice without an interruption: for what runs must end with, and for how long one takes."""
        for name in ("unbroken", "unbroken-again"):
            start = time.monotonic()
            text = self.finish(self.folder / name)
            result = self.folder / name / "result.json"
            assert result.is_file(), f"The uninterrupted run failed: {text[-2000:]}"
            outcome = json.loads(result.read_text())
            assert self.expected in ({}, outcome), "Two uninterrupted runs differ."
            self.expected, self.seconds = outcome, time.monotonic() - start

    def start(self, run: Path, disk: tuple[int, int] | None = None) -> Any:
        return launch(self.model, run, self.folder / "log", disk)

    def finish(self, run: Path, disk: tuple[int, int] | None = None) -> str:
        """Train until the process ends. Returns what it printed."""
        process = self.start(run, disk)
        process.join(LIMIT)
        if process.is_alive():
            process.kill()
            process.join()
        return (self.folder / "log").read_text()

    def attempt(self, interrupt: "Interruption", fault: faults.Fault) -> str | None:
        """One round in a new folder. Returns what was lost, or None if the run survived."""
        self.num_runs += 1
        run = self.folder / f"run-{self.num_runs}"
        run.mkdir()
        interrupt(self, run)
        damaged = fault(run, self.rng)
        text = self.finish(run)
        if not (run / "result.json").is_file():
            return f"the run did not finish: {text[-2000:]}"
        missing = [name for name in damaged if f"{name} (" not in text]
        if "Traceback" in text or missing:
            return f"damage of {missing} was not reported: {text[-2000:]}"
        result = json.loads((run / "result.json").read_text())
        different = [name for name in self.expected if result[name] != self.expected[name]]
        return f"{', '.join(different)} differ: {text[-2000:]}" if different else None


Interruption = Callable[[Soak, Path], None]
"""Trains a new run until something interrupts it."""


def _wait_and_kill(process: Any, condition: Callable[[], bool], delay: float) -> None:
    deadline = time.monotonic() + LIMIT
    while process.is_alive() and not condition() and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(delay)
    process.kill()
    process.join()


def kill_at_random(soak: Soak, run: Path) -> None:
    """SIGKILL at any moment, also before the first step."""
    _wait_and_kill(soak.start(run), lambda: True, soak.rng.uniform(0, soak.seconds))


def kill_twice(soak: Soak, run: Path) -> None:
    kill_at_random(soak, run)
    kill_at_random(soak, run)


def kill_in_write(soak: Soak, run: Path) -> None:
    """SIGKILL while a checkpoint is incomplete. If it was complete by then, try the next one."""
    for step in range(soak.rng.randint(1, NUM_STEPS - 2), NUM_STEPS + 1):
        checkpoint = run / f"checkpoint-{step}"
        _wait_and_kill(soak.start(run), checkpoint.exists, soak.rng.uniform(0, 0.03))
        if checkpoint.exists() and not (checkpoint / "complete").exists():
            return
    raise AssertionError("No kill came inside the writing of a checkpoint.")


def kill_after_checkpoints(soak: Soak, run: Path) -> None:
    """SIGKILL when there are checkpoints to damage."""
    marker = run / f"checkpoint-{soak.rng.randint(2, NUM_STEPS - 1)}" / "complete"
    _wait_and_kill(soak.start(run), marker.exists, soak.rng.uniform(0, 0.1))


def fill_disk(soak: Soak, run: Path) -> None:
    """A write of a checkpoint fails at a random file."""
    limit = int(10 ** soak.rng.uniform(2, 5))
    text = soak.finish(run, disk=(soak.rng.randint(1, NUM_STEPS - 1), limit))
    assert not (run / "result.json").is_file(), f"The disk was not full at {limit} bytes: {text[-2000:]}"


ROUNDS: dict[str, tuple[Interruption, faults.Fault]] = {
    "SIGKILL at a random moment": (kill_at_random, faults.nothing),
    "SIGKILL twice": (kill_twice, faults.nothing),
    "SIGKILL inside a checkpoint write": (kill_in_write, faults.nothing),
    "newest checkpoint: file truncated": (kill_after_checkpoints, faults.truncate),
    "newest checkpoint: bytes changed, same size": (kill_after_checkpoints, faults.flip),
    "newest checkpoint: file deleted": (kill_after_checkpoints, faults.delete),
    "newest checkpoint: empty marker": (kill_after_checkpoints, faults.empty_marker),
    "every checkpoint damaged": (kill_after_checkpoints, faults.damage_all),
    "disk full during a checkpoint write": (fill_disk, faults.nothing),
    "clock set back": (kill_after_checkpoints, faults.clock_set_back),
    "clock set forward": (kill_after_checkpoints, faults.clock_set_forward),
}


def soak_test(soak: Soak, num_rounds: int) -> Iterator[tuple[str, str | None]]:
    """`num_rounds` rounds of each kind, in turn: the kind, and what was lost."""
    soak.train_unbroken()
    for _ in range(num_rounds):
        for name, (interrupt, fault) in ROUNDS.items():
            yield name, soak.attempt(interrupt, fault)
