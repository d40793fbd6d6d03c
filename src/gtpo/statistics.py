"""How far a mean over items, or a difference of two, can be trusted: bootstrap intervals, and what few items need.

The item is the unit that was drawn: a problem of a test set, a seed of a training run. Resampling items with
replacement and taking percentiles needs no assumption on how their values are distributed, but it knows only the items
it has: with fewer than about ten of them, and wherever all values are equal, the interval is too narrow.
`few_items_interval` widens it as Student's t does: with three seeds the plain bootstrap would call a difference of
pure noise real one time in four.
"""

import dataclasses
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError, require

LEVEL = 0.95
POWER = 0.8
MOST_ITEMS = 1000
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5 % for 1 to 30 degrees of freedom."""

Values = Sequence[float] | NDArray[np.float64]

_CHUNK_ELEMENTS = 2**18
"""Drawn item numbers held at once: they stay in the cache however many items and resamples there are."""


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """mean(a − b) over the items that both have, with its bootstrap interval."""

    difference: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """True where the interval leaves no room for no difference."""
        return self.low > 0 or self.high < 0


def bootstrap_means(values: Values, *, seed: int = 0, num_resamples: int = 10_000) -> NDArray[np.float64]:
    """The means of `num_resamples` samples of the items, each as large as the items, drawn with replacement.

    >>> bootstrap_means([0.5, 0.5], num_resamples=3)
    array([0.5, 0.5, 0.5])
    """
    items = _items(values, "values")
    require(num_resamples >= 1, "num_resamples", num_resamples, "at least 1")
    rng = np.random.default_rng(seed)
    rows = max(1, _CHUNK_ELEMENTS // len(items))
    means = [
        items.take(rng.integers(len(items), size=(min(rows, num_resamples - start), len(items)))).mean(1)
        for start in range(0, num_resamples, rows)
    ]
    return np.concatenate(means)


def bootstrap_interval(
    values: Values, *, level: float = 0.95, seed: int = 0, num_resamples: int = 10_000
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean of `values`, the same for the same seed.

    >>> low, high = bootstrap_interval([0, 1] * 50)
    >>> round(low, 2), round(high, 2)
    (0.4, 0.6)
    """
    require(0 < level < 1, "level", level, "between 0 and 1")
    means = bootstrap_means(values, seed=seed, num_resamples=num_resamples)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_difference(
    a: Values, b: Values, *, level: float = 0.95, seed: int = 0, num_resamples: int = 10_000
) -> PairedDifference:
    """mean(a − b), item by item, with its interval: what the items have in common cancels.

    >>> paired_difference([0.9, 0.2, 0.6], [0.8, 0.1, 0.5]).excludes_zero
    True
    """
    first, second = _items(a, "a"), _items(b, "b")
    if len(first) != len(second):
        raise DataError(
            f"A paired difference needs the same items on both sides, got {len(first)} and {len(second)} values. "
            "Give the values of the items that both have, in the same order."
        )
    differences = first - second
    low, high = bootstrap_interval(differences, level=level, seed=seed, num_resamples=num_resamples)
    return PairedDifference(float(differences.mean()), low, high)


def few_items_interval(samples: Sequence[NDArray[np.float64]]) -> tuple[float, float] | None:
    """The interval of a mean, or of the difference of two means, over few items; None where they are too few or alike.

    >>> low, high = few_items_interval([np.array([0.1, 0.2, 0.3])]) or (0, 0)
    >>> round(low, 1), round(high, 1)
    (-0.1, 0.5)
    """
    if min(map(len, samples)) < 2:
        return None
    means = [bootstrap_means(sample, seed=number) for number, sample in enumerate(samples)]
    drawn = means[0] - means[1] if len(means) == 2 else means[0]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if low == high:
        return None
    center = float(samples[0].mean() - (samples[1].mean() if len(samples) == 2 else 0.0))
    factor = _widening(samples)
    return center - factor * (center - float(low)), center + factor * (float(high) - center)


def more_items(samples: Sequence[NDArray[np.float64]], difference: float) -> int | None:
    """Items to add to each sample so that the interval excludes zero 4 times in 5, if difference and spread stay."""
    size = min(map(len, samples))
    if size < 2 or difference == 0:
        return None
    spread = math.sqrt(sum(sample.var(ddof=1) for sample in samples))
    power = NormalDist().inv_cdf(POWER)
    for needed in range(size + 1, MOST_ITEMS):
        if (student_t((needed - 1) * len(samples)) + power) * spread / math.sqrt(needed) <= abs(difference):
            return needed - size
    return None


def fisher_p(a: int, size_a: int, b: int, size_b: int) -> float:
    """Two-sided p: all splits of the a + b over the two sets that are no likelier than this one.

    >>> round(fisher_p(3, 3, 0, 3), 3), round(fisher_p(4, 4, 0, 4), 3)
    (0.1, 0.029)
    """
    total = a + b
    ways = [math.comb(size_a, n) * math.comb(size_b, total - n) for n in range(total + 1)]
    return sum(way for way in ways if way <= ways[a]) / sum(ways)


def student_t(freedom: int) -> float:
    """Student's t at 97.5 %: half the width of a 95 % interval, in standard errors."""
    return _T_975[max(freedom, 1) - 1] if freedom <= len(_T_975) else 1.96 + 2.5 / freedom


def _widening(samples: Sequence[NDArray[np.float64]]) -> float:
    """What makes a bootstrap interval of normal values as wide as Student's (Welch's for two samples)."""
    honest = math.sqrt(sum(sample.var(ddof=1) / len(sample) for sample in samples))
    drawn = math.sqrt(sum(sample.var(ddof=0) / len(sample) for sample in samples))
    parts = [(sample.var(ddof=1) / len(sample), len(sample) - 1) for sample in samples]
    freedom = sum(part for part, _ in parts) ** 2 / sum(part**2 / size for part, size in parts)
    return student_t(int(freedom)) / NormalDist().inv_cdf((1 + LEVEL) / 2) * honest / drawn


def _items(values: Values, name: str) -> NDArray[np.float64]:
    items = np.asarray(values, dtype=np.float64)
    if items.ndim != 1 or items.size == 0:
        raise DataError(f"{name} must be one number for each of at least one item, got shape {items.shape}.")
    if not np.isfinite(items).all():
        raise DataError(f"{name} must be finite, got {int((~np.isfinite(items)).sum())} that are not.")
    return items
