"""Compares two sets of runs over seeds, or two sets of evaluations over problems.

A difference is the mean of the first set minus the mean of the second. Runs that share seeds are paired by seed, and
the interval is `gtpo.statistics.seed_interval`. Evaluations are paired by problem, with a bootstrap over problems.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError, require
from gtpo.evaluation.metrics import DIVERSITY, Measurement, comparable
from gtpo.runs.measures import area, final, steps_to, worst_drop
from gtpo.runs.run import Run
from gtpo.statistics import LEVEL, fisher_p, more_items, paired_difference, seed_interval

FEWEST_PROBLEMS = 6
"""Fewer problems show nothing: five that all favour one side do so by chance one time in sixteen."""

Kind = Literal["fraction", "count", "value"]
"""How a quantity is printed: a fraction in percent, a count with one decimal, any other value with three."""

Verdict = Literal["better", "worse", "differs", "not shown"]
"""Of the first set. "not shown": the interval includes 0. "differs": neither more nor less is good."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One quantity in both sets. `low` and `high` are None if there is no interval: one run, or no spread."""

    name: str
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    num_first: int
    num_second: int
    is_paired: bool
    verdict: Verdict
    more_seeds: int | None  # for each set; None if the verdict is clear, or if no number below a thousand is enough
    kind: Kind = "fraction"


class Quantity(NamedTuple):
    """What is compared, how it is printed, and whether more of it is good; None if neither more nor less is."""

    name: str
    kind: Kind = "fraction"
    more_is_good: bool | None = True


_METRICS: dict[str, tuple[Kind, bool | None]] = {
    "truncation_rate": ("fraction", False),
    "mean_length": ("count", None),
    "mean_entropy": ("value", None),
    **dict.fromkeys(DIVERSITY, ("count", None)),
}
"""Kind and direction of an evaluation's metrics. All others are fractions of which more is good."""

BySeed = Sequence[tuple[int | None, float]]
"""The values of a set of runs, each with the seed of its run."""


def compare_runs(first: Sequence[Run], second: Sequence[Run], levels: Sequence[float] = ()) -> list[Comparison]:
    """Compare every quantity that runs of both sets have."""
    for level in levels:
        require(0 < level <= 1, "level", level, "a fraction between 0 and 1")
    has_held_out = len(held_out_sets([*first, *second])) < 2
    measured = [[(run.seed, _measured(run, levels, has_held_out)) for run in runs] for runs in (first, second)]
    comparisons: list[Comparison] = []
    for quantity in _measured(first[0], levels, has_held_out):
        a, b = (
            [(seed, value) for seed, values in side if (value := values[quantity]) is not None] for side in measured
        )
        if a and b:
            comparisons.append(_compare(quantity, a, b))
    if not comparisons:
        raise DataError(
            "The two sets have nothing in common to compare: no accuracy, format, reward or held-out result on both "
            "sides. Log `accuracy` and `format` from the reward (gtpo's rewards do)."
        )
    return [*comparisons, _compare_collapses(first, second)]


def compare_values(
    name: str, first: Mapping[int, float], second: Mapping[int, float], *, more_is_good: bool = True
) -> Comparison:
    """Compare one quantity of two sets of runs, given by seed, as `compare_runs` does.

    >>> compare_values("accuracy", {1: 0.9, 2: 0.8, 3: 0.9}, {1: 0.7, 2: 0.61, 3: 0.69}).verdict
    'better'
    """
    return _compare(Quantity(name, "fraction", more_is_good), list(first.items()), list(second.items()))


def compare_evaluations(first: Sequence[Measurement], second: Sequence[Measurement]) -> list[Comparison]:
    """Compare every metric on every problem set of both sides. Several files of a side are averaged per problem."""
    names = dict.fromkeys(measurement.problems for measurement in first)
    shared = [name for name in names if any(measurement.problems == name for measurement in second)]
    if not shared:
        raise DataError("The two sides were evaluated on different problem sets. Pass files about the same one.")
    comparisons: list[Comparison] = []
    for problems in shared:
        sides = [[measurement for measurement in side if measurement.problems == problems] for side in (first, second)]
        comparisons += _compare_problem_set(problems, *sides)
    return comparisons


def unpaired_seeds(first: Sequence[Run], second: Sequence[Run]) -> list[str]:
    """The runs that are left out of paired differences because the other set lacks their seed."""
    seeds = [[run.seed for run in runs] for runs in (first, second)]
    if not _can_pair(*seeds):
        return []
    shared = set(seeds[0]) & set(seeds[1])
    return [run.name for run in (*first, *second) if run.seed not in shared]


def held_out_sets(runs: Sequence[Run]) -> list[str]:
    """The ways in which the runs were measured after training. Held-out results are compared if there is only one."""
    return list(dict.fromkeys(run.held_out for run in runs if run.held_out is not None))


def has_collapsed(run: Run) -> bool:
    """Whether the verdict on the run's last step is collapsing."""
    return run.verdict.level == 2


def _measured(run: Run, levels: Sequence[float], has_held_out: bool) -> dict[Quantity, float | None]:
    """Every quantity of one run; None if the run did not log it."""
    values: dict[Quantity, float | None] = {}
    for meaning in ("accuracy", "format"):
        series = run.series(meaning)
        values[Quantity(f"{meaning}, end of training")] = final(series)
        values[Quantity(f"{meaning}, mean over training")] = area(series)
        for level in levels:
            values[Quantity(f"steps to {meaning} {100 * level:g} %", "count", False)] = steps_to(series, level)
        values[Quantity(f"{meaning}, worst drop after its peak", "fraction", False)] = worst_drop(series)
    for metric in ("accuracy", "format") if has_held_out else ():
        values[Quantity(f"{metric}, held out after training")] = run.after.get(metric)
    values[Quantity("reward, end of training", "value")] = final(run.series("reward"))
    return values


def _compare(quantity: Quantity, first: BySeed, second: BySeed) -> Comparison:
    is_paired = _can_pair([seed for seed, _ in first], [seed for seed, _ in second])
    if is_paired:
        by_seed = dict(second)
        first = [(seed, value) for seed, value in first if seed in by_seed]
        second = [(seed, by_seed[seed]) for seed, _ in first]
    a, b = (np.array([value for _, value in side]) for side in (first, second))
    interval = seed_interval(a, b, is_paired=is_paired)
    is_significant = interval is not None and (interval[0] > 0 or interval[1] < 0)
    comparison = _comparison(quantity, a, b, interval, is_significant=is_significant, is_paired=is_paired)
    if is_significant:
        return comparison
    more_seeds = more_items([a - b] if is_paired else [a, b], comparison.difference)
    return dataclasses.replace(comparison, more_seeds=more_seeds)


def _compare_collapses(first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    """The fraction of collapsed runs, by Fisher's exact test: counts this small have no useful interval."""
    a, b = (np.array([float(has_collapsed(run)) for run in runs]) for runs in (first, second))
    is_significant = fisher_p(int(a.sum()), len(a), int(b.sum()), len(b)) < 1 - LEVEL
    quantity = Quantity("collapsed runs", "fraction", False)
    return _comparison(quantity, a, b, None, is_significant=is_significant, is_paired=False)


def _compare_problem_set(
    problems: str, first: Sequence[Measurement], second: Sequence[Measurement]
) -> list[Comparison]:
    measurements = [*first, *second]
    if len({measurement.header["problems"]["sha256"] for measurement in measurements}) > 1:
        raise DataError(f"The problems named {problems!r} differ between the files. Sample all with the same ones.")
    count = min(measurement.num_problems for measurement in measurements)  # an unfinished file lacks the last ones
    comparisons: list[Comparison] = []
    for name in comparable(measurements):
        quantity = Quantity(f"{problems} {name}", *_METRICS.get(name, ("fraction", True)))
        a = np.mean([measurement.values[name][:count] for measurement in first], axis=0)
        b = np.mean([measurement.values[name][:count] for measurement in second], axis=0)
        paired = paired_difference(a, b)
        is_significant = paired.excludes_zero and count >= FEWEST_PROBLEMS
        interval = (paired.low, paired.high)
        comparison = _comparison(quantity, a, b, interval, is_significant=is_significant, is_paired=True)
        sizes = {"num_first": len(first), "num_second": len(second)}
        comparisons.append(dataclasses.replace(comparison, difference=paired.difference, **sizes))
    return comparisons


def _comparison(
    quantity: Quantity,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    interval: tuple[float, float] | None,
    *,
    is_significant: bool,
    is_paired: bool,
) -> Comparison:
    difference = float(a.mean() - b.mean())
    verdict: Verdict = "not shown"
    if is_significant and quantity.more_is_good is None:
        verdict = "differs"
    elif is_significant:
        verdict = "better" if (difference > 0) == quantity.more_is_good else "worse"
    low, high = interval or (None, None)
    means = float(a.mean()), float(b.mean())
    sizes = len(a), len(b)
    return Comparison(quantity.name, *means, difference, low, high, *sizes, is_paired, verdict, None, quantity.kind)


def _can_pair(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    """Whether each run has a seed of its own in its set, and the sets share at least two of them."""
    is_clear = all(None not in seeds and len(set(seeds)) == len(seeds) for seeds in (first, second))
    return is_clear and len(set(first) & set(second)) >= 2
