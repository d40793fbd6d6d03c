"""The report as one HTML page that needs nothing else: no script, no network, and all text escaped.

The page is the template page.html.j2. This module computes what it shows.
"""

import math
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gtpo.report.curves import SECTIONS, Panel, methods, sections
from gtpo.report.evaluations import evaluations_of
from gtpo.report.svg import NUM_COLORS, clean, panel_svg
from gtpo.runs.measures import final
from gtpo.runs.run import Run
from gtpo.text import MISSING

MOST_NAMES = 4
"""A title names this many methods; of more, it only has the number."""

ENDS = {"accuracy": (100, 1, "%"), "format": (100, 1, "%"), "entropy": (1, 3, "nats")}
"""What is printed of the end of training: scale, decimals and unit."""


def report_page(runs: Sequence[Run]) -> str:
    """The HTML page about these runs."""
    names = methods(runs)
    colors = {name: number % NUM_COLORS for number, name in enumerate(names)}
    evaluations, notes = evaluations_of(runs)
    environment = Environment(
        loader=PackageLoader("gtpo.report", "."),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        title=" · ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} methods",
        subtitle=_subtitle(runs, names),
        colors=colors,
        has_seeds=len(runs) > len(names),
        runs=runs,
        runs_by_method={name: [run for run in runs if run.method == name] for name in names},
        ends=ENDS,
        end_of_training=end_of_training,
        missing=MISSING,
        sections=sections(runs),
        section_texts=SECTIONS,
        panel_svg=panel_svg,
        evaluations=evaluations,
        evaluation_colors=_evaluation_colors(runs, evaluations, colors),
        notes=[f"{run.name}: {note}" for run in runs for note in run.notes] + notes,
    )


def end_of_training(runs: Sequence[Run], meaning: str) -> list[str]:
    """The mean over runs of a quantity of `ENDS`, and its lowest and highest value if there are several runs."""
    scale, digits, unit = ENDS[meaning]
    ends = [scale * end for run in runs if (end := final(run.series(meaning))) is not None]
    if not ends:
        return [MISSING]
    numbers = [math.fsum(ends) / len(ends)]
    if len(ends) > 1:
        numbers += [min(ends), max(ends)]
    return [f"{number:.{digits}f} {unit}" for number in numbers]


def _printable(value: Any) -> Any:
    """What a template prints: text without control characters and of bounded length. Markup stays as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _subtitle(runs: Sequence[Run], names: Sequence[str]) -> str:
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    if len(names) > 1:
        count += f" of {len(names)} methods"
    steps = sorted({run.num_steps for run in runs})
    return f"{count}, {steps[0]} steps" if len(steps) == 1 else f"{count}, {steps[0]} to {steps[-1]} steps"


def _evaluation_colors(runs: Sequence[Run], panels: Sequence[Panel], colors: dict[str, int]) -> dict[str, int]:
    """The colour of its method for each evaluated run; a colour of its own if a method has several of them."""
    method = {run.name: run.method for run in runs}
    evaluated = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    if len({method[name] for name in evaluated}) == len(evaluated):
        return {name: colors[method[name]] for name in evaluated}
    return {name: number % NUM_COLORS for number, name in enumerate(evaluated)}
