"""The recorded groups of a run, read so that what is usable is used and the rest is named."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.files import JsonLines
from gtpo.records import GROUPS_FILE, SCHEMA, GroupRecord, group_from_row


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Groups in the order of their steps, and one sentence for each kind of thing that was left out."""

    groups: list[GroupRecord]
    notes: list[str]

    @property
    def steps(self) -> list[int]:
        return sorted({group.step for group in self.groups})

    def at_step(self, step: int) -> "Recorded":
        """Only the groups of one step."""
        chosen = [group for group in self.groups if group.step == step]
        if not chosen:
            raise DataError(f"Step {step} was not recorded. Recorded steps: {_listed(self.steps)}.")
        return dataclasses.replace(self, groups=chosen)


def read_recorded(run: Path | str) -> Recorded:
    """The groups of a run's folder (or of a groups.jsonl), without torn lines, other schemas and broken rows."""
    path = _groups_file(Path(run))
    skipped: Counter[str] = Counter()
    groups: list[GroupRecord] = []

    def on_skip(_: int, reason: str) -> None:
        skipped[reason] += 1

    for row in JsonLines(path).rows(on_skip):
        group = _usable(row, skipped)
        if group is not None:
            groups.append(group)
    notes = [f"{count} of the records in {path.name} skipped: {reason}." for reason, count in skipped.items()]
    if not groups:
        raise DataError(f"{path} has no group to show. " + (" ".join(notes) or "The run has recorded none so far."))
    return Recorded(sorted(groups, key=lambda group: group.step), notes)


def _usable(row: dict[str, Any], skipped: Counter[str]) -> GroupRecord | None:
    if row.get("schema") != SCHEMA:
        skipped[f"schema {repr(row.get('schema'))[:40]} where this version of gtpo reads {SCHEMA}"] += 1
        return None
    try:
        return group_from_row(row)
    except DataError:
        skipped["fields are missing or do not fit together"] += 1
        return None


def _groups_file(run: Path) -> Path:
    path = run / GROUPS_FILE if run.is_dir() else run
    if path.is_file():
        return path
    if not run.exists():
        raise DataError(f"{run} does not exist. Give the folder that a GTPO run wrote.")
    if any(run.glob("completions/*.parquet")) or any(run.glob("*.parquet")):
        raise DataError(
            f"{run} has no {GROUPS_FILE}, but completions that TRL logged. Try: gtpo inspect --completions {run}"
        )
    below = sorted(str(found.parent) for found in run.glob(f"*/{GROUPS_FILE}"))
    hint = f"Below it there are runs: {', '.join(below[:5])}" if below else "Give the folder that a GTPO run wrote"
    raise DataError(
        f"{run} is not a run with recorded groups: it has no {GROUPS_FILE}. {hint} "
        "(groups are recorded unless record_groups is 0)."
    )


def _listed(steps: Sequence[int], most: int = 24) -> str:
    shown = list(map(str, steps))
    if len(shown) > most:
        shown = [*shown[: most // 2], "…", *shown[-most // 2 :]]
    return ", ".join(shown)
