"""A job is one run of one arm in one setting with one seed. Its result is one small JSON file, written at the end.

Under the output folder:

    work/<job>/            the folder of the run while it trains; removed when the result is written
    results/<job>.json     the result
    logs/<job>.txt         the output of the job
"""

import contextlib
import dataclasses
import fcntl
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

from experiments.lab.arms import ARMS, select_arms
from experiments.lab.settings import SETTINGS
from gtpo.errors import ConfigError, require_choice
from gtpo.files import write_atomic


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
        """The job with this name.

        >>> Job.parse("comfortable_gamma-0_seed3")
        Job(setting='comfortable', arm='gamma-0', seed=3)
        """
        setting, arm, seed = name.split("_")
        return cls(setting, arm, int(seed.removeprefix("seed")))


def make_jobs(setting: str, arms: str, seeds: str) -> list[Job]:
    """All arms of the first seed, then of the second, so that finished jobs are paired whenever the runner stops.

    The untrained policy has no seed of its own and is measured once.

    >>> [job.name for job in make_jobs("smoke", "grpo,gtpo", "1-2")][:3]
    ['smoke_grpo_seed1', 'smoke_gtpo_seed1', 'smoke_grpo_seed2']
    """
    numbers, names = parse_seeds(seeds), select_arms(arms)
    jobs = [Job(setting, arm, seed) for seed in numbers for arm in names if arm != "base"]
    return [*([Job(setting, "base", 1)] if "base" in names else []), *jobs]


def parse_seeds(text: str) -> list[int]:
    """Seeds from comma-separated numbers and ranges.

    >>> parse_seeds("1-3,7")
    [1, 2, 3, 7]
    """
    try:
        ranges = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"seeds must be numbers and ranges such as 1-8,11; got {text!r}.") from error
    return [seed for ends in ranges for seed in range(ends[0], ends[-1] + 1)]


class JobFolder:
    """The output folder: where jobs work and leave their results."""

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
        """Hold the lock of a job while it runs: jobs can outlive a killed runner."""
        path = self.path / "work" / f"{job.name}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def is_done(self, job: Job) -> bool:
        return self.result(job).is_file()


def write_result(path: Path, content: dict[str, Any]) -> None:
    """Write a result file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(content, separators=(",", ":")) + "\n")
