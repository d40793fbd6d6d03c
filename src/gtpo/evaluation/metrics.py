"""From files of samples to numbers: per problem first, then means over problems with intervals, then differences."""

import dataclasses
import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import ConfigError, DataError, require
from gtpo.evaluation.estimators import maj_at_ks, pass_at_k
from gtpo.evaluation.grading import GradedProblem, Progress, grade
from gtpo.evaluation.samples import Sample, SampleFile
from gtpo.statistics import PairedDifference, bootstrap_interval, paired_difference

logger = logging.getLogger(__name__)

DIVERSITY = ("distinct_answers", "distinct_completions")
"""Counts among the samples of a problem: of one sample they say nothing, of different numbers of them they differ."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over problems and its bootstrap 95 % interval."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One model on one problem set: the value of every metric for every problem, and how they were sampled."""

    model: str
    problems: str
    header: dict[str, Any]
    values: dict[str, NDArray[np.float64]]

    @property
    def num_problems(self) -> int:
        """How many problems had all their samples: the first ones of the set."""
        return len(next(iter(self.values.values())))

    @functools.cached_property
    def estimates(self) -> dict[str, Estimate]:
        return {
            name: Estimate(float(values.mean()), *bootstrap_interval(values)) for name, values in self.values.items()
        }


@dataclasses.dataclass(frozen=True)
class Difference:
    """`first` minus `second` on the problems that both have, metric by metric."""

    first: str
    second: str
    problems: str
    num_problems: int
    metrics: dict[str, PairedDifference]


def default_ks(num_samples: int) -> list[int]:
    """The paper's k, as far as there are samples for them, and the number of samples.

    >>> default_ks(4), default_ks(20)
    ([1, 4], [1, 4, 8, 16, 20])
    """
    return sorted({num_samples, *(k for k in (1, 4, 8, 16, 32, 64) if k <= num_samples)})


def measure(file: SampleFile, ks: Sequence[int] | None, progress: Progress) -> Measurement:
    """Grade a file of samples and take every metric of every problem that has all its samples."""
    ks = default_ks(file.num_samples) if ks is None else sorted(set(ks))
    for k in ks:
        require(
            1 <= k <= file.num_samples, "k", k, f"from 1 to the number of samples ({file.num_samples} in {file.path})"
        )
    by_problem = _complete_problems(file)
    graded = grade(by_problem, progress)
    rows = [_problem_metrics(samples, grades, ks) for samples, grades in zip(by_problem, graded, strict=True)]
    values = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    return Measurement(
        model=file.header["model"],
        problems=file.header["problems"]["name"],
        header=file.header,
        values={name: column for name, column in values.items() if np.isfinite(column).all()},
    )


def compare(measurements: Sequence[Measurement]) -> list[Difference]:
    """The first model minus each other one, on every problem set that both were asked."""
    first_model = measurements[0].model if measurements else ""
    mine = {measured.problems: measured for measured in measurements if measured.model == first_model}
    return [
        _difference(mine[other.problems], other)
        for other in measurements
        if other.model != first_model and other.problems in mine
    ]


def comparable(measurements: Sequence[Measurement]) -> list[str]:
    """The metrics that all of them have and that mean the same in all: counts need the same number of samples."""
    has_same_size = len({one.header["settings"]["num_samples"] for one in measurements}) == 1
    return [
        name
        for name in measurements[0].values
        if all(name in one.values for one in measurements) and (has_same_size or name not in DIVERSITY)
    ]


def require_distinct(files: Sequence[SampleFile]) -> None:
    """Two files about the same model and problems cannot stand in one table."""
    by_key: dict[tuple[str, str], list[str]] = {}
    for file in files:
        by_key.setdefault((file.header["model"], file.header["problems"]["name"]), []).append(str(file.path))
    for (model, problems), paths in by_key.items():
        if len(paths) > 1:
            raise ConfigError(
                f"Model {model!r} on {problems!r} is given more than once: {', '.join(paths)}. Leave all but one out, "
                "or put them on the two sides of `gtpo compare`."
            )


def _difference(first: Measurement, second: Measurement) -> Difference:
    if first.header["problems"]["sha256"] != second.header["problems"]["sha256"]:
        raise DataError(
            f"{first.model!r} and {second.model!r} were asked different problems under the name {first.problems!r}. "
            "Sample both with the same --problems, --limit and --data-dir."
        )
    shared = min(first.num_problems, second.num_problems)  # an unfinished file lacks problems at its end
    names = comparable([first, second])
    return Difference(
        first=first.model,
        second=second.model,
        problems=first.problems,
        num_problems=shared,
        metrics={name: paired_difference(first.values[name][:shared], second.values[name][:shared]) for name in names},
    )


def _complete_problems(file: SampleFile) -> list[list[Sample]]:
    size = file.num_samples
    num_complete = len(file.samples) // size
    num_asked = file.header["problems"]["count"]
    if num_complete == 0:
        raise DataError(f"{file.path} has no problem with all its {size} samples: let the evaluation go on first.")
    if num_complete < num_asked:
        logger.warning("%s is unfinished: metrics over %d of %d problems", file.path, num_complete, num_asked)
    return [file.samples[start : start + size] for start in range(0, num_complete * size, size)]


def _problem_metrics(samples: Sequence[Sample], graded: GradedProblem, ks: Sequence[int]) -> dict[str, float]:
    num_correct = sum(graded.is_correct)
    entropies = [np.nan if sample.entropy is None else sample.entropy for sample in samples]
    return {
        **{f"pass@{k}": pass_at_k(len(samples), num_correct, k) for k in ks},
        **{f"maj@{k}": value for k, value in zip(ks, maj_at_ks(graded.answers, graded.is_correct, ks), strict=True)},
        **(_diversity(samples, graded) if len(samples) > 1 else {}),
        "format_rate": float(np.mean(graded.has_format)),
        "mean_length": float(np.mean([sample.num_tokens for sample in samples])),
        "truncation_rate": float(np.mean([sample.truncated for sample in samples])),
        "mean_entropy": float(np.mean(entropies)),
    }


def _diversity(samples: Sequence[Sample], graded: GradedProblem) -> dict[str, float]:
    answers, texts = set(graded.answers) - {None}, {sample.text for sample in samples}
    return dict(zip(DIVERSITY, (float(len(answers)), float(len(texts))), strict=True))
