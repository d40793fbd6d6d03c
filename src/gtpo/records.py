"""Records: what a run writes while it goes on, and everything else reads.

A run's folder holds two append-only files of JSON lines:

metrics.jsonl   one line per logging step: {"step": 7, "seconds": 31.2, "loss": …, "gtpo/frac_kept": …}
                evaluation lines have names that begin with "eval_"
groups.jsonl    one line per sampled group: a `GroupRecord`

A killed process can leave a torn last line; readers skip it and say so. Numbers that are not finite are null.
"""

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gtpo.errors import DataError

METRICS_FILE = "metrics.jsonl"
GROUPS_FILE = "groups.jsonl"
SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class CompletionRecord:
    """One completion; the lists have one entry per token."""

    token_ids: list[int]
    pieces: list[str]
    rewards: dict[str, float | None]  # by reward function, before weighting; None where it could not score
    advantage: float  # A
    push: float  # A − γ⟨H⟩
    entropy: float | None  # ⟨H⟩, nats; None where it was not computed
    kept: bool  # δ
    valid: bool
    prefix: int  # tokens in the conflict run from the start
    suffix: int  # tokens in the conflict run from the end
    token_weight: list[float]  # λ; 0 on tokens that are not trained
    token_advantage: list[float]  # Ã
    token_entropy: list[float] | None
    trained: list[bool]


@dataclasses.dataclass(frozen=True)
class GroupRecord:
    """The completions of one prompt in one step."""

    step: int
    prompt: str
    completions: list[CompletionRecord]
    entropy_threshold: float | None
    initial_entropy: float | None
    schema: int = SCHEMA


class RecordFile:
    """A file of JSON lines that is only ever appended to, one whole line at a time."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, record: GroupRecord | dict[str, Any]) -> None:
        row = dataclasses.asdict(record) if isinstance(record, GroupRecord) else record
        line = json.dumps(_finite(row), ensure_ascii=True, allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if file.tell() and not _ends_in_newline(file):
                line = "\n" + line  # whatever a killed process left stays a line of its own
            file.write(line.encode())

    def rows(self, on_skip: Any = None) -> Iterator[dict[str, Any]]:
        """Every whole line; `on_skip(line number, reason)` hears of the others."""
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if isinstance(row, dict):
                    yield row
                elif on_skip is not None and line.strip():
                    on_skip(number, "not a whole JSON line (was the run killed here?)")

    def cut_back(self, last_step: int) -> None:
        """Drop what came after `last_step`, and torn lines: a resumed run writes those steps again."""
        if not self.path.exists():
            return
        kept = [json.dumps(row) + "\n" for row in self.rows() if row.get("step", 0) <= last_step]
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(kept))
        os.replace(partial, self.path)

    def set_aside(self) -> None:
        """Give an earlier run's file another name, so that a new one begins with nothing and loses nothing."""
        if self.path.exists() and self.path.stat().st_size:
            number = 1
            while (other := self.path.with_name(f"{self.path.stem}.earlier-{number}{self.path.suffix}")).exists():
                number += 1
            os.replace(self.path, other)


def without_summary(logs: dict[str, Any]) -> dict[str, Any]:
    """A log without what the trainer says of the whole run at its end.

    TRL adds the metrics of the last steps to that summary where `logging_steps` has not come round again.

    >>> without_summary({"train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "epoch": 1.0, "reward": 3.0})
    {'epoch': 1.0, 'reward': 3.0}
    >>> without_summary({"train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "epoch": 1.0})
    {}
    """
    if "train_runtime" not in logs:
        return logs
    rest = {name: value for name, value in logs.items() if not name.startswith("train_") and name != "total_flos"}
    return rest if rest.keys() - {"step", "epoch", "num_tokens"} else {}


def read_metrics(run: Path | str, on_skip: Any = None) -> list[dict[str, Any]]:
    return list(RecordFile(_existing(run, METRICS_FILE)).rows(on_skip))


def read_groups(run: Path | str, on_skip: Any = None) -> list[GroupRecord]:
    return [group_from_row(row) for row in RecordFile(_existing(run, GROUPS_FILE)).rows(on_skip)]


def group_from_row(row: dict[str, Any]) -> GroupRecord:
    """A `GroupRecord` from its JSON form."""
    if row.get("schema") != SCHEMA:
        raise DataError(
            f"a group record has schema {row.get('schema')!r}, this version reads {SCHEMA}. "
            "Read it with the version of gtpo that wrote it."
        )
    fields = dict(row)
    completions = [CompletionRecord(**completion) for completion in fields.pop("completions")]
    return GroupRecord(completions=completions, **fields)


def _existing(run: Path | str, name: str) -> Path:
    path = Path(run) / name if Path(run).is_dir() else Path(run)
    if not path.is_file():
        raise DataError(f"{run} is not a run: it has no {name}. Give the folder that `gtpo train` wrote.")
    return path


def _ends_in_newline(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
