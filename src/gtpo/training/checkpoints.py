"""The models that a run left behind, for an evaluation over its steps."""

import re
from pathlib import Path

from gtpo.errors import DataError
from gtpo.evaluation.evaluate import model_name
from gtpo.files import is_integer, parse_json
from gtpo.models import find_model
from gtpo.training.run_folder import RunFolder


def models_of(folder: Path) -> dict[str, int]:
    """The start, the checkpoints, the best checkpoint and the final model of a run, each with its step.

    Of several models of one step the first counts, and a checkpoint that cannot be loaded is left out.
    """
    run = RunFolder.open(folder)
    try:
        start = str(parse_json((folder / "run.json").read_text())["model"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}/run.json does not name the model that the run started from: {error}.") from error
    summary = run.summary()
    best = summary.get("best")
    candidates = [
        (start, 0),
        *sorted(
            ((str(path), int(path.name.rpartition("-")[2])) for path in folder.glob("checkpoint-*") if _is_one(path)),
            key=lambda candidate: candidate[1],
        ),
        (str(run.model), summary.get("steps")),
        (str(folder / "best"), best.get("step") if isinstance(best, dict) else None),
    ]
    steps: dict[str, int] = {}
    for model, step in candidates:
        is_there = model == start or Path(model).is_dir()
        if is_integer(step) and is_there and step not in steps.values():
            find_model(model)
            steps[model_name(model)] = int(step)
    if len(steps) < 2:
        raise DataError(f"{folder} has no checkpoint and no model/ to evaluate. Train it first, or resume it.")
    return steps


def _is_one(path: Path) -> bool:
    """Whether the folder is a complete checkpoint."""
    return re.fullmatch(r"checkpoint-\d{1,12}", path.name) is not None and (path / "complete").is_file()
