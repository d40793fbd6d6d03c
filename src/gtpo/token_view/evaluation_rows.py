"""Which of the rows that TRL logged are from evaluations.

An evaluation writes TRL's file of its step again. Its rows are at the end of the file; rows of training before them
stay if the evaluation has fewer rows than a batch. The files do not tell them apart, but the metrics of the run do.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gtpo.errors import DataError
from gtpo.files import is_integer, is_number
from gtpo.runs.reading import metrics_file, read_metrics

EVALUATION = "gtpo evaluation"
"""The field that marks a row of an evaluation."""
_MOST_PROMPTS = 1e9
"""Of an evaluation. A damaged file can have any number."""


class Evaluations(NamedTuple):
    """The evaluations that the metrics of a run show: their numbers of prompts, by step."""

    num_prompts: dict[int, int]
    last_step: float
    """The last step that has metrics. Later evaluations are unknown."""

    def mark(self, rows: Sequence[dict[str, Any]]) -> int:
        """Mark the rows of an evaluation in a file, which are those of its last prompts; returns their number."""
        step: Any = rows[-1].get("step") if rows else None
        num_prompts = self.num_prompts.get(step, 0) if is_integer(step) else 0
        prompts = [repr(row.get("prompt")) for row in rows]
        evaluated = set(list(dict.fromkeys(reversed(prompts)))[:num_prompts])
        marked = [row for row, prompt in zip(rows, prompts, strict=True) if prompt in evaluated]
        for row in marked:
            row[EVALUATION] = True
        return len(marked)


def evaluations_of(folder: Path) -> Evaluations:
    """The evaluations of the run that logged its completions into this folder; none if it has no metrics."""
    run = folder.resolve()
    run = run.parent if run.name == "completions" else run
    try:
        metrics = read_metrics(metrics_file(run), [])
    except DataError:
        return Evaluations({}, -math.inf)
    return Evaluations({int(row["step"]): _num_prompts(row) for row in metrics.evaluations}, metrics.last_step)


def _num_prompts(row: dict[str, Any]) -> int:
    """The prompts of an evaluation, or of several data sets: transformers logs the seconds and the prompts per second.

    >>> _num_prompts({"step": 6.0, "eval_runtime": 0.52, "eval_samples_per_second": 7.692, "eval_reward": 1.0})
    4
    """
    num_prompts = 0
    for name, seconds in row.items():
        rate = row.get(f"{name.removesuffix('runtime')}samples_per_second")
        if name.endswith("_runtime") and is_number(seconds) and is_number(rate):
            num_prompts += round(max(0.0, min(seconds * rate, _MOST_PROMPTS)))
    return num_prompts
