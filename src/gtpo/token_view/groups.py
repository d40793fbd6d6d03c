"""The recorded groups of a run. Unusable records are skipped and reported."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gtpo.errors import DataError
from gtpo.files import JsonLines
from gtpo.records import GROUPS_FILE, SCHEMA, GroupRecord, group_from_row


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
            raise DataError(f"Step {step} was not recorded. Recorded steps: {_listed(self.steps)}.")
        return dataclasses.replace(self, groups=groups)


def load_groups(run: Path | str) -> LoadedGroups:
    """The groups of a run's folder or of a groups.jsonl, without torn lines, other schemas and damaged records."""
    path = _groups_file(Path(run))
    skipped: Counter[str] = Counter()
    groups: list[GroupRecord] = []

    def on_skip(_: int, reason: str) -> None:
        skipped[reason] += 1

    for row in JsonLines(path).rows(on_skip):
        if row.get("schema") != SCHEMA:
            skipped[f"schema {row.get('schema')!r:.40}, while this version of gtpo reads schema {SCHEMA}"] += 1
            continue
        try:
            groups.append(group_from_row(row))
        except DataError:
            skipped["fields are missing or inconsistent"] += 1
    notes = [f"{count} of the records in {path.name} skipped: {reason}." for reason, count in skipped.items()]
    if not groups:
        raise DataError(f"{path} has no groups to show. " + (" ".join(notes) or "The run has not recorded any yet."))
    return LoadedGroups(sorted(groups, key=lambda group: group.step), notes)


def _groups_file(run: Path) -> Path:
    path = run / GROUPS_FILE if run.is_dir() else run
    if path.is_file():
        return path
    if not run.exists():
        raise DataError(f"{run} does not exist. Pass the folder of a GTPO run.")
    if any(run.glob("completions/*.parquet")) or any(run.glob("*.parquet")):
        raise DataError(
            f"{run} has no {GROUPS_FILE}, but it has completions that TRL logged. "
            f"Try: gtpo inspect --completions {run}"
        )
    runs = sorted(str(file.parent) for file in run.glob(f"*/{GROUPS_FILE}"))
    hint = f"It contains runs: {', '.join(runs[:5])}" if runs else "Pass the folder of a GTPO run"
    raise DataError(
        f"{run} is not a run with recorded groups: it has no {GROUPS_FILE}. {hint} "
        "(a run records groups unless record_groups is 0)."
    )


def _listed(steps: Sequence[int], max_listed: int = 24) -> str:
    numbers = list(map(str, steps))
    if len(numbers) > max_listed:
        numbers = [*numbers[: max_listed // 2], "…", *numbers[-max_listed // 2 :]]
    return ", ".join(numbers)
