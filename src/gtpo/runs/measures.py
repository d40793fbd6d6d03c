"""What is measured of a training curve: its end, its mean, how fast it rises and how far it falls.

There are two ways to smooth a curve. `trailing_mean` only looks back, so "the first step at which accuracy reached
80 %" is known at that step. `centred_mean` looks both ways and does not shift a drawn curve to the right.
"""

import math
from collections.abc import Sequence

import numpy as np

from gtpo.logged import Series

FEWEST_POINTS = 5
"""Points that a trailing mean needs: measures of the smoothed curve start at the fifth logged step."""
MOST_POINTS = 1000
"""Points that a mean is taken over."""


def trailing_mean(values: Sequence[float]) -> list[float]:
    """Means over the last twentieth of the points, at least five if there are so many, and at most a thousand."""
    size = max(FEWEST_POINTS, len(values) // 20)
    return _means(values, min(size, MOST_POINTS) - 1, 0)


def centred_mean(values: Sequence[float]) -> list[float]:
    """Means over a twentieth of the points around each one, fewer at both ends. Fewer than 20 points stay unchanged.

    >>> centred_mean([1.0, 2.0, 3.0])
    [1.0, 2.0, 3.0]
    """
    reach = len(values) // 40 if len(values) >= 40 else 1 if len(values) >= 20 else 0
    reach = min(reach, MOST_POINTS // 2)
    return _means(values, reach, reach)


def _means(values: Sequence[float], before: int, after: int) -> list[float]:
    """For each point, the mean over `before` points before it, itself and `after` points after it."""
    if not values:
        return []
    index = np.arange(len(values))
    counts = np.minimum(index, before) + 1 + np.minimum(index[::-1], after)
    sums = np.convolve(values, np.ones(before + 1 + after))[after : after + len(values)]
    return (sums / counts).tolist()


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
    """The first step at which the smoothed curve reaches `level`. A run that never does counts with its last step."""
    if not series.steps:
        return None
    points = zip(series.steps, trailing_mean(series.values), strict=True)
    reached = (step for step, value in list(points)[FEWEST_POINTS - 1 :] if value >= level)
    return next(reached, series.steps[-1])


def worst_drop(series: Series) -> float | None:
    """The deepest fall of the smoothed curve below its highest value so far."""
    curve = trailing_mean(series.values)[FEWEST_POINTS - 1 :]
    return float(np.max(np.maximum.accumulate(curve) - curve)) if curve else None
