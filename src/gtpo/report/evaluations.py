"""The pass@k and maj@k curves in the results.json files that `gtpo eval` writes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gtpo.files import is_number, parse_json
from gtpo.report.curves import Line, Panel
from gtpo.runs.reading import read_small
from gtpo.runs.run import Run

KINDS = ("pass", "maj")
Labelled = tuple[dict[str, Any], str]
"""A result of `gtpo eval`, about one model on one problem set, and the name of its line."""


def evaluations_of(runs: Sequence[Run]) -> tuple[list[Panel], list[str]]:
    """The panels of the evaluations in the folders of these runs, and notes on files that cannot be used."""
    results: list[Labelled] = []
    notes: list[str] = []
    for run in runs:
        for path in sorted({*run.path.glob("results.json"), *run.path.glob("*/results.json")}):
            try:
                results_of_run = _results_of_run(parse_json(read_small(path))["results"], run.path)
                own = [(result, run.name) for result in results_of_run]
                evaluation_panels(own)  # raises if a value is not what it should be
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                notes.append(f"{path} is not what `gtpo eval` writes and was left out")
                continue
            if not own:
                notes.append(f"{path} is about several models, none of them named like this run, and was left out")
            results += own
    return evaluation_panels(results), notes


def evaluation_panels(results: Iterable[Labelled]) -> list[Panel]:
    """A panel per problem set and kind, in percent over k, with a line for each result."""
    panels: dict[tuple[str, str], Panel] = {}
    for result, name in results:
        problems = str(result["problems"]["name"])
        for kind in KINDS:
            line = _line(result["metrics"], kind, name)
            if line.x:
                panel = panels.setdefault((problems, kind), Panel(kind, problems, f"{kind}@k, %", [], over="k"))
                panel.lines.append(line)
    return list(panels.values())


def step_panels(results: Sequence[dict[str, Any]]) -> list[Panel]:
    """A panel per problem set with pass@k in percent over the steps of a run, a line for each k."""
    panels: list[Panel] = []
    results = sorted(results, key=lambda result: result["step"])
    for problems in dict.fromkeys(result["problems"]["name"] for result in results):
        own = [result for result in results if result["problems"]["name"] == problems]
        lines: list[Line] = []
        for name in [name for name in own[0]["metrics"] if name.startswith("pass@")]:
            estimates = [result["metrics"][name] for result in own]
            y, low, high = ([100 * estimate[field] for estimate in estimates] for field in ("value", "low", "high"))
            lines.append(Line(name, [float(result["step"]) for result in own], y, low, high))
        panels.append(Panel("pass", problems, "pass@k, %", lines, has_dots=True))
    return panels


def _line(metrics: dict[str, Any], kind: str, name: str) -> Line:
    points: list[tuple[int, ...]] = []
    for metric, estimate in metrics.items():
        if metric.startswith(f"{kind}@"):
            k = int(metric.removeprefix(f"{kind}@"))
            bounds = [estimate[field] for field in ("value", "low", "high")]
            if not 1 <= k <= 10**9 or not all(map(is_number, bounds)):
                raise ValueError(f"k of {metric} must be at least 1, and its estimate must be numbers")
            points.append((k, *(100 * bound for bound in bounds)))
    columns = list(zip(*sorted(points), strict=True)) or [()] * 4
    x, y, low, high = map(list[float], columns)
    return Line(name, x, y, low, high)


def _results_of_run(results: Sequence[dict[str, Any]], folder: Path) -> Sequence[dict[str, Any]]:
    """The results about the run's model, or all of them if they are about a single model."""
    own = [result for result in results if _is_model_of(str(result["model"]), folder)]
    is_single = len({result["model"] for result in results}) == 1
    return results if is_single and not own else own


def _is_model_of(model: str, folder: Path) -> bool:
    """Whether the evaluated model was named by the run's folder, or by model/ in it."""
    path = Path(model.rstrip("/"))
    return folder.resolve().name == (path.parent.name if path.name == "model" else path.name)
