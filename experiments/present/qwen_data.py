"""The results of the real model in experiments/data/real, and comparisons between its arms.

<spec>_<arm>_seed<n>.json                a run: where it ran, and its curve
<spec>_<arm>_seed<n>_on_<problems>.json  an evaluation: every metric of every problem (<problems>-greedy: one answer;
                                         <problems>-at-<t>: at another temperature)
<spec>_<arm>_seed<n>_groups.jsonl        a recorded group, for the token view in docs/results/mechanism.md
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lab.arms import ARMS
from experiments.lab.collect import DATA, rows_of
from experiments.qwen.specs import run_files
from gtpo.compare import Comparison, compare_evaluations, compare_runs, compare_values
from gtpo.evaluation.metrics import Measurement
from gtpo.runs.run import Run

REAL = DATA / "real"
ORDER = ("gsm8k", "gsm8k-greedy", "gsm8k-at-1.2", "math500", "amc23", "aime24", "aime25")
CONTESTS = (
    ("gtpo", "grpo"),
    ("gtpo", "grpo-kl"),
    ("gtpo", "sft"),
    ("protect", "grpo"),
    ("protect", "grpo-kl"),
    ("protect", "gtpo"),
    ("grpo-kl", "grpo"),
)
"""Arms that are compared. β = 1e-6 changes next to nothing, so the last pair shows how much two runs differ."""
METRICS = ("pass@1", "pass@4", "pass@8", "pass@32", "maj@4", "maj@8", "maj@32", "format_rate")

Measured = dict[tuple[str, int, str], Measurement]
"""Evaluations by arm, seed and problem set."""


def read_runs(folder: Path = REAL, spec: str = "qwen") -> list[Run]:
    """Every trained run, as a Run for `gtpo compare` and the figures."""
    runs: list[Run] = []
    for path in run_files(folder, spec):
        content = json.loads(path.read_text())
        rows = rows_of(content["curve"])
        notes = [name for name in (content.get("device"), *_versions(content)) if name]
        after = {"minutes": content.get("seconds", 0.0) / 60}
        runs.append(Run(folder, path.stem, content["arm"], content["seed"], rows, after, notes))
    return runs


def _versions(content: Mapping[str, Any]) -> list[str]:
    versions = [f"{name} {version}" for name, version in content.get("versions", {}).items()]
    return [f"commit {content['commit']}", *versions] if "commit" in content else versions


def read_measurements(folder: Path = REAL, spec: str = "qwen") -> Measured:
    """Every evaluation by arm, seed and problem set."""
    measured: Measured = {}
    for path in sorted(folder.glob(f"{spec}_*_on_*.json")):
        content = json.loads(path.read_text())
        header, values = content["header"], {name: np.array(column) for name, column in content["values"].items()}
        key = content["arm"], content["seed"], path.stem.partition("_on_")[2]
        measured[key] = Measurement(ARMS[key[0]].title, key[2], header, values)
    return measured


def over_seeds(measured: Mapping[Any, Measurement], arm: str, problems: str) -> Measurement | None:
    """Every value of every problem, averaged over the seeds of an arm."""
    measurements = of_arm_on(measured, arm, problems)
    if not measurements:
        return None
    names = [
        name for name in measurements[0].values if all(name in measurement.values for measurement in measurements)
    ]
    values = {name: np.mean([measurement.values[name] for measurement in measurements], axis=0) for name in names}
    return Measurement(ARMS[arm].title, problems, measurements[0].header, values)


def of_arm_on(measured: Mapping[Any, Measurement], arm: str, problems: str) -> list[Measurement]:
    return [
        measurement
        for (name, _, problem_set), measurement in measured.items()
        if (name, problem_set) == (arm, problems)
    ]


def means_over_seeds(measured: Measured, problems: str) -> dict[str, Measurement]:
    """The mean over seeds of each arm, by its title and number of seeds."""
    means: dict[str, Measurement] = {}
    for arm in arms_of(measured):
        mean = over_seeds(measured, arm, problems)
        if mean is not None:
            means[f"{mean.model} ({len(of_arm_on(measured, arm, problems))})"] = mean
    return means


def arms_of(measured: Measured) -> list[str]:
    return [arm for arm in ARMS if any(key[0] == arm for key in measured)]


def sets_of(measured: Measured) -> list[str]:
    return [name for name in ORDER if any(key[2] == name for key in measured)]


def comparisons(measured: Measured, first: str, second: str) -> list[Comparison]:
    """Compare an arm with another in every metric, on the problem sets that both were evaluated on.

    Two RL arms saw the same prompts in each seed and trained for as many steps, so they are compared over the seeds
    that both have on a problem set. Against SFT, every seed counts.
    """
    sides = [
        {key[1:]: measurement for key, measurement in measured.items() if key[0] == name} for name in (first, second)
    ]
    if ARMS[second].method != "sft":
        shared = sides[0].keys() & sides[1].keys()
        sides = [{key: measurement for key, measurement in side.items() if key in shared} for side in sides]
    sets = [problems for problems in ORDER if all(any(key[1] == problems for key in side) for side in sides)]
    if not sets:
        return []
    first_side, second_side = (
        [measurement for name in sets for key, measurement in side.items() if key[1] == name] for side in sides
    )
    compared = compare_evaluations(first_side, second_side)
    return [comparison for comparison in compared if comparison.name.split()[-1] in METRICS]


def pairs(measured: Measured) -> dict[int, list[Comparison]]:
    """GTPO against GRPO on GSM8K for each seed; empty if there is a single pair."""
    compared: dict[int, list[Comparison]] = {}
    for seed in sorted({key[1] for key in measured}):
        of_seed = {key: measurement for key, measurement in measured.items() if key[1:] == (seed, "gsm8k")}
        if answers := comparisons(of_seed, "gtpo", "grpo"):
            compared[seed] = answers
    return compared if len(compared) > 1 else {}


def real_collapses(measured: Measured, arm: str) -> list[bool] | None:
    """Whether each run of an arm has collapsed: as in the lab, below half of the untrained accuracy on GSM8K."""
    start = over_seeds(measured, "base", "gsm8k")
    if start is None:
        return None
    least = start.values["pass@1"].mean() / 2
    return [bool(measurement.values["pass@1"].mean() < least) for measurement in of_arm_on(measured, arm, "gsm8k")]


def over_runs(runs: Sequence[Run]) -> dict[str, list[Comparison]]:
    """GTPO against each RL arm in the logged metrics, over the seeds that both have, if there are at least two."""
    compared: dict[str, list[Comparison]] = {}
    for arm in ("grpo", "grpo-kl"):
        sides = [{run.seed: run for run in runs if run.method == method} for method in ("gtpo", arm)]
        shared = sides[0].keys() & sides[1].keys()
        if len(shared) > 1:
            first, second = ([run for seed, run in side.items() if seed in shared] for side in sides)
            compared[arm] = compare_runs(first, second)
    return compared


def over_tests(measured: Measured) -> list[tuple[Comparison, list[float]]]:
    """GTPO against GRPO on each problem set over the seeds that both have, and the difference of each seed."""
    compared: list[tuple[Comparison, list[float]]] = []
    for problems in sets_of(measured):
        for metric in METRICS:
            first, second = (means_by_seed(measured, arm, problems, metric) for arm in ("gtpo", "grpo"))
            shared = sorted(first.keys() & second.keys())
            if len(shared) > 1:
                answer = compare_values(f"{problems} {metric}", first, second)
                compared.append((answer, [first[seed] - second[seed] for seed in shared]))
    return compared


def means_by_seed(measured: Measured, arm: str, problems: str, metric: str) -> dict[int, float]:
    """The mean over problems of each run of an arm, by seed."""
    return {
        seed: float(measurement.values[metric].mean())
        for (name, seed, problem_set), measurement in measured.items()
        if (name, problem_set) == (arm, problems) and metric in measurement.values
    }
