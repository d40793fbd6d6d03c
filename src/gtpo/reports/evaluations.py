"""Evaluations in reports: two sets of measured files compared over problems, and results.json of a run's folder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtpo.errors import DataError
from gtpo.evaluation.metrics import DIVERSITY, Measurement, comparable
from gtpo.records import is_number, parse_json
from gtpo.reports.compare import Comparison
from gtpo.statistics import paired_difference

FEWEST_PROBLEMS = 6
"""Fewer cannot show a difference: five that all speak for one side do so by chance one time in sixteen."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """pass@k or maj@k of one model on one problem set: k, value, low and high."""

    run: str
    problems: str
    kind: str
    points: list[tuple[int, float, float, float]]


def compare_evaluations(first: Sequence[Measurement], second: Sequence[Measurement]) -> list[Comparison]:
    """Every metric on every problem set of both sides; of several files of a side (seeds), each problem's mean."""
    shared = [name for name in dict.fromkeys(one.problems for one in first) if any(b.problems == name for b in second)]
    if not shared:
        raise DataError("The two sides were evaluated on different problem sets. Give files about the same one.")
    found: list[Comparison] = []
    for problems in shared:
        sides = [[one for one in side if one.problems == problems] for side in (first, second)]
        if len({one.header["problems"]["sha256"] for side in sides for one in side}) > 1:
            raise DataError(
                f"The problems called {problems!r} differ between the files. Sample all with the same ones."
            )
        names = comparable([one for side in sides for one in side])
        count = min(len(one.values[name]) for side in sides for one in side for name in names[:1])
        for name in names:
            a, b = (np.mean([one.values[name][:count] for one in side], axis=0) for side in sides)
            found.append(_comparison(f"{problems} {name}", a, b, [len(side) for side in sides]))
    return found


def _comparison(name: str, a: NDArray[np.float64], b: NDArray[np.float64], sizes: list[int]) -> Comparison:
    difference = paired_difference(a, b)
    is_bad = name.endswith("truncation_rate")
    has_direction = not name.endswith(("mean_length", "mean_entropy", *DIVERSITY))
    verdict = "not shown"
    if difference.excludes_zero and len(a) >= FEWEST_PROBLEMS:
        verdict = ("better" if (difference.difference > 0) != is_bad else "worse") if has_direction else "differs"
    return Comparison(
        name=name,
        first=float(a.mean()),
        second=float(b.mean()),
        difference=difference.difference,
        low=difference.low,
        high=difference.high,
        num_first=sizes[0],
        num_second=sizes[1],
        is_paired=True,
        verdict=verdict,
        more_seeds=None,
    )


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
