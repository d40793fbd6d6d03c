"""Two sets of runs against each other: differences with intervals, a plain verdict, and the seeds it would take.

The unit is a run. A difference is the mean of the first set minus that of the second; where seeds are shared it is
taken seed by seed. Its interval is the percentile bootstrap over runs, widened for small numbers (gtpo.statistics).
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError, require
from gtpo.evaluation.metrics import DIVERSITY, Measurement, comparable
from gtpo.logged import Series
from gtpo.runs.measures import area, final, steps_to, worst_drop
from gtpo.runs.run import Run, health_of_run
from gtpo.statistics import LEVEL, few_items_interval, fisher_p, more_items, paired_difference

FEWEST_PROBLEMS = 6
"""Fewer cannot show a difference: five that all speak for one side do so by chance one time in sixteen."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One quantity in both sets; `low` and `high` are None where one run, or no spread, gives no interval."""

    name: str
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    num_first: int
    num_second: int
    is_paired: bool
    verdict: str  # better, worse, not shown: of the first set
    more_seeds: int | None  # for each set; None where it is settled, or no number below a thousand would do


def compare_runs(first: Sequence[Run], second: Sequence[Run], levels: Sequence[float] = ()) -> list[Comparison]:
    """Every quantity that runs of both sets have."""
    for level in levels:
        require(0 < level <= 1, "level", level, "a fraction between 0 and 1")
    found: list[Comparison] = []
    for name, measure, is_good in _quantities(levels, has_held_out=len(held_out_sets([*first, *second])) < 2):
        sides = [[(run.seed, measure(run)) for run in runs] for runs in (first, second)]
        known = [[(seed, value) for seed, value in side if value is not None] for side in sides]
        if known[0] and known[1]:
            found.append(_compare(name, known[0], known[1], is_good))
    if not found:
        raise DataError(
            "The two sets have nothing in common to compare: no accuracy, format, reward or held-out result on both "
            "sides. "
            "Log `accuracy` and `format` from the reward (gtpo's rewards do)."
        )
    return [*found, _compare_collapses(first, second)]


def compare_values(
    name: str, first: Mapping[int, float], second: Mapping[int, float], *, more_is_good: bool = True
) -> Comparison:
    """One quantity of two sets of runs, by seed, judged as `compare_runs` judges its own.

    >>> compare_values("accuracy", {1: 0.9, 2: 0.8, 3: 0.9}, {1: 0.7, 2: 0.61, 3: 0.69}).verdict
    'better'
    """
    return _compare(name, list(first.items()), list(second.items()), more_is_good)


def unpaired_seeds(first: Sequence[Run], second: Sequence[Run]) -> list[str]:
    """The runs that stay out of paired differences because the other set lacks their seed."""
    seeds = [[run.seed for run in runs] for runs in (first, second)]
    if not _can_pair(*seeds):
        return []
    shared = set(seeds[0]) & set(seeds[1])
    return [run.name for run in (*first, *second) if run.seed not in shared]


Measure = Callable[[Run], float | None]


def held_out_sets(runs: Sequence[Run]) -> list[str]:
    """On what and how the runs were measured after training; where it is more than one thing, nothing is compared."""
    return list(dict.fromkeys(run.held_out for run in runs if run.held_out is not None))


def _quantities(levels: Sequence[float], has_held_out: bool) -> list[tuple[str, Measure, bool]]:
    """Name, what it is of a run, and whether more of it is good."""
    found: list[tuple[str, Measure, bool]] = []
    for meaning in ("accuracy", "format"):
        found += [
            (f"{meaning}, end of training", _of(meaning, final), True),
            (f"{meaning}, mean over training", _of(meaning, area), True),
        ]
        for level in levels:
            reached = functools.partial(steps_to, level=level)
            found.append((f"steps to {meaning} {100 * level:g} %", _of(meaning, reached), False))
        found.append((f"{meaning}, worst drop after its peak", _of(meaning, worst_drop), False))
    for key in ("accuracy", "format") if has_held_out else ():
        found.append((f"{key}, held out after training", functools.partial(_after, key=key), True))
    return [*found, ("reward, end of training", _of("reward", final), True)]


def _of(meaning: str, measure: Callable[[Series], float | None]) -> Measure:
    return lambda run: measure(run.series(meaning))


def _after(run: Run, key: str) -> float | None:
    return run.after.get(key)


def has_collapsed(run: Run) -> bool:
    """Whether the verdict on the run's last step is collapsing."""
    return health_of_run(run)[-1].level == 2


def _compare_collapses(first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    """The share of collapsed runs, judged by Fisher's exact test: counts this small have no useful interval."""
    counts = [sum(map(has_collapsed, runs)) for runs in (first, second)]
    shares = counts[0] / len(first), counts[1] / len(second)
    is_shown = fisher_p(counts[0], len(first), counts[1], len(second)) < 1 - LEVEL
    verdict = "not shown" if not is_shown else "better" if shares[0] < shares[1] else "worse"
    return Comparison(
        name="collapsed runs",
        first=shares[0],
        second=shares[1],
        difference=shares[0] - shares[1],
        low=None,
        high=None,
        num_first=len(first),
        num_second=len(second),
        is_paired=False,
        verdict=verdict,
        more_seeds=None,
    )


def _compare(
    name: str, first: list[tuple[int | None, float]], second: list[tuple[int | None, float]], is_good: bool
) -> Comparison:
    is_paired = _can_pair([seed for seed, _ in first], [seed for seed, _ in second])
    if is_paired:
        a, b = dict(first), dict(second)
        shared = [seed for seed in a if seed in b]
        values = [np.array([a[seed] for seed in shared]), np.array([b[seed] for seed in shared])]
        samples = [values[0] - values[1]]
    else:
        values = [np.array([value for _, value in side]) for side in (first, second)]
        samples = values
    difference = float(values[0].mean() - values[1].mean())
    low, high = few_items_interval(samples) or (None, None)
    shown = low is not None and high is not None and (low > 0 or high < 0)
    verdict = "not shown" if not shown else "better" if (difference > 0) == is_good else "worse"
    return Comparison(
        name=name,
        first=float(values[0].mean()),
        second=float(values[1].mean()),
        difference=difference,
        low=low,
        high=high,
        num_first=len(values[0]),
        num_second=len(values[1]),
        is_paired=is_paired,
        verdict=verdict,
        more_seeds=None if shown else more_items(samples, difference),
    )


def _can_pair(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    is_clear = all(None not in seeds and len(set(seeds)) == len(seeds) for seeds in (first, second))
    return is_clear and len(set(first) & set(second)) >= 2


def compare_evaluations(first: Sequence[Measurement], second: Sequence[Measurement]) -> list[Comparison]:
    """Every metric on every problem set of both sides; of several files of a side (seeds), each problem's mean."""
    shared = [name for name in dict.fromkeys(one.problems for one in first) if any(b.problems == name for b in second)]
    if not shared:
        raise DataError("The two sides were evaluated on different problem sets. Give files about the same one.")
    found: list[Comparison] = []
    for problems in shared:
        sides = [[one for one in side if one.problems == problems] for side in (first, second)]
        if len({one.header["problems"]["sha256"] for side in sides for one in side}) > 1:
            raise DataError(
                f"The problems called {problems!r} differ between the files. Sample all with the same ones."
            )
        names = comparable([one for side in sides for one in side])
        count = min(len(one.values[name]) for side in sides for one in side for name in names[:1])
        for name in names:
            a, b = (np.mean([one.values[name][:count] for one in side], axis=0) for side in sides)
            found.append(_compare_problems(f"{problems} {name}", a, b, [len(side) for side in sides]))
    return found


def _compare_problems(name: str, a: NDArray[np.float64], b: NDArray[np.float64], sizes: list[int]) -> Comparison:
    difference = paired_difference(a, b)
    is_bad = name.endswith("truncation_rate")
    has_direction = not name.endswith(("mean_length", "mean_entropy", *DIVERSITY))
    verdict = "not shown"
    if difference.excludes_zero and len(a) >= FEWEST_PROBLEMS:
        verdict = ("better" if (difference.difference > 0) != is_bad else "worse") if has_direction else "differs"
    return Comparison(
        name=name,
        first=float(a.mean()),
        second=float(b.mean()),
        difference=difference.difference,
        low=difference.low,
        high=difference.high,
        num_first=sizes[0],
        num_second=sizes[1],
        is_paired=True,
        verdict=verdict,
        more_seeds=None,
    )
