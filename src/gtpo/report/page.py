"""The report as one HTML page that needs nothing else: no script, no network, and all text escaped.

The page is the template page.html.j2. This module computes what it shows.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from gtpo.report.curves import methods, sections
from gtpo.report.evaluations import Curve, evaluations_of
from gtpo.report.svg import NUM_COLORS, clean, curve_svg, panel_svg
from gtpo.runs.measures import final
from gtpo.runs.run import Run, health_of_run
from gtpo.text import MISSING

MOST_NAMES = 4
"""A title names this many methods; of more, it only has the number."""


def report_page(runs: Sequence[Run]) -> str:
    """The HTML page about these runs."""
    names = methods(runs)
    colors = {name: number % NUM_COLORS for number, name in enumerate(names)}
    curves, notes = evaluations_of(runs)
    evaluation_colors = _evaluation_colors(runs, curves, colors)
    return _template().render(
        title=" · ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} methods",
        subtitle=_subtitle(runs, names),
        colors=colors,
        has_seeds=len(runs) > len(names),
        tiles=[_tile(name, color, [run for run in runs if run.method == name]) for name, color in colors.items()],
        rows=[_row(run, colors[run.method]) for run in runs],
        sections=[
            {
                "title": section.title,
                "text": section.text,
                "figures": [_figure(panel.title, panel.unit, panel_svg(panel, colors)) for panel in section.panels],
            }
            for section in sections(runs)
        ],
        evaluations=_evaluation_figures(curves, evaluation_colors),
        evaluation_colors=evaluation_colors,
        notes=[f"{run.name}: {note}" for run in runs for note in run.notes] + notes,
    )


@functools.cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("gtpo.report", "."),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _printable(value: Any) -> Any:
    """What a template prints: text without control characters and of bounded length. Markup stays as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _subtitle(runs: Sequence[Run], names: Sequence[str]) -> str:
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    if len(names) > 1:
        count += f" of {len(names)} methods"
    steps = sorted({run.num_steps for run in runs})
    return f"{count}, {steps[0]} steps" if len(steps) == 1 else f"{count}, {steps[0]} to {steps[-1]} steps"


def _tile(method: str, color: int, runs: Sequence[Run]) -> dict[str, Any]:
    """What the runs of one method ended with."""
    facts = [
        _fact("accuracy", runs, 100, "%", digits=1),
        _fact("format", runs, 100, "%", digits=1),
        _fact("entropy", runs, 1, "nats", digits=3),
    ]
    num_runs = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    return {"method": method, "color": color, "num_runs": num_runs, "facts": facts}


def _fact(meaning: str, runs: Sequence[Run], scale: float, unit: str, digits: int) -> dict[str, str]:
    """A quantity at the end of training: its mean over runs, and its range over several runs."""
    ends = [scale * end for run in runs if (end := final(run.series(meaning))) is not None]
    if not ends:
        return {"name": meaning, "mean": MISSING, "unit": "", "range": ""}
    spread = f"{min(ends):.{digits}f} to {max(ends):.{digits}f}" if len(ends) > 1 else ""
    return {"name": meaning, "mean": f"{math.fsum(ends) / len(ends):.{digits}f}", "unit": unit, "range": spread}


def _row(run: Run, color: int) -> dict[str, Any]:
    """One run in the table."""
    accuracy, form, entropy = (final(run.series(meaning)) for meaning in ("accuracy", "format", "entropy"))
    cells = [
        MISSING if run.seed is None else str(run.seed),
        str(run.num_steps),
        _percent(accuracy),
        _percent(form),
        MISSING if entropy is None else f"{entropy:.3f}",
        _percent(run.after.get("accuracy")),
    ]
    return {"name": run.name, "color": color, "cells": cells, "verdict": health_of_run(run)[-1]}


def _figure(title: str, unit: str, svg: Markup) -> dict[str, str]:
    return {"title": title, "unit": unit, "svg": svg}


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f} %"


def _evaluation_colors(runs: Sequence[Run], curves: Sequence[Curve], colors: dict[str, int]) -> dict[str, int]:
    """The colour of its method for each evaluated run; a colour of its own if a method has several of them."""
    method = {run.name: run.method for run in runs}
    evaluated = list(dict.fromkeys(curve.label for curve in curves))
    if len({method[name] for name in evaluated}) == len(evaluated):
        return {name: colors[method[name]] for name in evaluated}
    return {name: number % NUM_COLORS for number, name in enumerate(evaluated)}


def _evaluation_figures(curves: Sequence[Curve], colors: dict[str, int]) -> list[dict[str, str]]:
    panels: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        panels.setdefault((curve.problems, curve.kind), []).append(curve)
    return [_figure(problems, f"{kind}@k, %", curve_svg(panel, colors)) for (problems, kind), panel in panels.items()]
