"""How far a mean over items, or a difference of two means, can be trusted.

An item is the unit that was drawn: a problem of a test set, or a seed of a training run. The percentile bootstrap
resamples items with replacement and assumes nothing about how their values are distributed. It only knows the items it
has, so its interval is too narrow for fewer than about ten of them: with three pairs of seeds it would find a
significant difference in pure noise one time in four. `seed_interval` therefore takes the wider of the bootstrap's and
Student's interval. All intervals are at 95 %.
"""

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError

LEVEL = 0.95
POWER = 0.8
MOST_ITEMS = 1000  # `more_items` does not look for larger samples

Values = Sequence[float] | NDArray[np.float64]

_NUM_RESAMPLES = 10_000
_CHUNK_ELEMENTS = 2**18  # item numbers that are drawn at once: few enough to fit the cache
_ROUNDING = 1e-12  # values that differ by less than this fraction of their size are equal up to rounding


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """mean(a − b) over the items that both have, with its bootstrap interval."""

    difference: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def bootstrap_means(values: Values, *, seed: int = 0) -> NDArray[np.float64]:
    """The means of 10,000 samples of the items, each as large as the items, drawn with replacement.

    >>> bootstrap_means([0.5, 0.5])[:3]
    array([0.5, 0.5, 0.5])
    """
    items = _items(values, "values")
    rng = np.random.default_rng(seed)
    rows = max(1, _CHUNK_ELEMENTS // len(items))
    sizes = [min(rows, _NUM_RESAMPLES - start) for start in range(0, _NUM_RESAMPLES, rows)]
    return np.concatenate([items.take(rng.integers(len(items), size=(size, len(items)))).mean(1) for size in sizes])


def bootstrap_interval(values: Values) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean of `values`, the same on every call.

    >>> low, high = bootstrap_interval([0, 1] * 50)
    >>> round(low, 2), round(high, 2)
    (0.4, 0.6)
    """
    return _percentiles(bootstrap_means(values))


def paired_difference(a: Values, b: Values) -> PairedDifference:
    """mean(a − b), item by item, with its bootstrap interval. What the items have in common cancels.

    >>> paired_difference([0.9, 0.2, 0.6], [0.8, 0.1, 0.5]).excludes_zero
    True
    """
    first, second = _items(a, "a"), _items(b, "b")
    if len(first) != len(second):
        raise DataError(f"a and b must have the same items in the same order, got {len(first)} and {len(second)}.")
    differences = first - second
    return PairedDifference(float(differences.mean()), *bootstrap_interval(differences))


def seed_interval(first: Values, second: Values, *, is_paired: bool) -> tuple[float, float] | None:
    """The interval of mean(first) − mean(second) over few items: the wider of Student's and the bootstrap's.

    Student's is the paired interval, or Welch's for two independent samples. Of the two intervals, the result has the
    lower low end and the higher high end. None if a side has fewer than two items, or if the items have no spread.

    >>> low, high = seed_interval([0.1, 0.2, 0.3], [0.0, 0.0, 0.0], is_paired=True) or (0, 0)
    >>> round(low, 2), round(high, 2)
    (-0.05, 0.45)
    """
    from scipy import stats

    a, b = _items(first, "first"), _items(second, "second")
    samples = [a - b] if is_paired else [a, b]
    rounding = _ROUNDING * max(np.abs(a).max(), np.abs(b).max())
    if min(map(len, samples)) < 2 or all(np.ptp(sample) <= rounding for sample in samples):
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)  # of two samples, one may have no spread
        test = stats.ttest_rel(a, b) if is_paired else stats.ttest_ind(a, b, equal_var=False)
    student = test.confidence_interval(LEVEL)
    means = [bootstrap_means(sample, seed=number) for number, sample in enumerate(samples)]
    low, high = _percentiles(means[0] if is_paired else means[0] - means[1])
    return min(low, float(student.low)), max(high, float(student.high))


def more_items(samples: Sequence[NDArray[np.float64]], difference: float) -> int | None:
    """How many items to add to each sample until Student's interval excludes 0 four times in five.

    Assumes that the difference and the spread stay as they are. `samples` are the paired differences, or two
    independent samples. None if no number below `MOST_ITEMS` is enough.
    """
    from scipy import stats

    size = min(map(len, samples))
    if size < 2 or difference == 0:
        return None
    spread = math.sqrt(sum(sample.var(ddof=1) for sample in samples))
    sizes = np.arange(size + 1, MOST_ITEMS)
    student = stats.t.ppf((1 + LEVEL) / 2, (sizes - 1) * len(samples))
    margins = (student + stats.norm.ppf(POWER)) * spread / np.sqrt(sizes)
    enough = sizes[margins <= abs(difference)]
    return int(enough[0]) - size if len(enough) else None


def sign_flip_p(differences: Values) -> float:
    """The exact two-sided p of paired differences: the share of all sign changes with a mean at least as far from 0.

    It assumes only that a difference of d would have been as likely as −d if the sides did not differ. With n pairs
    the smallest p is 2 / 2ⁿ, so it needs at least six of them to be below 0.05. At most 20 are taken.

    >>> sign_flip_p([0.1, 0.3, 0.2, 0.4, 0.1, 0.2])
    0.03125
    """
    items = _items(differences, "differences")
    if len(items) > 20:
        raise DataError(f"sign_flip_p goes through all 2ⁿ changes of signs, at most 20 differences; got {len(items)}.")
    sums = np.zeros(1)
    for item in items:
        sums = np.concatenate([sums + item, sums - item])
    return float((np.abs(sums) >= abs(items.sum()) - _ROUNDING * np.abs(items).sum()).mean())


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for their number by Holm's method, in the same order.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def fisher_p(a: int, size_a: int, b: int, size_b: int) -> float:
    """The two-sided p of Fisher's exact test: `a` of `size_a` items against `b` of `size_b`.

    >>> round(fisher_p(3, 3, 0, 3), 3), round(fisher_p(4, 4, 0, 4), 3)
    (0.1, 0.029)
    """
    from scipy import stats

    result: Any = stats.fisher_exact([[a, size_a - a], [b, size_b - b]])
    return float(result.pvalue)


def _percentiles(means: NDArray[np.float64]) -> tuple[float, float]:
    return float(np.quantile(means, (1 - LEVEL) / 2)), float(np.quantile(means, (1 + LEVEL) / 2))


def _items(values: Values, name: str) -> NDArray[np.float64]:
    items = np.asarray(values, dtype=np.float64)
    if items.ndim != 1 or items.size == 0 or not np.isfinite(items).all():
        raise DataError(f"{name} must be a finite number for each of at least one item, got {values!r:.200}.")
    return items
