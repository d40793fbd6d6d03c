"""A job is one run of one arm in one setting with one seed. Its result is one small JSON file, written at the end.

Under the folder that the runner is given:

    work/<job>/            the run's folder while it is at work; removed when the result is written
    results/<job>.json     what is kept
    logs/<job>.txt         what was said
"""

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from experiments.lab.arms import ARMS, select_arms
from experiments.lab.settings import SETTINGS
from gtpo.errors import ConfigError, require_choice


@dataclasses.dataclass(frozen=True, order=True)
class Job:
    setting: str
    arm: str
    seed: int

    def __post_init__(self) -> None:
        require_choice("setting", self.setting, tuple(SETTINGS))
        require_choice("arm", self.arm, tuple(ARMS))

    @property
    def name(self) -> str:
        return f"{self.setting}_{self.arm}_seed{self.seed}"

    @classmethod
    def parse(cls, name: str) -> "Job":
        """The job of a name.

        >>> Job.parse("comfortable_gamma-0_seed3")
        Job(setting='comfortable', arm='gamma-0', seed=3)
        """
        setting, arm, seed = name.split("_")
        return cls(setting, arm, int(seed.removeprefix("seed")))


def make_jobs(setting: str, arms: str, seeds: str) -> list[Job]:
    """All arms of the first seed, then of the second: what is there when time runs out is paired.

    The untrained policy has no seed of its own and is measured once.

    >>> [job.name for job in make_jobs("smoke", "grpo,gtpo", "1-2")][:3]
    ['smoke_grpo_seed1', 'smoke_gtpo_seed1', 'smoke_grpo_seed2']
    """
    numbers, names = parse_seeds(seeds), select_arms(arms)
    jobs = [Job(setting, arm, seed) for seed in numbers for arm in names if arm != "base"]
    return [*([Job(setting, "base", 1)] if "base" in names else []), *jobs]


def parse_seeds(text: str) -> list[int]:
    """Seeds from ranges with commas.

    >>> parse_seeds("1-3,7")
    [1, 2, 3, 7]
    """
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"seeds must be numbers and ranges such as 1-8,11; got {text!r}.") from error
    return [seed for end in ends for seed in range(end[0], end[-1] + 1)]


class Folder:
    """Where the jobs of a sitting work and leave their results."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def work(self, job: Job) -> Path:
        return self.path / "work" / job.name

    def result(self, job: Job) -> Path:
        return self.path / "results" / f"{job.name}.json"

    def log(self, job: Job) -> Path:
        return self.path / "logs" / f"{job.name}.txt"

    @contextlib.contextmanager
    def lock(self, job: Job) -> Generator[None]:
        """Held while a job is at work: a killed runner's jobs may live on when the next runner starts."""
        path = self.path / "work" / f"{job.name}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def is_done(self, job: Job) -> bool:
        return self.result(job).is_file()


def write_result(path: Path, content: dict[str, Any]) -> None:
    """The whole file or nothing, whenever the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    os.replace(partial, path)
