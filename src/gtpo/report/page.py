"""The report as one HTML page that needs nothing else: no script, no network, everything escaped."""

import math
from collections.abc import Sequence

from gtpo.health.verdict import Verdict
from gtpo.report.curves import Section, methods, sections
from gtpo.report.evaluations import Curve, evaluation_curves
from gtpo.report.style import STYLE
from gtpo.report.svg import NUM_COLORS, curve_svg, escaped, panel_svg
from gtpo.runs.measures import final
from gtpo.runs.run import Run, health_of_run

MISSING = "–"


def report_page(runs: Sequence[Run]) -> str:
    """The whole page for these runs."""
    names = methods(runs)
    colors = {name: number for number, name in enumerate(names)}
    curves, notes = evaluations_of(runs)
    body = [_head(runs, names), _tiles(runs, colors), _table(runs, colors), _legend(runs, colors)]
    body += [_section(section, colors) for section in sections(runs)]
    if curves:
        body.append(_evaluations(curves, _curve_colors(runs, curves, colors)))
    body.append(_notes([f"{run.name}: {note}" for run in runs for note in run.notes] + notes))
    title = escaped(_title(names))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}: report</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _title(names: Sequence[str]) -> str:
    """All of a few names, else how many: the tiles have them all."""
    return " · ".join(names) if len(names) <= 4 else f"{len(names)} kinds of runs"


def evaluations_of(runs: Sequence[Run]) -> tuple[list[Curve], list[str]]:
    """The evaluations that lie in the folders of the runs."""
    curves: list[Curve] = []
    notes: list[str] = []
    for run in runs:
        found, trouble = evaluation_curves(run.path, run.name)
        curves += found
        notes += trouble
    return curves, notes


def _head(runs: Sequence[Run], names: Sequence[str]) -> str:
    count = f"{len(runs)} runs of {len(names)} methods" if len(names) > 1 else f"{len(runs)} runs"
    count = "one run" if len(runs) == 1 else count
    steps = sorted({run.num_steps for run in runs})
    reached = f"{steps[0]} steps" if len(steps) == 1 else f"{steps[0]} to {steps[-1]} steps"
    return f"<header><h1>{escaped(_title(names))}</h1><p>{count}, {reached}</p></header>"


def _tiles(runs: Sequence[Run], colors: dict[str, int]) -> str:
    """What each method ended with: the mean over its runs, and the range over seeds."""
    tiles: list[str] = []
    for method, color in colors.items():
        mine = [run for run in runs if run.method == method]
        facts = [
            _fact("accuracy", mine, "accuracy", 100, " %"),
            _fact("format", mine, "format", 100, " %"),
            _fact("entropy", mine, "entropy", 1, " nats"),
        ]
        seeds = f"{len(mine)} run{'s' if len(mine) > 1 else ''}"
        tiles.append(
            f'<div class="tile c{color % NUM_COLORS}"><h3><i></i>{escaped(method)} <small>{seeds}</small></h3>'
            f"<dl>{''.join(facts)}</dl></div>"
        )
    return (
        f'<section class="tiles">{"".join(tiles)}</section><p class="small">Means over the last tenth of training.</p>'
    )


def _fact(name: str, runs: Sequence[Run], meaning: str, scale: float, unit: str) -> str:
    ends = [value for run in runs if (value := final(run.series(meaning))) is not None]
    if not ends:
        return f"<div><dt>{name}</dt><dd>{MISSING}</dd></div>"
    digits = 1 if scale == 100 else 3
    value = f"{scale * math.fsum(ends) / len(ends):.{digits}f}<small>{unit}</small>"
    spread = f"{scale * min(ends):.{digits}f} to {scale * max(ends):.{digits}f}"
    shown = f'<dd class="range">{spread}</dd>' if len(ends) > 1 else ""
    return f"<div><dt>{name}</dt><dd>{value}</dd>{shown}</div>"


def _table(runs: Sequence[Run], colors: dict[str, int]) -> str:
    rows = [_row(run, colors[run.method], health_of_run(run)[-1]) for run in runs]
    head = "".join(
        f"<th>{name}</th>" for name in ("run", "seed", "steps", "accuracy", "format", "entropy", "held out", "health")
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _row(run: Run, color: int, verdict: Verdict) -> str:
    ends = {name: final(run.series(name)) for name in ("accuracy", "format", "entropy")}
    after = run.after.get("accuracy")
    cells = [
        f'<td><i class="c{color % NUM_COLORS}"></i>{escaped(run.name)}</td>',
        f"<td>{MISSING if run.seed is None else run.seed}</td><td>{run.num_steps}</td>",
        *(f"<td>{_percent(ends[name])}</td>" for name in ("accuracy", "format")),
        f"<td>{MISSING if ends['entropy'] is None else format(ends['entropy'], '.3f')}</td><td>{_percent(after)}</td>",
        f'<td class="health"><b class="level{verdict.level}">{verdict.name}</b> {escaped(verdict.reason)}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _legend(runs: Sequence[Run], colors: dict[str, int]) -> str:
    names = "".join(f'<span><i class="c{c % NUM_COLORS}"></i>{escaped(name)}</span>' for name, c in colors.items())
    several = any(sum(run.method == name for run in runs) > 1 for name in colors)
    text = "Lines are moving means over a twentieth of the steps."
    if several:
        text += (
            " Of several runs: their mean as far as all go, each run thin, the band from the lowest to the highest."
        )
    return f'<div class="legend">{names}<p>{text}</p></div>'


def _section(section: Section, colors: dict[str, int]) -> str:
    figures = [
        f"<figure><figcaption>{escaped(one.title)}{f' <small>{one.unit}</small>' if one.unit else ''}</figcaption>"
        f"{panel_svg(one, colors)}</figure>"
        for one in section.panels
    ]
    return (
        f'<section><h2>{section.title}</h2><p>{section.text}</p><div class="grid2">{"".join(figures)}</div></section>'
    )


def _curve_colors(runs: Sequence[Run], curves: Sequence[Curve], colors: dict[str, int]) -> dict[str, int]:
    """The colour of its method for each evaluated run; one of its own where a method has several."""
    method = {run.name: run.method for run in runs}
    evaluated = list(dict.fromkeys(curve.run for curve in curves))
    if len({method[name] for name in evaluated}) == len(evaluated):
        return {name: colors[method[name]] for name in evaluated}
    return {name: number for number, name in enumerate(evaluated)}


def _evaluations(curves: Sequence[Curve], colors: dict[str, int]) -> str:
    keys = dict.fromkeys((curve.problems, curve.kind) for curve in curves)
    figures = [
        f"<figure><figcaption>{escaped(problems)} <small>{kind}@k, %</small></figcaption>"
        f"{curve_svg([c for c in curves if (c.problems, c.kind) == (problems, kind)], colors)}</figure>"
        for problems, kind in keys
    ]
    shown = dict.fromkeys(curve.run for curve in curves)
    legend = "".join(f'<span><i class="c{colors[name] % NUM_COLORS}"></i>{escaped(name)}</span>' for name in shown)
    text = "pass@k and maj@k over k, with bootstrap 95 % intervals over problems."
    return (
        f'<section><h2>Held-out problems</h2><p>{text}</p><div class="legend">{legend}</div>'
        f'<div class="grid2">{"".join(figures)}</div></section>'
    )


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escaped(note)}</li>" for note in notes)
    return f'<section class="notes"><h2>Notes</h2><ul>{items}</ul></section>' if notes else ""


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.1f} %"
