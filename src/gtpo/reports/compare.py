"""Two sets of runs against each other: differences with intervals, a plain verdict, and the seeds it would take.

The unit is a run. A difference is the mean of the first set minus that of the second; where seeds are shared it is
taken seed by seed. Its interval is the percentile bootstrap over runs, widened for small numbers (`_widening`): with
three seeds the plain bootstrap would call a difference of pure noise real one time in four.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist

import numpy as np

from gtpo.errors import DataError, require
from gtpo.reports.health import health_of
from gtpo.reports.runs import Run, Series
from gtpo.statistics import bootstrap_means

LEVEL = 0.95
POWER = 0.8
MOST_SEEDS = 1000
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5 % for 1 to 30 degrees of freedom."""


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
    for name, measure, is_good in _quantities(levels):
        sides = [[(run.seed, measure(run)) for run in runs] for runs in (first, second)]
        known = [[(seed, value) for seed, value in side if value is not None] for side in sides]
        if known[0] and known[1]:
            found.append(_compare(name, known[0], known[1], is_good))
    if not found:
        raise DataError(
            "The two sets have nothing in common to compare: no accuracy, format or held-out result on both sides. "
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


def _quantities(levels: Sequence[float]) -> list[tuple[str, Measure, bool]]:
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
    for key in ("accuracy", "format"):
        found.append((f"{key}, held out after training", functools.partial(_after, key=key), True))
    return found


def _of(meaning: str, measure: Callable[[Series], float | None]) -> Measure:
    return lambda run: measure(run.series(meaning))


def _after(run: Run, key: str) -> float | None:
    return run.after.get(key)


def smoothed(series: Series) -> list[float]:
    """Trailing means over a twentieth of the points (at least 5, as far as there are so many)."""
    size = max(5, len(series.values) // 20)
    return [float(np.mean(series.values[max(0, i + 1 - size) : i + 1])) for i in range(len(series.values))]


def final(series: Series) -> float | None:
    """The mean over the last tenth of the logged steps."""
    size = max(1, math.ceil(len(series.values) / 10))
    return float(np.mean(series.values[-size:])) if series.values else None


def area(series: Series) -> float | None:
    """The area under the curve divided by its width: the mean over steps."""
    if len(series.values) < 2:
        return series.values[0] if series.values else None
    widths, values = np.diff(series.steps), np.array(series.values)
    return float((widths * (values[1:] + values[:-1]) / 2).sum() / widths.sum())


def steps_to(series: Series, level: float) -> float | None:
    """The first step at which the smoothed curve is at `level`; where it never is, the last step: that flatters it."""
    if not series.steps:
        return None
    points = list(zip(series.steps, smoothed(series), strict=True))[4:]
    return next((step for step, value in points if value >= level), series.steps[-1])


def worst_drop(series: Series) -> float | None:
    """The deepest fall of the smoothed curve below what it had reached."""
    curve = smoothed(series)[4:]
    return float(np.max(np.maximum.accumulate(curve) - curve)) if curve else None


def has_collapsed(run: Run) -> bool:
    """Whether the verdict on the run's last step is collapsing."""
    return health_of(run.rows)[-1].level == 2


def _compare_collapses(first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    """The share of collapsed runs, judged by Fisher's exact test: counts this small have no useful interval."""
    counts = [sum(map(has_collapsed, runs)) for runs in (first, second)]
    shares = counts[0] / len(first), counts[1] / len(second)
    is_shown = fisher_p(counts[0], len(first), counts[1], len(second)) < 1 - LEVEL
    verdict = "not shown" if not is_shown else "better" if shares[0] < shares[1] else "worse"
    return Comparison(
        "collapsed runs", *shares, shares[0] - shares[1], None, None, len(first), len(second), False, verdict, None
    )


def fisher_p(a: int, size_a: int, b: int, size_b: int) -> float:
    """Two-sided p: all splits of the collapsed runs over the two sets that are no likelier than this one.

    >>> round(fisher_p(3, 3, 0, 3), 3), round(fisher_p(4, 4, 0, 4), 3)
    (0.1, 0.029)
    """
    total = a + b
    ways = [math.comb(size_a, n) * math.comb(size_b, total - n) for n in range(total + 1)]
    return sum(way for way in ways if way <= ways[a]) / sum(ways)


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
    low, high = _interval(samples, difference)
    shown = low is not None and high is not None and (low > 0 or high < 0)
    verdict = "not shown" if not shown else "better" if (difference > 0) == is_good else "worse"
    return Comparison(
        name, float(values[0].mean()), float(values[1].mean()), difference, low, high, len(values[0]), len(values[1]),
        is_paired, verdict, None if shown else _more_seeds(samples, difference),
    )  # fmt: skip


def _can_pair(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    is_clear = all(None not in seeds and len(set(seeds)) == len(seeds) for seeds in (first, second))
    return is_clear and len(set(first) & set(second)) >= 2


def _interval(samples: list[np.ndarray], difference: float) -> tuple[float | None, float | None]:
    if min(map(len, samples)) < 2:
        return None, None
    means = [bootstrap_means(sample, seed=number) for number, sample in enumerate(samples)]
    drawn = means[0] - means[1] if len(means) == 2 else means[0]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if low == high:
        return None, None
    factor = _widening(samples)
    return difference - factor * (difference - float(low)), difference + factor * (float(high) - difference)


def _widening(samples: list[np.ndarray]) -> float:
    """What makes a bootstrap interval of normal values as wide as Student's (Welch's for two samples)."""
    honest = math.sqrt(sum(sample.var(ddof=1) / len(sample) for sample in samples))
    drawn = math.sqrt(sum(sample.var(ddof=0) / len(sample) for sample in samples))
    parts = [(sample.var(ddof=1) / len(sample), len(sample) - 1) for sample in samples]
    freedom = sum(part for part, _ in parts) ** 2 / sum(part**2 / size for part, size in parts)
    return student_t(int(freedom)) / NormalDist().inv_cdf((1 + LEVEL) / 2) * honest / drawn


def _more_seeds(samples: list[np.ndarray], difference: float) -> int | None:
    """Seeds to add to each set so that the interval excludes zero 4 times in 5, if difference and spread stay."""
    size = min(map(len, samples))
    if size < 2 or difference == 0:
        return None
    spread = math.sqrt(sum(sample.var(ddof=1) for sample in samples))
    power = NormalDist().inv_cdf(POWER)
    for needed in range(size + 1, MOST_SEEDS):
        if (student_t((needed - 1) * len(samples)) + power) * spread / math.sqrt(needed) <= abs(difference):
            return needed - size
    return None


def student_t(freedom: int) -> float:
    """Student's t at 97.5 %: half the width of a 95 % interval, in standard errors."""
    return _T_975[max(freedom, 1) - 1] if freedom <= len(_T_975) else 1.96 + 2.5 / freedom
