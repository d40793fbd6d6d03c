"""The models that a run left behind, for an evaluation over its steps."""

from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.evaluation.evaluate import model_name
from gtpo.files import is_integer
from gtpo.training.config.recipe import load_recipe
from gtpo.training.run_folder import RunFolder


def models_of(folder: Path) -> dict[str, int]:
    """The start, the checkpoints, the best checkpoint and the final model of a run, each with its step.

    Of several models of one step the first counts. Incomplete checkpoints are left out.
    """
    run = RunFolder.open(folder)
    settings = load_recipe(folder / "config.yaml", may_extend=False)
    start = str(settings["model"].value) if "model" in settings else "lab"
    summary = run.summary()
    best: Any = summary.get("best")
    candidates: list[tuple[Any, str]] = [
        (0, start),
        *((step, str(path)) for step, path in run.checkpoints().items()),
        (summary.get("steps"), str(run.model)),
        (best.get("step") if isinstance(best, dict) else None, str(folder / "best")),
    ]
    steps: dict[str, int] = {}
    for step, model in candidates:
        is_there = model == start or Path(model).is_dir()
        if is_integer(step) and is_there and step not in steps.values():
            steps[model_name(model)] = int(step)
    if len(steps) < 2:
        raise DataError(f"{folder} has no checkpoint and no model/ to evaluate. Train it first, or resume it.")
    return steps
