"""The recorded groups of a run. Unusable records are skipped and reported."""

import dataclasses
import textwrap
from collections import Counter
from pathlib import Path

from gtpo.errors import DataError
from gtpo.files import JsonLines
from gtpo.records import GROUPS_FILE, SCHEMA, GroupRecord, group_from_row

NO_TEXTS = "The texts were not recorded (texts=False): tokens are shown by their position."
NO_SCORES = (
    "Entropies and log-probabilities were not recorded. They are left out if the model is sharded over processes or "
    "takes images."
)


@dataclasses.dataclass(frozen=True)
class LoadedGroups:
    """Groups in the order of their steps, and one note for each kind of record that was skipped."""

    groups: list[GroupRecord]
    notes: list[str]

    @property
    def steps(self) -> list[int]:
        return sorted({group.step for group in self.groups})

    def at_step(self, step: int) -> "LoadedGroups":
        """Only the groups of one step."""
        groups = [group for group in self.groups if group.step == step]
        if not groups:
            steps = textwrap.shorten(", ".join(map(str, self.steps)), 200, placeholder=" …")
            raise DataError(f"Step {step} was not recorded. Recorded steps: {steps}.")
        return dataclasses.replace(self, groups=groups)


def load_groups(run: Path | str) -> LoadedGroups:
    """The groups of a run's folder or of a groups.jsonl, without torn lines, other schemas and damaged records."""
    path = _groups_file(Path(run))
    skipped: Counter[str] = Counter()
    groups: list[GroupRecord] = []
    for row in JsonLines(path).rows(lambda _, reason: skipped.update([reason])):
        try:
            groups.append(group_from_row(row))
        except DataError:
            skipped[f"not schema 1 to {SCHEMA}, or fields are missing or inconsistent"] += 1
    notes = [f"{count} of the records in {path.name} skipped: {reason}." for reason, count in skipped.items()]
    if not groups:
        raise DataError(f"{path} has no groups to show. " + (" ".join(notes) or "The run has not recorded any yet."))
    completions = [completion for group in groups for completion in group.completions]
    if all(completion.pieces is None for completion in completions):
        notes.append(NO_TEXTS)
    if all(completion.token_entropy is None and completion.token_logp is None for completion in completions):
        notes.append(NO_SCORES)
    return LoadedGroups(sorted(groups, key=lambda group: group.step), notes)


def _groups_file(run: Path) -> Path:
    path = run / GROUPS_FILE if run.is_dir() else run
    if path.is_file():
        return path
    runs = sorted(str(file.parent) for file in run.glob(f"*/{GROUPS_FILE}"))
    hint = "Pass the folder of a run of `gtpo train`, or of a trainer with gtpo.watch(trainer) and record_groups > 0."
    if any(run.glob("completions/*.parquet")) or any(run.glob("*.parquet")):
        hint = f"But there are completions that TRL logged. Try: gtpo inspect --completions {run}"
    elif runs:
        hint = f"But there are runs: {', '.join(runs[:5])}."
    raise DataError(f"{path} does not exist. {hint}")
