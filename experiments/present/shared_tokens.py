"""How many tokens good and bad completions share, and how that changes during training."""

from collections.abc import Sequence

import numpy as np

from experiments.lab.arms import ARMS
from experiments.lab.settings import SETTINGS
from experiments.present.claims import Records, of_arm
from experiments.present.lab_tables import NONE
from gtpo.evaluation.tables import markdown
from gtpo.runs.run import Run

SHARING = ("gtpo", "protect", "skip")
"""The arms that look for conflict tokens at both ends, with λ⁺ = 2, 1 and 0."""


def shared_table(records: Records, runs: Sequence[Run]) -> str:
    """Conflict tokens per completion and tied groups, in the first and the last eighth of the steps."""
    rows = [["where", "method", "runs", "tokens, first eighth", "last", "tied groups, first eighth, %", "last, %"]]
    rows_of_arms = [
        (f"lab, {setting}", arm, [record.to_run() for record in of_arm(records, setting, arm)])
        for setting in SETTINGS
        for arm in SHARING
    ]
    rows_of_arms += [(f"Qwen, seed {run.seed}", run.method, [run]) for run in runs if run.method in SHARING]
    for title, arm, arm_runs in rows_of_arms:
        side = [run for run in arm_runs if run.series("conflict").values and run.series("tied").values]
        if side:
            tokens, tied = np.mean([shared_tokens(run) for run in side], axis=0)
            cells = [*(f"{value:.1f}" for value in tokens), *(f"{100 * value:.0f}" for value in tied)]
            rows.append([title, ARMS[arm].title, str(len(side)), *cells])
    return markdown(rows) if len(rows) > 1 else NONE


def shared_tokens(run: Run) -> tuple[tuple[float, float], tuple[float, float]]:
    """Conflict tokens per completion of the groups that are not tied, and the share of tied groups."""
    conflict, length, tied = (np.array(run.series(name).values) for name in ("conflict", "length", "tied"))
    eighth = max(1, len(conflict) // 8)
    parts = slice(None, eighth), slice(-eighth, None)
    first, last = ((conflict * length)[part].mean() / (1 - tied[part].mean()) for part in parts)
    return (first, last), (tied[parts[0]].mean(), tied[parts[1]].mean())
