"""Panels of the report and of figures for papers: a line with a band per method, or per evaluated model."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from gtpo.logged import LN2, Series, phases
from gtpo.runs.measures import centred_mean
from gtpo.runs.run import Run

MOST_POINTS = 400

SECTIONS = {
    "Learning": "What the policy gets right while it trains.",
    "What the update did": (
        "Completions that pass the entropy filter, tokens in conflict runs, and groups whose rewards are all equal."
    ),
    "Completions": (
        "Their length, how many are truncated at the length limit, and how many completions of a prompt are distinct."
    ),
    "Optimiser": "The gradient before clipping, and the step size.",
    "Time": "Seconds per step and per phase, as far as they were logged.",
}
"""The sections of training curves, and what they show."""

_PANELS = (
    ("Learning", "accuracy", "Training accuracy", "%"),
    ("Learning", "format", "Complete format", "%"),
    ("Learning", "entropy", "Entropy", "nats"),
    ("Learning", "reward", "Reward", ""),
    ("What the update did", "kept", "Completions kept", "%"),
    ("What the update did", "conflict", "Conflict tokens", "%"),
    ("What the update did", "tied", "Tied groups", "%"),
    ("Completions", "length", "Mean length", "tokens"),
    ("Completions", "truncated", "Truncated", "%"),
    ("Completions", "distinct", "Distinct completions", "%"),
    ("Optimiser", "grad_norm", "Gradient norm", ""),
    ("Optimiser", "learning_rate", "Learning rate", ""),
)
"""Section, key, title and unit of each panel."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve over `x` with a band from `low` to `high`. A method with several runs has them as `thin` curves."""

    name: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    thin: list[Series] = dataclasses.field(default_factory=list[Series])


@dataclasses.dataclass(frozen=True)
class Panel:
    """One figure: what it shows, in which unit, and its lines over steps, or over k on a logarithmic axis."""

    key: str
    title: str
    unit: str
    lines: list[Line]
    over: str = "step"

    @property
    def marks(self) -> dict[str, float]:
        """Named horizontal lines."""
        return {"ln 2": LN2} if self.key == "entropy" else {}


def sections(runs: Sequence[Run]) -> dict[str, list[Panel]]:
    """The panels for which some run has data, by the title of their section."""
    times = dict.fromkeys(name for run in runs for name in phases(run.rows))
    panels = [*_PANELS, *(("Time", name, _phase_title(name), "s") for name in times)]
    by_section: dict[str, list[Panel]] = {}
    for section, *content in panels:
        drawn = panel(runs, *content)
        if drawn.lines:
            by_section.setdefault(section, []).append(drawn)
    return by_section


def panel(runs: Sequence[Run], key: str, title: str, unit: str) -> Panel:
    """One quantity of all runs, with a line per method in the order in which methods first appear."""
    scale = 100 if unit == "%" else 1
    by_method: dict[str, list[Series]] = {}
    for run in runs:
        series = run.series(key)
        if series.values:
            values = [scale * value for value in centred_mean(series.values)]
            by_method.setdefault(run.method, []).append(_thinned(Series(series.steps, values)))
    return Panel(key, title, unit, [_line(method, curves) for method, curves in by_method.items()])


def methods(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.method for run in runs))


def _phase_title(name: str) -> str:
    return "Step" if name == "step_time" else name.removeprefix("gtpo/seconds_").capitalize()


def _thinned(series: Series) -> Series:
    """At most as many points as a figure has room for. The last one stays."""
    every = -(-len(series.steps) // MOST_POINTS)
    first = (len(series.steps) - 1) % every
    return Series(series.steps[first::every], series.values[first::every])


def _line(method: str, curves: list[Series]) -> Line:
    """The mean and the range of the curves over the steps that all have, interpolated where a run did not log."""
    first = max(curve.steps[0] for curve in curves)
    last = min(curve.steps[-1] for curve in curves)
    steps = sorted({float(step) for curve in curves for step in curve.steps if first <= step <= last})
    rows = np.array([np.interp(steps, curve.steps, curve.values) for curve in curves])
    mean, low, high = rows.mean(0).tolist(), rows.min(0).tolist(), rows.max(0).tolist()
    return Line(method, steps, mean, low, high, curves if len(curves) > 1 else [])
