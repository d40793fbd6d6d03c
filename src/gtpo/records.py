"""Records: what a run writes while it goes on, and everything else reads.

A run's folder holds two append-only files of JSON lines:

metrics.jsonl   one line per logging step: {"step": 7, "seconds": 31.2, "loss": …, "gtpo/frac_kept": …}
                evaluation lines have names that begin with "eval_"
groups.jsonl    one line per sampled group: a `GroupRecord`

A killed process can leave a torn last line; readers skip it and say so. Numbers that are not finite are null.

Files come from elsewhere too: `parse_json`, `is_number` and `group_from_row` are the door through which every reader
takes what they hold, so that no value behind it can overflow, recurse or be of another type than it says.
"""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.errors import DataError

if TYPE_CHECKING:
    from gtpo.core.shaping import ShapedAdvantages

METRICS_FILE = "metrics.jsonl"
GROUPS_FILE = "groups.jsonl"
SCHEMA = 1
LARGEST = 1e60
"""No number of a run is larger: float32 ends at 3e38, and the fourth power that statistics take still fits a float."""


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


def completion_record(
    shaped: "ShapedAdvantages",
    row: int,
    *,
    token_ids: list[int],
    pieces: list[str],
    rewards: dict[str, float | None],
    advantage: float,
    entropy: float | None = None,
    token_entropy: list[float] | None = None,
) -> CompletionRecord:
    """A row of what `shape_advantages` returned, with what only the host knows of it."""
    size = len(token_ids)
    return CompletionRecord(
        token_ids=token_ids,
        pieces=pieces,
        rewards=rewards,
        advantage=advantage,
        push=shaped.push[row].item(),
        entropy=entropy,
        kept=bool(shaped.kept[row]),
        valid=bool(shaped.valid[row]),
        prefix=int(shaped.prefix_mask[row].sum()),
        suffix=int(shaped.suffix_mask[row].sum()),
        token_weight=shaped.token_weight[row, :size].tolist(),
        token_advantage=shaped.advantages[row, :size].tolist(),
        token_entropy=token_entropy,
        trained=shaped.trained[row, :size].tolist(),
    )


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
        for number, line, row in self._lines():
            if row is not None:
                yield row
            elif on_skip is not None and line.strip():
                on_skip(number, "not a whole JSON line (was the run killed here?)")

    def cut_back(self, last_step: int) -> None:
        """Drop what came after `last_step`, and lines that are torn or have no number for a step.

        A resumed run writes those steps again. What is kept stays as it was, byte for byte.
        """
        if not self.path.exists():
            return
        kept = [
            line.rstrip(b"\n") + b"\n"
            for _, line, row in self._lines()
            if row is not None and is_number(row.get("step")) and row["step"] <= last_step
        ]
        partial = self.path.with_suffix(".partial")
        partial.write_bytes(b"".join(kept))
        os.replace(partial, self.path)

    def _lines(self) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
        """The number of each line, the line, and its row; None where it is not a whole JSON object."""
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    row = parse_json(line)
                except ValueError:
                    row = None
                yield number, line, row if isinstance(row, dict) else None

    def set_aside(self) -> None:
        """Give an earlier run's file another name, so that a new one begins with nothing and loses nothing."""
        if self.path.exists() and self.path.stat().st_size:
            number = 1
            while (other := self.path.with_name(f"{self.path.stem}.earlier-{number}{self.path.suffix}")).exists():
                number += 1
            os.replace(self.path, other)


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says; ValueError wherever it cannot be read, also where json itself raises something else.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: its brackets nest too deep
    """
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError as error:
        raise ValueError("its brackets nest too deep") from error
    except ValueError as error:  # what int() says speaks of a setting of Python's
        raise ValueError("it has a whole number of thousands of digits; such a one must be text, in quotes") from error


def is_number(value: object) -> bool:
    """Can it be reckoned with? Not if it is a truth value, not finite or beyond `LARGEST`.

    >>> is_number(0.5), is_number(10**400), is_number(1e308), is_number(float("nan")), is_number(True), is_number("1")
    (True, False, False, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def is_whole(value: object) -> bool:
    """Is it a whole number, and one that `is_number` takes?"""
    return isinstance(value, int) and is_number(value)


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
    """A `GroupRecord` from its JSON form; DataError unless every field is there and is what its type says."""
    if row.get("schema") != SCHEMA:
        raise DataError(
            f"a group record has schema {row.get('schema')!r:.40}, this version reads {SCHEMA}. "
            "Read it with the version of gtpo that wrote it."
        )
    rest = [name for name in row if name not in ("schema", "completions")]
    completions = row.get("completions")
    if not (isinstance(completions, list) and completions and _fits(row, _GROUP_FIELDS, rest)):
        raise DataError("a group record has fields that are missing or do not fit together. Leave the record out.")
    if not all(isinstance(one, dict) and _fits(one, _COMPLETION_FIELDS, one) and _is_even(one) for one in completions):
        raise DataError("a completion has fields that are missing or do not fit together. Leave the record out.")
    return GroupRecord(
        completions=[CompletionRecord(**completion) for completion in completions],
        **{name: row[name] for name in _GROUP_FIELDS},
    )


def _fits(row: dict[str, Any], fields: dict[str, Callable[[Any], bool]], names: Iterable[str]) -> bool:
    """Are the names just those of the fields, and the values what they must be?"""
    return set(names) == set(fields) and all(is_right(row[name]) for name, is_right in fields.items())


def _is_even(completion: dict[str, Any]) -> bool:
    """Has each of its lists one entry per token, and has it as many tokens as its runs?"""
    size = len(completion["token_ids"])
    lists = [value for value in completion.values() if isinstance(value, list)]
    runs = completion["prefix"], completion["suffix"]
    return all(len(each) == size for each in lists) and all(0 <= run <= size for run in runs)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_number_or_null(value: object) -> bool:
    return value is None or is_number(value)


def _list_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_right, value))


_GROUP_FIELDS: dict[str, Callable[[Any], bool]] = {
    "step": is_whole,
    "prompt": _is_text,
    "entropy_threshold": _is_number_or_null,
    "initial_entropy": _is_number_or_null,
}
_COMPLETION_FIELDS: dict[str, Callable[[Any], bool]] = {
    "token_ids": _list_of(is_whole),
    "pieces": _list_of(_is_text),
    "rewards": lambda value: isinstance(value, dict) and all(map(_is_number_or_null, value.values())),
    "advantage": _is_number_or_null,
    "push": _is_number_or_null,
    "entropy": _is_number_or_null,
    "kept": _is_truth,
    "valid": _is_truth,
    "prefix": is_whole,
    "suffix": is_whole,
    "token_weight": _list_of(_is_number_or_null),
    "token_advantage": _list_of(_is_number_or_null),
    "token_entropy": lambda value: value is None or _list_of(_is_number_or_null)(value),
    "trained": _list_of(_is_truth),
}
"""What each field must be in JSON, where a number that was not finite is null."""


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
