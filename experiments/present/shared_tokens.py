"""How much good and bad completions have in common, and how that grows: the table behind the mechanism."""

from collections.abc import Sequence

import numpy as np

from experiments.lab.arms import ARMS
from experiments.lab.settings import SETTINGS
from experiments.present.claims import Records, of_arm
from experiments.present.tables import NONE
from gtpo.evaluation.tables import markdown
from gtpo.runs.run import Run

SHARING = ("gtpo", "protect", "skip")
"""The arms that look for conflict tokens at both ends, by the weight of the good ones: λ⁺ = 2, 1 and 0."""


def shared_table(records: Records, runs: Sequence[Run]) -> dict[str, str]:
    """Conflict tokens of a completion and tied groups, in the first and in the last eighth of the steps."""
    rows = [["", "", "runs", "tokens, first eighth", "last", "tied groups, first eighth, %", "last, %"]]
    found = [
        (f"lab, {setting}", arm, [record.to_run() for record in of_arm(records, setting, arm)])
        for setting in SETTINGS
        for arm in SHARING
    ]
    found += [(f"Qwen, seed {run.seed}", run.method, [run]) for run in runs if run.method in SHARING]
    for where, arm, made in found:
        side = [run for run in made if run.series("conflict").values and run.series("tied").values]
        if side:
            tokens, tied = np.mean([shared_tokens(run) for run in side], axis=0)
            cells = [*(f"{value:.1f}" for value in tokens), *(f"{100 * value:.0f}" for value in tied)]
            rows.append([where, ARMS[arm].title, str(len(side)), *cells])
    return {"shared": markdown(rows) if len(rows) > 1 else NONE}


def shared_tokens(run: Run) -> tuple[tuple[float, float], tuple[float, float]]:
    """Conflict tokens of a completion where there can be any, that is in groups that are not tied; tied groups."""
    conflict, length, tied = (np.array(run.series(name).values) for name in ("conflict", "length", "tied"))
    eighth = max(1, len(conflict) // 8)
    parts = slice(None, eighth), slice(-eighth, None)
    first, last = ((conflict * length)[part].mean() / (1 - tied[part].mean()) for part in parts)
    return (first, last), (tied[parts[0]].mean(), tied[parts[1]].mean())
