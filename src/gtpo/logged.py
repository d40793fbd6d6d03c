"""The metrics that trainers log: which names mean what, which rows belong to training, and series of them."""

import dataclasses
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from gtpo.files import LARGEST_NUMBER, is_number

Row = dict[str, Any]

_ABSENT = array("d", [math.nan])

LN2 = math.log(2)
"""The paper's entropy threshold, in nats."""

VOCAB_SIZE = "health/vocab_size"
"""Logged once by `gtpo.watch`, because the entropy of a uniform policy depends on it."""

MEANINGS: dict[str, tuple[str, ...]] = {
    "accuracy": ("accuracy",),
    "format": ("format",),
    "entropy": ("gtpo/token_entropy", "entropy", "gtpo/entropy_mean"),  # over tokens; TRL's leaves completions out
    "completion_entropy": ("gtpo/entropy_mean", "entropy"),  # ⟨H⟩, which the filter compares with its threshold
    "reward": ("reward",),
    "kept": ("gtpo/frac_kept",),
    "conflict": ("gtpo/frac_conflict",),
    "tied": ("gtpo/frac_tied_groups", "frac_reward_zero_std"),
    "distinct": ("gtpo/frac_distinct",),
    "length": ("completions/mean_length", "completion_length"),
    "truncated": ("completions/clipped_ratio",),
    "grad_norm": ("grad_norm",),
    "learning_rate": ("learning_rate",),
    "loss": ("loss",),
    "timeouts": ("rewards/timeouts",),
    "ratio": ("sampling/importance_sampling_ratio/mean",),
    "sampler_gap": ("sampling/sampling_logp_difference/mean",),  # mean |log p| between trainer and sampler
    "clipped": ("clip_ratio/region_mean",),
}
"""What reports and checks are about, and the logged names that mean it, the best one first."""

_COMPONENT = re.compile(r"rewards/(.+)/mean")
_FALLBACKS = {
    "accuracy": re.compile(r"rewards/[^/]*(accura|correct)[^/]*/mean", re.IGNORECASE),
    "format": re.compile(r"rewards/[^/]*format[^/]*/mean", re.IGNORECASE),
}
"""Rewards of other people's runs that are an accuracy or a format rate, as long as they stay between 0 and 1."""


@dataclasses.dataclass(frozen=True)
class Series:
    """One quantity over the steps at which it was logged, finite values only."""

    steps: list[float]
    values: list[float]


class Table(Sequence[Row]):
    """Rows of numbers, stored by column in a tenth of the memory that dictionaries take.

    A value that is not a finite number is None. Names that are too long, or too many, are left out.
    """

    MOST_COLUMNS, LONGEST_NAME, MOST_VALUES = 500, 200, 50_000_000

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._columns: dict[str, array[float]] = {}
        self._names: tuple[str, ...] = ()
        self._current: list[tuple[str, array[float]]] = []
        self._size = 0
        self._num_values = 0
        self.num_left_out = 0
        for row in rows:
            self.append(row)

    def append(self, row: Row) -> None:
        names = tuple(row)
        if names != self._names:
            self._prepare(names)
        for name, column in self._current:
            value = row[name]
            is_plain = type(value) is float and -LARGEST_NUMBER <= value <= LARGEST_NUMBER
            column.append(value if is_plain or is_number(value) else math.inf)
        self._size += 1
        self._reserve(len(self._current))

    def _prepare(self, names: tuple[str, ...]) -> None:
        """Find the columns of a row with other names than the row before, and fill them up to this row."""
        self._names, self._current = names, []
        for name in names:
            if name not in self._columns and (
                len(self._columns) >= self.MOST_COLUMNS or len(name) > self.LONGEST_NAME
            ):
                self.num_left_out += 1
                continue
            column = self._columns.setdefault(name, array("d"))
            gap = self._size - len(column)
            self._reserve(gap)
            column.extend(_ABSENT * gap)
            self._current.append((name, column))

    def picked(self, numbers: Sequence[int]) -> "Table":
        """The rows with these numbers, in this order."""
        table = Table()
        table._columns = {name: array("d", map(self.column(name).__getitem__, numbers)) for name in self._columns}
        table._size, table.num_left_out = len(numbers), self.num_left_out
        return table

    @property
    def names(self) -> list[str]:
        return list(self._columns)

    def column(self, name: str) -> "Sequence[float]":
        """The values of all rows: infinity where a value is not a finite number, NaN where there is none."""
        column = self._columns.get(name, array("d"))
        return column + _ABSENT * (self._size - len(column))

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._size))]
        number = range(self._size)[index]
        cells = ((name, column[number]) for name, column in self._columns.items() if number < len(column))
        return _row(cells)

    def __iter__(self) -> Iterator[Row]:
        names = self.names
        for values in zip(*map(self.column, names), strict=True):
            yield _row(zip(names, values, strict=True))

    def _reserve(self, count: int) -> None:
        self._num_values += count
        if self._num_values > self.MOST_VALUES:
            raise ValueError(f"it has more than {self.MOST_VALUES:,} values")


def _row(cells: Iterable[tuple[str, float]]) -> Row:
    """A row as it was logged, without numbers that are not finite."""
    row: Row = {name: None if value == math.inf else value for name, value in cells if value == value}
    step = row.get("step")
    if step is not None and step.is_integer():
        row["step"] = int(step)
    return row


def series(rows: Sequence[Row], meaning: str) -> Series:
    """The series of `meaning` in these rows; empty if it was not logged.

    >>> series([{"step": 1, "entropy": 0.5}, {"step": 2, "entropy": None}], "entropy")
    Series(steps=[1.0], values=[0.5])
    """
    names = logged_names(rows, meaning)
    if not names:
        return Series([], [])
    values = _column(rows, names[0])
    for other in (_column(rows, name) for name in names[1:]):
        if math.isfinite(sum(values)):
            break
        values = [first if math.isfinite(first) else second for first, second in zip(values, other, strict=True)]
    steps = _column(rows, "step")
    if math.isfinite(sum(values)):
        return Series(list(steps), list(values))
    points = zip(steps, values, strict=True)
    kept = [point for point in points if math.isfinite(point[1])]
    return Series([step for step, _ in kept], [value for _, value in kept])


def logged_names(rows: Sequence[Row], meaning: str) -> tuple[str, ...]:
    """The logged names of `meaning` in these rows: its own, or a reward that clearly is it."""
    own = tuple(name for name in MEANINGS.get(meaning, (meaning,)) if any(map(math.isfinite, _column(rows, name))))
    if own or meaning not in _FALLBACKS:
        return own
    for name in names_in(rows):
        if stands_for(name, meaning):
            values = list(filter(math.isfinite, _column(rows, name)))
            if values and all(0 <= value <= 1 for value in values):
                return (name,)
    return ()


def names_in(rows: Sequence[Row]) -> list[str]:
    """The names that any of these rows has, in the order in which they first appear."""
    return rows.names if isinstance(rows, Table) else list(dict.fromkeys(name for row in rows for name in row))


def _column(rows: Sequence[Row], name: str) -> Sequence[float]:
    if isinstance(rows, Table):
        return rows.column(name)
    return [float(row[name]) if is_number(row.get(name)) else math.nan for row in rows]


def stands_for(name: str, meaning: str) -> bool:
    """Whether `name` is the mean of a reward that is named after `meaning`."""
    return meaning in _FALLBACKS and _FALLBACKS[meaning].fullmatch(name) is not None


def reward_function(name: str) -> str | None:
    """The reward function whose mean is logged under `name`; None if it is another metric.

    >>> reward_function("rewards/format/mean"), reward_function("rewards/format/std")
    ('format', None)
    """
    match = _COMPONENT.fullmatch(name)
    return match[1] if match else None


def phases(rows: Sequence[Row]) -> list[str]:
    """The logged names of times in seconds: the step, and the parts of it that were timed."""
    return sorted(
        (name for name in names_in(rows) if name == "step_time" or name.startswith("gtpo/seconds_")), reverse=True
    )


def is_training_row(row: Row) -> bool:
    """Whether a row is about training steps, not about an evaluation or the complete run."""
    return bool(without_summary(row)) and not any(name.startswith("eval_") for name in row)


def without_summary(logs: Row) -> Row:
    """A log without the summary of the complete run that the trainer adds at its end.

    TRL adds the metrics of the last steps to that summary if they have not been logged yet.

    >>> without_summary({"train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "epoch": 1.0, "reward": 3.0})
    {'epoch': 1.0, 'reward': 3.0}
    >>> without_summary({"train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "epoch": 1.0})
    {}
    """
    if "train_runtime" not in logs:
        return logs
    rest = {name: value for name, value in logs.items() if not name.startswith("train_") and name != "total_flos"}
    return rest if rest.keys() - {"step", "epoch", "num_tokens"} else {}
