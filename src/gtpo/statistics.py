"""Bootstrap intervals over items: how far a mean over problems, or a difference of two, can be trusted.

The item is the unit that was drawn: a problem of a test set, a seed of a training run. Resampling items with
replacement and taking percentiles needs no assumption on how their values are distributed, but it knows only the items
it has: with fewer than about ten of them, and wherever all values are equal, the interval is too narrow.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError, require

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


def _items(values: Values, name: str) -> NDArray[np.float64]:
    items = np.asarray(values, dtype=np.float64)
    if items.ndim != 1 or items.size == 0:
        raise DataError(f"{name} must be one number for each of at least one item, got shape {items.shape}.")
    if not np.isfinite(items).all():
        raise DataError(f"{name} must be finite, got {int((~np.isfinite(items)).sum())} that are not.")
    return items
