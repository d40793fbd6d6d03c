"""The pass@k and maj@k curves of the results.json files in a run's folder."""

import dataclasses
from pathlib import Path
from typing import Any

from gtpo.files import is_number, parse_json


@dataclasses.dataclass(frozen=True)
class Curve:
    """pass@k or maj@k of one model on one problem set: k, value, low and high."""

    run: str
    problems: str
    kind: str
    points: list[tuple[int, float, float, float]]


def evaluation_curves(folder: Path, run: str) -> tuple[list[Curve], list[str]]:
    """The curves in every results.json of a run's folder and its subfolders, and notes on what was not usable."""
    curves: list[Curve] = []
    notes: list[str] = []
    for path in sorted({*folder.glob("results.json"), *folder.glob("*/results.json")}):
        try:
            results = parse_json(path.read_text())["results"]
            own = [result for result in results if _is_of(str(result["model"]), folder)]
            if not own and len({result["model"] for result in results}) > 1:
                notes.append(f"{path} is about several models, none of them called like this run: left out")
                continue
            for result in own or results:
                curves += _curves(result, run)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            notes.append(f"{path} is not what `gtpo eval` writes and was left out")
    return curves, notes


def _is_of(model: str, folder: Path) -> bool:
    """Is the evaluated model that of the run? As it was named: by the run's folder, or by model/ in it."""
    named = Path(model.rstrip("/"))
    return folder.resolve().name == (named.parent.name if named.name == "model" else named.name)


def _curves(result: dict[str, Any], run: str) -> list[Curve]:
    found: list[Curve] = []
    for kind in ("pass", "maj"):
        points = [
            (int(name.removeprefix(f"{kind}@")), of["value"], of["low"], of["high"])
            for name, of in result["metrics"].items()
            if name.startswith(f"{kind}@")
        ]
        if not all(point[0] >= 1 and all(map(is_number, point)) for point in points):
            raise ValueError(f"{kind}@k is not a number for each k")
        if points:
            found.append(Curve(run, str(result["problems"]["name"]), kind, sorted(points)))
    return found
