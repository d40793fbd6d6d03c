"""Curves of one or many runs: a line a method, its seeds as a mean with a band."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from gtpo.logged import Series, phases
from gtpo.runs.run import Run


@dataclasses.dataclass(frozen=True)
class Line:
    """A method in one panel: each run's own smoothed curve, and over the steps that all have, their mean and range."""

    method: str
    runs: list[Series]
    steps: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One figure: what it shows, in which unit, and its lines. `marks` are horizontal lines with a name."""

    key: str
    title: str
    unit: str
    lines: list[Line]
    marks: dict[str, float]
    is_log: bool = False


@dataclasses.dataclass(frozen=True)
class Section:
    """Panels that belong together."""

    title: str
    text: str
    panels: list[Panel]


MOST_POINTS = 400
LEAST_LOG = 1e-12
"""What a logarithmic axis tells from zero."""
_PERCENT = "%"
_SECTIONS: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Learning",
        "What the policy gets right while it trains.",
        (
            ("accuracy", "Training accuracy", _PERCENT),
            ("format", "Complete format", _PERCENT),
            ("entropy", "Entropy", "nats"),
            ("reward", "Reward", ""),
        ),
    ),
    (
        "What the update did",
        "Completions that pass the entropy filter, tokens in conflict runs, groups without a better and a worse.",
        (
            ("kept", "Completions kept", _PERCENT),
            ("conflict", "Conflict tokens", _PERCENT),
            ("tied", "Tied groups", _PERCENT),
        ),
    ),
    (
        "Completions",
        "How long they are, how many are cut off at the length limit, and how many of a prompt's samples differ.",
        (
            ("length", "Mean length", "tokens"),
            ("truncated", "Truncated", _PERCENT),
            ("distinct", "Different completions", _PERCENT),
        ),
    ),
    (
        "Optimiser",
        "The gradient before clipping, and the step size.",
        (("grad_norm", "Gradient norm", ""), ("learning_rate", "Learning rate", "")),
    ),
)


def sections(runs: Sequence[Run]) -> list[Section]:
    """All panels for which some run has data, in their sections."""
    found: list[Section] = []
    for title, text, contents in _SECTIONS:
        panels = [panel(runs, *content) for content in contents]
        found.append(Section(title, text, [one for one in panels if one.lines]))
    times = [
        panel(
            runs,
            name,
            "Whole step" if name == "step_time" else name.removeprefix("gtpo/seconds_").capitalize(),
            "s",
        )
        for name in dict.fromkeys(name for run in runs for name in phases(run.rows))
    ]
    timed = [one for one in times if one.lines]
    found.append(Section("Time", "Seconds of a step and of its phases, as far as they were logged.", timed))
    return [section for section in found if section.panels]


def panel(runs: Sequence[Run], key: str, title: str, unit: str) -> Panel:
    """One quantity of all runs, a line a method in the order in which methods first appear."""
    scale = 100 if unit == _PERCENT else 1
    by_method: dict[str, list[Series]] = {}
    for run in runs:
        series = run.series(key)
        if series.values:
            values = [scale * value for value in moving_mean(series.values)]
            by_method.setdefault(run.method, []).append(_thinned(Series(series.steps, values)))
    lines = [_line(method, curves) for method, curves in by_method.items()]
    values = [value for line in lines for run in line.runs for value in run.values]
    is_log = key == "grad_norm" and bool(values) and min(values) > LEAST_LOG and max(values) > 30 * min(values)
    return Panel(key, title, unit, lines, {"ln 2": math.log(2)} if key == "entropy" else {}, is_log)


def methods(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.method for run in runs))


def moving_mean(values: Sequence[float]) -> list[float]:
    """Centred means over a twentieth of the points, cut off at both ends; fewer than 20 points stay as they are.

    >>> moving_mean([1.0, 2.0, 3.0])
    [1.0, 2.0, 3.0]
    """
    reach = len(values) // 40 if len(values) >= 40 else 1 if len(values) >= 20 else 0
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means: list[float] = []
    for i in range(len(values)):
        start, end = max(0, i - reach), min(len(values), i + reach + 1)
        means.append(float(sums[end] - sums[start]) / (end - start))
    return means


def _thinned(series: Series) -> Series:
    """No more points than a figure has room for; the last one stays."""
    every = -(-len(series.steps) // MOST_POINTS)
    picked = range((len(series.steps) - 1) % every, len(series.steps), every)
    return Series([series.steps[i] for i in picked], [series.values[i] for i in picked])


def _line(method: str, curves: list[Series]) -> Line:
    """Runs that logged at different steps are interpolated; the mean ends where the shortest run does."""
    first, last = max(c.steps[0] for c in curves), min(c.steps[-1] for c in curves)
    steps = sorted({step for c in curves for step in c.steps if first <= step <= last})
    if not steps:
        return Line(method, curves, [], [], [], [])
    rows = np.array([np.interp(steps, c.steps, c.values) for c in curves])
    return Line(
        method, curves, [float(step) for step in steps], rows.mean(0).tolist(), rows.min(0).tolist(),
        rows.max(0).tolist(),
    )  # fmt: skip
