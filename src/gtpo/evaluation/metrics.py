"""From sample files to numbers: metrics per problem, means over problems with intervals, and differences."""

import dataclasses
import functools
import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.estimators import maj_at_ks, pass_at_k, require_k
from gtpo.evaluation.graders import ANSWER, find_grader
from gtpo.evaluation.samples import Sample, SampleFile, SampleHeader
from gtpo.evaluation.votes import Progress, Votes, grade
from gtpo.statistics import PairedDifference, bootstrap_interval, paired_difference

logger = logging.getLogger(__name__)

DIVERSITY = ("distinct_answers", "distinct_completions")
"""Counts per problem. They need several samples, and only counts over the same number of samples are comparable."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over problems and its bootstrap 95 % interval."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One model on one problem set: the value of every metric for every problem, and how it was sampled."""

    model: str
    problems: str
    header: SampleHeader
    values: dict[str, NDArray[np.float64]]
    grader: str = ANSWER

    @property
    def num_problems(self) -> int:
        """The number of problems with all their samples; these are the first ones of the set."""
        return len(next(iter(self.values.values())))

    @functools.cached_property
    def estimates(self) -> dict[str, Estimate]:
        return {
            name: Estimate(float(values.mean()), *bootstrap_interval(values)) for name, values in self.values.items()
        }


@dataclasses.dataclass(frozen=True)
class Difference:
    """`first` minus `second` on the problems that both have, for each metric."""

    first: str
    second: str
    problems: str
    num_problems: int
    metrics: dict[str, PairedDifference]


def default_ks(num_samples: int) -> list[int]:
    """The k of the paper up to the number of samples, and the number of samples itself.

    >>> default_ks(4), default_ks(20)
    ([1, 4], [1, 4, 8, 16, 20])
    """
    return sorted({num_samples, *(k for k in (1, 4, 8, 16, 32, 64) if k <= num_samples)})


def measure(file: SampleFile, ks: Sequence[int] | None, progress: Progress, grader: str = ANSWER) -> Measurement:
    """Grade a sample file and compute every metric of every problem that has all its samples."""
    ks = default_ks(file.num_samples) if ks is None else sorted(set(ks))
    for k in ks:
        require_k(file.num_samples, k)
    by_problem = _complete_problems(file)
    graded = grade(by_problem, find_grader(grader), progress)
    rows = [_problem_metrics(samples, votes, ks) for samples, votes in zip(by_problem, graded, strict=True)]
    columns = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    values = {name: column for name, column in columns.items() if np.isfinite(column).all()}
    return Measurement(file.header["model"], file.header["problems"]["name"], file.header, values, grader)


def compare(measurements: Sequence[Measurement]) -> list[Difference]:
    """The first model minus each other model, on every problem set that both were sampled on."""
    first_model = measurements[0].model if measurements else ""
    mine = {measured.problems: measured for measured in measurements if measured.model == first_model}
    return [
        _difference(mine[other.problems], other)
        for other in measurements
        if other.model != first_model and other.problems in mine
    ]


def comparable(measurements: Sequence[Measurement]) -> list[str]:
    """The metrics that all measurements have and that mean the same in all of them."""
    has_same_size = len({measured.header["settings"]["num_samples"] for measured in measurements}) == 1
    shared = [name for name in measurements[0].values if all(name in measured.values for measured in measurements)]
    return [name for name in shared if has_same_size or name not in DIVERSITY]


def require_distinct(results: Sequence[tuple[str, str]]) -> None:
    """Refuse two results for the same model and problem set: one table cannot hold both."""
    for model, problems in results:
        if results.count((model, problems)) > 1:
            raise ConfigError(
                f"There are two results for model {model!r} on {problems!r}. Pass only one of them, rename one, or "
                "compare their files with `gtpo compare`."
            )


def _difference(first: Measurement, second: Measurement) -> Difference:
    if first.header["problems"]["sha256"] != second.header["problems"]["sha256"]:
        raise DataError(
            f"{first.model!r} and {second.model!r} were sampled on different problems named {first.problems!r}. "
            "Sample both with the same --problems, --limit and --data-dir."
        )
    shared = min(first.num_problems, second.num_problems)  # an unfinished file lacks the last problems
    metrics = {
        name: paired_difference(first.values[name][:shared], second.values[name][:shared])
        for name in comparable([first, second])
    }
    return Difference(first.model, second.model, first.problems, shared, metrics)


def _complete_problems(file: SampleFile) -> list[list[Sample]]:
    size = file.num_samples
    num_complete = len(file.samples) // size
    num_requested = file.header["problems"]["count"]
    if num_complete == 0:
        raise DataError(f"{file.path} has no problem with all its {size} samples. Resume the evaluation first.")
    if num_complete < num_requested:
        logger.warning("%s is unfinished: metrics are over %d of %d problems", file.path, num_complete, num_requested)
    return [file.samples[start : start + size] for start in range(0, num_complete * size, size)]


def _problem_metrics(samples: Sequence[Sample], votes: Votes, ks: Sequence[int]) -> dict[str, float]:
    from gtpo.rewards import has_format

    answers, is_correct = votes
    metrics = {f"pass@{k}": pass_at_k(len(samples), sum(is_correct), k) for k in ks}
    if answers is not None:
        for k, majority in zip(ks, maj_at_ks(answers, is_correct, ks), strict=True):
            metrics[f"maj@{k}"] = majority
    if len(samples) > 1:
        if answers is not None:
            metrics["distinct_answers"] = len(set(answers) - {None})
        metrics["distinct_completions"] = len({sample.text for sample in samples})
    metrics["format_rate"] = float(np.mean([has_format(sample.text) for sample in samples]))
    metrics["mean_length"] = float(np.mean([sample.num_tokens for sample in samples]))
    metrics["truncation_rate"] = float(np.mean([sample.truncated for sample in samples]))
    entropies = [np.nan if sample.entropy is None else sample.entropy for sample in samples]
    metrics["mean_entropy"] = float(np.mean(entropies))
    return metrics
