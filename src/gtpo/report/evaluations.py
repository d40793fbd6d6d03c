"""The pass@k and maj@k curves in the results.json files that `gtpo eval` writes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtpo.files import is_number, parse_json
from gtpo.runs.run import Run

KINDS = ("pass", "maj")


@dataclasses.dataclass(frozen=True)
class Point:
    """pass@k or maj@k at one k, with its interval over problems, in percent."""

    k: int
    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Curve:
    """pass@k or maj@k over k of one run or model, which `label` names, on one problem set."""

    label: str
    problems: str
    kind: str
    points: list[Point]


def evaluations_of(runs: Sequence[Run]) -> tuple[list[Curve], list[str]]:
    """The curves of the evaluations in the folders of these runs, and notes on files that cannot be used."""
    curves: list[Curve] = []
    notes: list[str] = []
    for run in runs:
        for path in sorted({*run.path.glob("results.json"), *run.path.glob("*/results.json")}):
            try:
                results = _results_of_run(parse_json(path.read_text())["results"], run.path)
                if not results:
                    notes.append(f"{path} is about several models, none of them named like this run, and was left out")
                curves += [curve for result in results for curve in result_curves(result, run.name)]
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                notes.append(f"{path} is not what `gtpo eval` writes and was left out")
    return curves, notes


def result_curves(result: dict[str, Any], label: str) -> list[Curve]:
    """The curves of one result: one model on one problem set, as `gtpo eval` writes it to results.json."""
    curves: list[Curve] = []
    for kind in KINDS:
        points: list[Point] = []
        for name, estimate in result["metrics"].items():
            if name.startswith(f"{kind}@"):
                bounds = [estimate[field] for field in ("value", "low", "high")]
                if not all(map(is_number, bounds)):
                    raise ValueError(f"{name} is not a number")
                points.append(Point(int(name.removeprefix(f"{kind}@")), *(100 * bound for bound in bounds)))
        if any(not 1 <= point.k <= 10**9 for point in points):
            raise ValueError(f"k of {kind}@k must be at least 1")
        if points:
            problems = str(result["problems"]["name"])
            curves.append(Curve(label, problems, kind, sorted(points, key=lambda point: point.k)))
    return curves


def _results_of_run(results: Sequence[dict[str, Any]], folder: Path) -> Sequence[dict[str, Any]]:
    """The results about the run's model, or all of them if they are about a single model."""
    own = [result for result in results if _is_model_of(str(result["model"]), folder)]
    is_single = len({result["model"] for result in results}) == 1
    return results if is_single and not own else own


def _is_model_of(model: str, folder: Path) -> bool:
    """Whether the evaluated model was named by the run's folder, or by model/ in it."""
    path = Path(model.rstrip("/"))
    return folder.resolve().name == (path.parent.name if path.name == "model" else path.name)
