"""Compares two sets of runs over seeds, or two sets of evaluations over problems.

A difference is the mean of the first set minus the mean of the second. Runs that share seeds are paired by seed, and
the interval is `gtpo.statistics.seed_interval`. Evaluations are paired by problem, with a bootstrap over problems.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError, require
from gtpo.evaluation.metrics import DIVERSITY, Measurement, comparable
from gtpo.logged import Series
from gtpo.runs.measures import area, final, steps_to, worst_drop
from gtpo.runs.run import Run, health_of_run
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


@dataclasses.dataclass(frozen=True)
class Quantity:
    """What is compared of two sets of runs. `measure` returns None for a run that did not log it."""

    name: str
    measure: Callable[[Run], float | None]
    kind: Kind = "fraction"
    more_is_good: bool = True


_METRICS: dict[str, tuple[Kind, bool | None]] = {
    "truncation_rate": ("fraction", False),
    "mean_length": ("count", None),
    "mean_entropy": ("value", None),
    **dict.fromkeys(DIVERSITY, ("count", None)),
}
"""Metrics of an evaluation that are not a fraction of which more is good; None if neither direction is good."""


def compare_runs(first: Sequence[Run], second: Sequence[Run], levels: Sequence[float] = ()) -> list[Comparison]:
    """Compare every quantity that runs of both sets have."""
    for level in levels:
        require(0 < level <= 1, "level", level, "a fraction between 0 and 1")
    has_held_out = len(held_out_sets([*first, *second])) < 2
    comparisons: list[Comparison] = []
    for quantity in _quantities(levels, has_held_out):
        a, b = _values_by_seed(first, quantity), _values_by_seed(second, quantity)
        if a and b:
            comparisons.append(_compare(quantity.name, a, b, quantity.kind, quantity.more_is_good))
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
    return _compare(name, list(first.items()), list(second.items()), "fraction", more_is_good)


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
    return health_of_run(run)[-1].level == 2


def _quantities(levels: Sequence[float], has_held_out: bool) -> list[Quantity]:
    quantities: list[Quantity] = []
    for meaning in ("accuracy", "format"):
        quantities += [
            Quantity(f"{meaning}, end of training", _of(meaning, final)),
            Quantity(f"{meaning}, mean over training", _of(meaning, area)),
        ]
        for level in levels:
            measure = _of(meaning, functools.partial(steps_to, level=level))
            quantities.append(Quantity(f"steps to {meaning} {100 * level:g} %", measure, "count", more_is_good=False))
        drop = _of(meaning, worst_drop)
        quantities.append(Quantity(f"{meaning}, worst drop after its peak", drop, more_is_good=False))
    for key in ("accuracy", "format") if has_held_out else ():
        quantities.append(Quantity(f"{key}, held out after training", functools.partial(_after, key=key)))
    return [*quantities, Quantity("reward, end of training", _of("reward", final), "value")]


def _of(meaning: str, measure: Callable[[Series], float | None]) -> Callable[[Run], float | None]:
    return lambda run: measure(run.series(meaning))


def _after(run: Run, key: str) -> float | None:
    return run.after.get(key)


def _values_by_seed(runs: Sequence[Run], quantity: Quantity) -> list[tuple[int | None, float]]:
    return [(run.seed, value) for run in runs if (value := quantity.measure(run)) is not None]


def _compare(
    name: str,
    first: Sequence[tuple[int | None, float]],
    second: Sequence[tuple[int | None, float]],
    kind: Kind,
    more_is_good: bool,
) -> Comparison:
    is_paired = _can_pair([seed for seed, _ in first], [seed for seed, _ in second])
    if is_paired:
        by_seed = dict(second)
        first = [(seed, value) for seed, value in first if seed in by_seed]
        second = [(seed, by_seed[seed]) for seed, _ in first]
    a, b = (np.array([value for _, value in side]) for side in (first, second))
    difference = float(a.mean() - b.mean())
    low, high = seed_interval(a, b, is_paired=is_paired) or (None, None)
    is_significant = low is not None and high is not None and (low > 0 or high < 0)
    return Comparison(
        name=name,
        first=float(a.mean()),
        second=float(b.mean()),
        difference=difference,
        low=low,
        high=high,
        num_first=len(a),
        num_second=len(b),
        is_paired=is_paired,
        verdict=_verdict(difference, more_is_good) if is_significant else "not shown",
        more_seeds=None if is_significant else more_items([a - b] if is_paired else [a, b], difference),
        kind=kind,
    )


def _can_pair(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    """Whether each run has a seed of its own in its set, and the sets share at least two of them."""
    is_clear = all(None not in seeds and len(set(seeds)) == len(seeds) for seeds in (first, second))
    return is_clear and len(set(first) & set(second)) >= 2


def _verdict(difference: float, more_is_good: bool | None) -> Verdict:
    if more_is_good is None:
        return "differs"
    return "better" if (difference > 0) == more_is_good else "worse"


def _compare_collapses(first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    """The fraction of collapsed runs, by Fisher's exact test: counts this small have no useful interval."""
    counts = [sum(map(has_collapsed, runs)) for runs in (first, second)]
    difference = counts[0] / len(first) - counts[1] / len(second)
    is_significant = fisher_p(counts[0], len(first), counts[1], len(second)) < 1 - LEVEL
    return Comparison(
        name="collapsed runs",
        first=counts[0] / len(first),
        second=counts[1] / len(second),
        difference=difference,
        low=None,
        high=None,
        num_first=len(first),
        num_second=len(second),
        is_paired=False,
        verdict=_verdict(difference, more_is_good=False) if is_significant else "not shown",
        more_seeds=None,
    )


def _compare_problem_set(
    problems: str, first: Sequence[Measurement], second: Sequence[Measurement]
) -> list[Comparison]:
    measurements = [*first, *second]
    if len({measurement.header["problems"]["sha256"] for measurement in measurements}) > 1:
        raise DataError(f"The problems named {problems!r} differ between the files. Sample all with the same ones.")
    count = min(measurement.num_problems for measurement in measurements)  # an unfinished file lacks the last ones
    comparisons: list[Comparison] = []
    for name in comparable(measurements):
        a = np.mean([measurement.values[name][:count] for measurement in first], axis=0)
        b = np.mean([measurement.values[name][:count] for measurement in second], axis=0)
        comparisons.append(_compare_metric(problems, name, a, b, len(first), len(second)))
    return comparisons


def _compare_metric(
    problems: str, name: str, a: NDArray[np.float64], b: NDArray[np.float64], num_first: int, num_second: int
) -> Comparison:
    kind, more_is_good = _METRICS.get(name, ("fraction", True))
    paired = paired_difference(a, b)
    is_significant = paired.excludes_zero and len(a) >= FEWEST_PROBLEMS
    return Comparison(
        name=f"{problems} {name}",
        first=float(a.mean()),
        second=float(b.mean()),
        difference=paired.difference,
        low=paired.low,
        high=paired.high,
        num_first=num_first,
        num_second=num_second,
        is_paired=True,
        verdict=_verdict(paired.difference, more_is_good) if is_significant else "not shown",
        more_seeds=None,
        kind=kind,
    )
