"""Where arms are compared: the settings of the lab, and Qwen on GSM8K, each with its finished runs."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.lab.collect import Record, read_data
from experiments.lab.jobs import Job
from experiments.lab.settings import SETTINGS as LAB_SETTINGS
from experiments.leaderboard.protocol import (
    ARMS,
    OUTCOMES,
    PRIMARY_ARMS,
    PRIMARY_SETTING,
    QWEN_ARMS,
    QWEN_PRIMARY_ARMS,
    QWEN_PROBLEMS,
    QWEN_SEEDS,
    QWEN_SPEC,
    QWEN_STEPS,
    SEEDS,
    SETTINGS,
    lab_jobs,
)
from experiments.present.qwen_data import read_measurements
from experiments.qwen.specs import run_files

QWEN = "Qwen on GSM8K"
QWEN_TITLE = "Qwen2.5-Coder-1.5B-Instruct: 32 prompts × 8 of GSM8K at a learning rate of 2e-6, 50 steps"


@dataclasses.dataclass(frozen=True)
class Result:
    """A finished run: what it reached in each outcome, and the gradient norms of its training."""

    arm: str
    seed: int
    outcomes: Mapping[str, float]
    grad_norms: tuple[float, ...] = ()


class Origin(NamedTuple):
    """Where a run comes from."""

    commit: str
    machine: str
    torch: str


@dataclasses.dataclass(frozen=True)
class Place:
    """Runs that share everything but arm and seed."""

    name: str
    title: str
    results: tuple[Result, ...]
    primary_arms: tuple[str, ...]
    """Those whose pass@8 is primary here."""
    num_seeds: int
    """An arm with fewer pairs of seeds gets no p and no verdict."""
    planned: frozenset[tuple[str, int]]
    """Arm and seed of every run that the protocol names."""
    origins: frozenset[Origin]
    """Those of the runs."""

    @property
    def num_finished(self) -> int:
        """How many of the planned runs are finished."""
        return len(self.planned & {(result.arm, result.seed) for result in self.results})

    @property
    def arms(self) -> list[str]:
        """The arms that have runs, in the order of the protocol."""
        return [arm for arm in ARMS if self.of_arm(arm)]

    def of_arm(self, arm: str) -> list[Result]:
        """The runs of an arm, by seed."""
        return sorted((result for result in self.results if result.arm == arm), key=lambda result: result.seed)


def read_places(data: Path) -> list[Place]:
    """Every place, the primary one first, also those that have no runs yet."""
    records = read_data(data)
    return [*(lab_place(records, setting) for setting in SETTINGS), qwen_place(data / "real")]


def departures(places: Sequence[Place]) -> list[str]:
    """Where the origins of runs break the protocol, a sentence each.

    The protocol asks for one commit in the lab and one on Qwen, and for one kind of machine and one version of torch
    in a place.
    """
    parts = {"in the lab": [place for place in places if place.name != QWEN]}
    parts["on Qwen"] = [place for place in places if place.name == QWEN]
    sentences: list[str] = []
    for where, part in parts.items():
        commits = {origin.commit for place in part for origin in place.origins}
        unclear = [commit for commit in sorted(commits) if commit == "unknown" or commit.endswith("+")]
        sentences += _several(where, "commits", commits)
        sentences += [f"Runs {where} are of commit {commit}, which does not name their code." for commit in unclear]
        for place in part:
            name = where if place.name == QWEN else f"in {place.name}"
            sentences += _several(name, "kinds of machine", {origin.machine for origin in place.origins})
            sentences += _several(name, "versions of torch", {origin.torch for origin in place.origins})
    return sentences


def _several(where: str, what: str, values: set[str]) -> list[str]:
    return [f"The runs {where} come from several {what}: {', '.join(sorted(values))}."] if len(values) > 1 else []


def lab_place(records: Mapping[Job, Record], setting: str) -> Place:
    """A setting of the lab."""
    ours = {job: record for job, record in records.items() if job.setting == setting}
    about = [record.about for record in ours.values()]
    origins = frozenset(Origin(run["commit"], run["device"], run["torch"]) for run in about)
    results = tuple(Result(job.arm, job.seed, record.after, _grad_norms(record.curve)) for job, record in ours.items())
    primary_arms = PRIMARY_ARMS if setting == PRIMARY_SETTING else ()
    planned = frozenset((job.arm, job.seed) for job in lab_jobs() if job.setting == setting)
    return Place(setting, LAB_SETTINGS[setting].title, results, primary_arms, len(SEEDS), planned, origins)


def qwen_place(folder: Path) -> Place:
    """Qwen on GSM8K. A run is finished when it was trained for the steps of the protocol and is evaluated."""
    runs = [json.loads(path.read_text()) for path in run_files(folder, QWEN_SPEC)]
    origins = frozenset(Origin(run["commit"], run["device"], run["versions"]["torch"]) for run in runs)
    norms = {(run["arm"], run["seed"]): _grad_norms(run["curve"]) for run in runs if run["steps"] == QWEN_STEPS}
    results = tuple(
        Result(arm, seed, {name: float(measured.values[name].mean()) for name in OUTCOMES}, norms[arm, seed])
        for (arm, seed, problems), measured in read_measurements(folder, QWEN_SPEC).items()
        if problems == QWEN_PROBLEMS and (arm, seed) in norms
    )
    planned = frozenset((arm, seed) for arm in QWEN_ARMS for seed in QWEN_SEEDS)
    return Place(QWEN, QWEN_TITLE, results, QWEN_PRIMARY_ARMS, len(QWEN_SEEDS), planned, origins)


def _grad_norms(curve: Mapping[str, Sequence[float | None]]) -> tuple[float, ...]:
    return tuple(norm for norm in curve.get("grad_norm", ()) if norm is not None)
