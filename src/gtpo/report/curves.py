"""Training curves of one or many runs: a line per method, its seeds as a mean with a band."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from gtpo.logged import LN2, Series, phases
from gtpo.runs.measures import centred_mean
from gtpo.runs.run import Run


@dataclasses.dataclass(frozen=True)
class Line:
    """A method in one panel: the smoothed curve of each run, and their mean and range over the steps that all have."""

    method: str
    runs: list[Series]
    steps: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One figure: what it shows, in which unit, and its lines. `marks` are named horizontal lines."""

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
"""A logarithmic axis draws smaller values as this one."""
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
        "Completions that pass the entropy filter, tokens in conflict runs, and groups whose rewards are all equal.",
        (
            ("kept", "Completions kept", _PERCENT),
            ("conflict", "Conflict tokens", _PERCENT),
            ("tied", "Tied groups", _PERCENT),
        ),
    ),
    (
        "Completions",
        "Their length, how many are truncated at the length limit, and how many completions of a prompt are distinct.",
        (
            ("length", "Mean length", "tokens"),
            ("truncated", "Truncated", _PERCENT),
            ("distinct", "Distinct completions", _PERCENT),
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
    by_section: list[Section] = []
    for title, text, contents in _SECTIONS:
        by_section.append(_section(title, text, [panel(runs, *content) for content in contents]))
    times = dict.fromkeys(name for run in runs for name in phases(run.rows))
    panels = [panel(runs, name, _phase_title(name), "s") for name in times]
    by_section.append(_section("Time", "Seconds per step and per phase, as far as they were logged.", panels))
    return [section for section in by_section if section.panels]


def panel(runs: Sequence[Run], key: str, title: str, unit: str) -> Panel:
    """One quantity of all runs, with a line per method in the order in which methods first appear."""
    scale = 100 if unit == _PERCENT else 1
    by_method: dict[str, list[Series]] = {}
    for run in runs:
        series = run.series(key)
        if series.values:
            values = [scale * value for value in centred_mean(series.values)]
            by_method.setdefault(run.method, []).append(_thinned(Series(series.steps, values)))
    lines = [_line(method, curves) for method, curves in by_method.items()]
    values = [value for line in lines for run in line.runs for value in run.values]
    is_log = key == "grad_norm" and bool(values) and min(values) > LEAST_LOG and max(values) > 30 * min(values)
    return Panel(key, title, unit, lines, {"ln 2": LN2} if key == "entropy" else {}, is_log)


def methods(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.method for run in runs))


def _section(title: str, text: str, panels: Sequence[Panel]) -> Section:
    return Section(title, text, [panel for panel in panels if panel.lines])


def _phase_title(name: str) -> str:
    return "Step" if name == "step_time" else name.removeprefix("gtpo/seconds_").capitalize()


def _thinned(series: Series) -> Series:
    """At most as many points as a figure has room for. The last one stays."""
    every = -(-len(series.steps) // MOST_POINTS)
    picked = range((len(series.steps) - 1) % every, len(series.steps), every)
    return Series([series.steps[i] for i in picked], [series.values[i] for i in picked])


def _line(method: str, curves: list[Series]) -> Line:
    """Interpolate runs that logged at different steps. The mean ends where the shortest run ends."""
    first = max(curve.steps[0] for curve in curves)
    last = min(curve.steps[-1] for curve in curves)
    steps = sorted({float(step) for curve in curves for step in curve.steps if first <= step <= last})
    if not steps:
        return Line(method, curves, [], [], [], [])
    rows = np.array([np.interp(steps, curve.steps, curve.values) for curve in curves])
    mean, low, high = rows.mean(0), rows.min(0), rows.max(0)
    return Line(method, curves, steps, mean.tolist(), low.tolist(), high.tolist())
