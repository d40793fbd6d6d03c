"""Panels of the report and of figures for papers: a line with a band per method, or per evaluated model."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gtpo.logged import LN2, Series, names_in, phases, reward_function, series
from gtpo.report.links import GroupLinks
from gtpo.runs.measures import centred_mean
from gtpo.runs.run import Run

MOST_THIN = 20
"""A method with more runs has a band for the middle half of them instead of a thin line each."""
MOST_PANELS = 24
"""Reward functions, and metrics of evaluations, that are drawn."""
_PANEL_POINTS, _MOST_POINTS, _FEWEST_POINTS = 20_000, 400, 60
"""Points of all curves of a panel, and of each of them: a panel is about 400 pixels wide."""
_MOST_STEPS = 4000
"""Steps at which the runs of a method are averaged."""
_NOT_DRAWN = re.compile(
    r"(.*(_runtime|_per_second|_num_tokens|_preparation_time|[/_]std|[/_]min|[/_]max)|.*/(min|max)_.*|.*_terminated_.*"
    r"|eval_clip_ratio/.*)"
)
"""What evaluations log about their own speed, spreads and extremes, and about an update that they do not do."""
_HELD_OUT = re.compile(r"held_out/(pass@\d+|format)")

SECTIONS = {
    "Learning": "What the policy gets right while it trains.",
    "Reward functions": "The mean of each reward function before it is weighted.",
    "Evaluation": "What was measured on other problems before, during or after training, as it was logged.",
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
class Mark:
    """A recorded step on the curve of its run, and where its groups are shown."""

    step: float
    value: float
    href: str
    label: str


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve over `x` with a band from `low` to `high`, and what is drawn of the runs that it is the mean of."""

    name: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    thin: list[Series] = dataclasses.field(default_factory=list[Series])
    """The runs of a method with several of them, unless there are many."""
    middle: tuple[list[float], list[float]] | None = None
    """The range of the middle half of many runs."""
    marks: list[Mark] = dataclasses.field(default_factory=list[Mark])

    @property
    def has_band(self) -> bool:
        return bool(self.thin) or self.middle is not None


@dataclasses.dataclass(frozen=True)
class Panel:
    """One figure: what it shows, in which unit, and its lines over steps, or over k on a logarithmic axis."""

    key: str
    title: str
    unit: str
    lines: list[Line]
    over: str = "step"
    has_dots: bool = False

    @property
    def marks(self) -> dict[str, float]:
        """Named horizontal lines."""
        return {"ln 2": LN2} if self.key == "entropy" else {}


def sections(runs: Sequence[Run], links: Mapping[Path, GroupLinks] | None = None) -> dict[str, list[Panel]]:
    """The panels for which some run has data, by the title of their section. `links` are those of runs, by folder."""
    times = [name for run in runs for name in phases(run.rows)]
    titles = {name: name.removeprefix("gtpo/seconds_").removesuffix("_time").capitalize() for name in times}
    panels = [*_PANELS, *(("Time", name, title, "s") for name, title in titles.items())]
    by_section: dict[str, list[Panel]] = {title: [] for title in SECTIONS}
    for section, *content in panels:
        by_section[section].append(panel(runs, *content, links=links))
    logged = dict.fromkeys(name for run in runs for name in names_in(run.rows))
    functions = {name: function for name in logged if (function := reward_function(name)) is not None}
    if len(functions) > 1:
        drawn = list(functions.items())[:MOST_PANELS]
        by_section["Reward functions"] = [panel(runs, name, title, "", links=links) for name, title in drawn]
    by_section["Evaluation"] = _evaluation_panels(runs)
    kept = {title: [panel for panel in drawn if panel.lines] for title, drawn in by_section.items()}
    return {title: drawn for title, drawn in kept.items() if drawn}


def panel(
    runs: Sequence[Run], key: str, title: str, unit: str, *, links: Mapping[Path, GroupLinks] | None = None
) -> Panel:
    """One quantity of all runs, with a line per method in the order in which methods first appear."""
    scale = 100 if unit == "%" else 1
    curves: dict[str, list[Series]] = {}
    marks: dict[str, list[Mark]] = {}
    for run in runs:
        curve = run.series(key)
        if curve.values:
            curve = _thinned(Series(curve.steps, [scale * value for value in centred_mean(curve.values)]), _MOST_STEPS)
            curves.setdefault(run.method, []).append(curve)
            if links and run.path in links:
                marks.setdefault(run.method, []).extend(_marks(curve, links[run.path]))
    return Panel(key, title, unit, _lines(curves, marks))


def methods(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.method for run in runs))


def _evaluation_panels(runs: Sequence[Run]) -> list[Panel]:
    """Evaluations during training as they were logged, and the held-out problems."""
    by_title: dict[str, dict[str, list[Series]]] = {}
    for run in runs:
        for title, points in _held_out_curves(run).items():
            by_title.setdefault(title, {}).setdefault(run.method, []).append(points)
        for name in sorted(names_in(run.evaluations), key=lambda name: ("reward" not in name, name)):
            if name.startswith("eval_") and not _NOT_DRAWN.fullmatch(name):
                points = _thinned(series(run.evaluations, name), _MOST_STEPS)
                if points.values:
                    by_title.setdefault(name, {}).setdefault(run.method, []).append(points)
    return [
        Panel(title, title, "%" if title.startswith("held-out") else "", _lines(curves, {}), has_dots=True)
        for title, curves in list(by_title.items())[:MOST_PANELS]
    ]


def _held_out_curves(run: Run) -> dict[str, Series]:
    """What was measured on held-out problems, in percent: before training, while it ran (`held_out/*`), and after."""
    logged = {match[1]: match[0] for match in map(_HELD_OUT.fullmatch, names_in(run.rows)) if match}
    names = {"accuracy": logged.pop("pass@1", ""), "format": logged.pop("format", ""), **logged}
    curves: dict[str, Series] = {}
    for metric, name in names.items():
        curve = series(run.rows, name)
        points = dict(zip(curve.steps, curve.values, strict=True))
        for step, measured in ((0.0, run.measured.before), (float(run.num_steps), run.measured.after)):
            points |= {step: measured[metric]} if metric in measured else {}
        if len(points) > 1:
            steps = sorted(points)
            curves[f"held-out {metric}"] = _thinned(Series(steps, [100 * points[step] for step in steps]), _MOST_STEPS)
    return curves


def _lines(by_method: Mapping[str, list[Series]], marks: Mapping[str, list[Mark]]) -> list[Line]:
    num_curves = sum(len(curves) + 1 if len(curves) <= MOST_THIN else 1 for curves in by_method.values())
    most = min(_MOST_POINTS, max(_FEWEST_POINTS, _PANEL_POINTS // max(1, num_curves)))
    return [_line(method, curves, most, marks.get(method, [])) for method, curves in by_method.items()]


def _line(method: str, curves: list[Series], most: int, marks: list[Mark]) -> Line:
    """The mean and the range of the curves over the steps that all have, interpolated where a run did not log."""
    first = max(curve.steps[0] for curve in curves)
    last = min(curve.steps[-1] for curve in curves)
    steps = np.array(curves[0].steps)
    if any(curve.steps != curves[0].steps for curve in curves):
        steps = np.array(sorted({step for curve in curves for step in curve.steps if first <= step <= last}))
    if len(steps) > _MOST_STEPS:
        steps = steps[np.linspace(0, len(steps) - 1, _MOST_STEPS).astype(int)]
    rows = np.array([np.interp(steps, curve.steps, curve.values) for curve in curves])
    ranges = [rows.mean(0), rows.min(0), rows.max(0)]
    if len(curves) > MOST_THIN:
        ranges += [*np.quantile(rows, (0.25, 0.75), axis=0)]
    drawn = sorted(set().union(*(_drawn(values, most) for values in ranges)))
    y, low, high, *middle = (values[drawn].tolist() for values in ranges)
    has_thin = 1 < len(curves) <= MOST_THIN or not drawn  # runs that share no step have no mean
    thin = [_thinned(curve, most) for curve in curves] if has_thin else []
    return Line(method, steps[drawn].tolist(), y, low, high, thin, (middle[0], middle[1]) if middle else None, marks)


def _marks(curve: Series, links: GroupLinks) -> list[Mark]:
    values = np.interp(links.steps, curve.steps, curve.values).tolist()
    return [
        Mark(step, value, links.address(step), f"{links.name}, step {step}: recorded groups")
        for step, value in zip(links.steps, values, strict=True)
    ]


def _thinned(curve: Series, most: int) -> Series:
    """About as many points as there is room for, extremes included."""
    drawn = _drawn(np.array(curve.values), most)
    return Series([curve.steps[number] for number in drawn], [curve.values[number] for number in drawn])


def _drawn(values: NDArray[np.float64], most: int) -> Sequence[int]:
    """The points that are drawn: both ends, and the lowest and the highest of each part of the curve."""
    if len(values) <= most:
        return range(len(values))
    numbers = {0, len(values) - 1}
    for begin, end in itertools.pairwise(np.linspace(0, len(values), most // 2).astype(int).tolist()):
        part = values[begin:end]
        numbers |= {begin + int(part.argmin()), begin + int(part.argmax())}
    return sorted(numbers)
