"""What is measured of a training curve: where it ends, how high it runs, how fast it rises, how far it falls."""

import math

import numpy as np

from gtpo.logged import Series


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
