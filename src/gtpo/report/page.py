"""The report as one HTML page that needs nothing else: no script, no network, and all text escaped.

The page is the template page.html.j2. This module computes what it shows.
"""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gtpo.health.verdict import UNKNOWN
from gtpo.report.curves import MOST_THIN, SECTIONS, Panel, methods, sections
from gtpo.report.evaluations import evaluations_of
from gtpo.report.links import group_links, page_address
from gtpo.report.svg import NUM_COLORS, clean, panel_svg
from gtpo.runs.measures import final
from gtpo.runs.run import Run
from gtpo.text import MISSING

MOST_NAMES = 4
"""A title names this many methods, and as many have a tile; of more, the title only has the number."""
MOST_ROWS = 20
"""More runs are summed up by method, and their own rows are folded."""
MOST_NOTES = 50

ENDS = {"reward": (1, 3, ""), "accuracy": (100, 1, "%"), "format": (100, 1, "%"), "entropy": (1, 3, "nats")}
"""What is printed of the end of training: scale, decimals and unit."""
_LARGEST = 1e7
"""Larger numbers are printed with an exponent."""


def report_page(runs: Sequence[Run], folder: Path = Path()) -> str:
    """The HTML page about these runs. `folder` is where it is written: links to pages in the runs start there."""
    names = methods(runs)
    colors = {name: number % NUM_COLORS for number, name in enumerate(names)}
    evaluations, notes = evaluations_of(runs)
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes] + notes
    if len(notes) > MOST_NOTES:
        notes = [*notes[:MOST_NOTES], f"and {len(notes) - MOST_NOTES} more"]
    environment = Environment(
        loader=PackageLoader("gtpo.report", "."),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    links = group_links(runs, folder)
    by_seed = sorted(runs, key=lambda run: (run.seed is None, run.seed or 0))
    return environment.get_template("page.html.j2").render(
        title=_title(runs, names),
        subtitle=_subtitle(runs, names),
        colors=colors,
        has_seeds=len(runs) > len(names),
        has_tiles=len(names) <= MOST_NAMES,
        has_middle=any(count > MOST_THIN for count in Counter(run.method for run in runs).values()),
        is_folded=len(runs) > MOST_ROWS,
        num_runs=len(runs),
        runs_by_method={name: [run for run in by_seed if run.method == name] for name in names},
        ends=shown_ends(runs),
        end_of_training=end_of_training,
        steps_text=steps_text,
        verdicts_text=_verdicts_text,
        has_held_out=any("accuracy" in run.after for run in runs),
        page_addresses={run.path: page_address(run, folder) for run in runs},
        has_links=bool(links),
        missing=MISSING,
        unknown=UNKNOWN,
        sections=sections(runs, links),
        section_texts=SECTIONS,
        panel_svg=panel_svg,
        evaluations=evaluations,
        evaluation_colors=_evaluation_colors(runs, evaluations, colors),
        notes=notes,
    )


def shown_ends(runs: Sequence[Run]) -> list[str]:
    """The quantities of `ENDS` that some run logged."""
    return [meaning for meaning in ENDS if any(run.series(meaning).values for run in runs)]


def end_of_training(runs: Sequence[Run], meaning: str) -> list[str]:
    """The mean over runs of a quantity of `ENDS`, and its range if there are several runs."""
    scale, digits, unit = ENDS[meaning]
    ends = [scale * end for run in runs if (end := final(run.series(meaning))) is not None]
    if not ends:
        return [MISSING]
    numbers = [math.fsum(ends) / len(ends)]
    if len(ends) > 1:
        numbers += [min(ends), max(ends)]
    mean, *span = [f"{number:.{digits}f}" if abs(number) < _LARGEST else f"{number:.3g}" for number in numbers]
    return [f"{text} {unit}".rstrip() for text in (mean, " to ".join(span)) if text]


def steps_text(runs: Sequence[Run]) -> str:
    """The steps of these runs: "80", "49 of 80", or "49 to 80"."""
    texts = {run.steps_text for run in runs}
    steps = sorted({run.num_steps for run in runs})
    return texts.pop() if len(texts) == 1 else f"{steps[0]} to {steps[-1]}"


def _verdicts_text(runs: Sequence[Run]) -> str:
    """How many runs have each verdict, the most common one first."""
    counts = Counter(run.verdict.name for run in runs)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _title(runs: Sequence[Run], names: Sequence[str]) -> str:
    if len(runs) == 1:
        return runs[0].name
    return " · ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} methods"


def _printable(value: Any) -> Any:
    """What a template prints: text without control characters and of bounded length. Markup stays as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _subtitle(runs: Sequence[Run], names: Sequence[str]) -> str:
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    if len(names) > 1:
        count += f" of {len(names)} methods"
    elif len(runs) == 1 and names[0] != runs[0].name:
        count += f" of {names[0]}"
    return f"{count}, {steps_text(runs)} steps"


def _evaluation_colors(runs: Sequence[Run], panels: Sequence[Panel], colors: dict[str, int]) -> dict[str, int]:
    """The colour of its method for each evaluated run; a colour of its own if a method has several of them."""
    method = {run.name: run.method for run in runs}
    evaluated = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    if len({method[name] for name in evaluated}) == len(evaluated):
        return {name: colors[method[name]] for name in evaluated}
    return {name: number % NUM_COLORS for number, name in enumerate(evaluated)}
