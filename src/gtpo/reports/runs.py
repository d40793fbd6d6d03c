"""A run as the reports see it: its rows of metrics, what it was, and its series under one set of names.

Reads the folder of a `gtpo train` run, and as well a bare metrics.jsonl, the trainer_state.json that any TRL run
leaves in its checkpoints, and a CSV with a header. What is usable is used; what was not is in `Run.notes`.
"""

import csv
import dataclasses
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.records import (
    GROUPS_FILE,
    LARGEST,
    METRICS_FILE,
    RecordFile,
    is_number,
    is_whole,
    parse_json,
    without_summary,
)

Row = dict[str, Any]

MEANINGS: dict[str, tuple[str, ...]] = {
    "accuracy": ("accuracy",),
    "format": ("format",),
    "entropy": ("entropy", "gtpo/entropy_mean"),  # TRL's, over tokens, which runs of GRPO have too
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
    "clipped": ("clip_ratio/region_mean",),
}
"""What the reports speak of, and the logged names that mean it, the better one first."""

_FALLBACKS = {
    "accuracy": re.compile(r"rewards/[^/]*(accura|correct)[^/]*/mean", re.IGNORECASE),
    "format": re.compile(r"rewards/[^/]*format[^/]*/mean", re.IGNORECASE),
}
"""Rewards of other people's runs that are an accuracy or a format rate, where they stay between 0 and 1."""


@dataclasses.dataclass(frozen=True)
class Series:
    """One quantity over the steps at which it was logged, finite values only."""

    steps: list[float]
    values: list[float]


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run; `path` is the folder it is in, `rows` its training rows in the order of steps."""

    path: Path
    name: str
    method: str
    seed: int | None
    rows: list[Row]
    after: dict[str, float]
    notes: list[str]
    entropy_threshold: float | None = None
    """In nats; None where the run tells of none."""
    held_out: str | None = None
    """On what and how the numbers of `after` were measured."""

    @property
    def num_steps(self) -> int:
        return int(self.rows[-1]["step"])

    def series(self, meaning: str) -> Series:
        return series(self.rows, meaning)


def series(rows: Sequence[Row], meaning: str) -> Series:
    """The series that `meaning` has in these rows, or an empty one.

    >>> series([{"step": 1, "entropy": 0.5}, {"step": 2, "entropy": None}], "entropy")
    Series(steps=[1], values=[0.5])
    """
    names = logged_names(rows, meaning)
    points = [(row["step"], next((row[name] for name in names if is_number(row.get(name))), None)) for row in rows]
    kept = [(step, float(value)) for step, value in points if value is not None]
    return Series([step for step, _ in kept], [value for _, value in kept])


def logged_names(rows: Sequence[Row], meaning: str) -> tuple[str, ...]:
    """The logged names of `meaning` in these rows: its own, or a reward that plainly is it."""
    own = tuple(name for name in MEANINGS.get(meaning, (meaning,)) if any(is_number(row.get(name)) for row in rows))
    if own or meaning not in _FALLBACKS:
        return own
    candidates = dict.fromkeys(name for row in rows for name in row if stands_for(name, meaning))
    fractions = (name for name in candidates if all(0 <= row[name] <= 1 for row in rows if is_number(row.get(name))))
    return tuple(fractions)[:1]


def stands_for(name: str, meaning: str) -> bool:
    """Is it a reward that is called like `meaning`?"""
    return meaning in _FALLBACKS and _FALLBACKS[meaning].fullmatch(name) is not None


def phases(rows: Sequence[Row]) -> list[str]:
    """The logged names of times, in seconds: the whole step and whatever parts of it were timed."""
    names = {name for row in rows for name in row if name == "step_time" or name.startswith("gtpo/seconds_")}
    return sorted(names, reverse=True)


def runs_among(paths: Sequence[Path], on_skip: Callable[[str], None]) -> list[Path]:
    """The paths without folders that hold no run, such as `runs/*` brings in; all of them where none is a run."""
    found: list[Path] = []
    skipped: list[str] = []
    for path in paths:
        try:
            metrics_file(path)
            found.append(path)
        except DataError as error:
            if not path.is_dir():
                raise
            skipped.append(str(error))
    if not found:
        return list(paths)
    for reason in skipped:
        on_skip(reason)
    return found


def load_runs(paths: Sequence[Path | str]) -> list[Run]:
    """Every run of `paths`; one that cannot be read is an error that names it.

    Of several checkpoints of one run, each is a run that is called after its checkpoint too.
    """
    sources = [metrics_file(Path(path)).resolve() for path in paths]
    for path, count in zip(paths, map(sources.count, sources), strict=True):
        if count > 1:
            raise DataError(f"{path} is given twice. Leave one out.")
    folders = [_run_of(source) for source in sources]
    return [
        dataclasses.replace(run, name=f"{run.name}/{source.parent.name}")
        if source.parent != folder and folders.count(folder) > 1
        else run
        for run, source, folder in zip(map(load_run, paths), sources, folders, strict=True)
    ]


def load_run(path: Path | str) -> Run:
    """A run from its folder or from one of the files that a run leaves."""
    source = metrics_file(Path(path))
    notes: list[str] = []
    folder = _run_of(source)
    rows = training_rows(read_rows(source, notes), notes)
    if not rows:
        told = "".join(f" {note}." for note in notes)
        hint = "Give another file of metrics, or wait" if notes else "Wait"
        raise DataError(
            f"{source} has no row of training metrics with a step yet.{told} {hint} for the run's next log."
        )
    about = _json_object(folder / "run.json", notes) if source.name == METRICS_FILE else {}
    summary = _json_object(folder / "summary.json", notes) if source.name == METRICS_FILE else {}
    name = folder.resolve().name if source.name in (METRICS_FILE, "trainer_state.json") else source.stem
    seed = about.get("seed", _seed_in(name))
    after = summary.get("after")
    after = after if isinstance(after, dict) else {}
    notes += _too_large([*rows, after])
    if not series(rows, "accuracy").values:
        notes.append("no accuracy was logged (`accuracy`, or a reward between 0 and 1 named after it)")
    return Run(
        path=folder,
        name=name,
        method=str(about.get("method") or _method_in(name)),
        seed=seed if is_whole(seed) else None,
        rows=rows,
        after={k: float(v) for k, v in after.items() if is_number(v)},
        notes=notes,
        entropy_threshold=_threshold_in(folder / GROUPS_FILE) if source.name == METRICS_FILE else None,
        held_out=_held_out(after),
    )


def _held_out(after: dict[str, Any]) -> str | None:
    """A sentence that two runs share if their numbers can be compared.

    >>> _held_out({"accuracy": 0.5, "problems": "lab", "num_problems": 256, "num_samples": 1, "temperature": 1.0})
    'lab: 256 problems × 1 at temperature 1'
    """
    if "num_problems" not in after:
        return None
    names = ("problems", "num_problems", "num_samples", "temperature")
    problems, count, samples, temperature = (_plain(after.get(name)) for name in names)
    limit = after.get("max_new_tokens")
    tokens = "" if limit is None else f", at most {_plain(limit)} tokens"
    return f"{problems}: {count} problems × {samples} at temperature {temperature}{tokens}"


def _plain(value: Any) -> str:
    return f"{value:g}" if is_number(value) else str(value)


def _too_large(rows: Sequence[Row]) -> list[str]:
    """One note for each name that has numbers which nothing can be reckoned with."""
    cells = (cell for row in rows for cell in row.items())
    counts = Counter(name for name, value in cells if isinstance(value, int | float) and abs(value) > LARGEST)
    return [f"{count} values of {name} are beyond {LARGEST:g} and were left out" for name, count in counts.items()]


def _run_of(source: Path) -> Path:
    """The folder of the run that a file of metrics belongs to; a TRL run has it in a checkpoint."""
    folder = source.parent
    return folder.resolve().parent if re.fullmatch(r"checkpoint-\d+", folder.resolve().name) else folder


def _threshold_in(groups: Path) -> float | None:
    """The entropy threshold that a run of GTPO wrote beside its groups."""
    first = next(RecordFile(groups).rows(), {}) if groups.is_file() else {}
    value: Any = first.get("entropy_threshold")
    return float(value) if is_number(value) else None


def metrics_file(path: Path) -> Path:
    """The file of metrics that `path` is or holds; a TRL run has its trainer_state.json in the last checkpoint."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise DataError(f"{path} does not exist. Give the folder of a run, its {METRICS_FILE} or trainer_state.json.")
    checkpoints = sorted(path.glob("checkpoint-*/trainer_state.json"), key=lambda file: file.stat().st_mtime)
    for found in (path / METRICS_FILE, path / "trainer_state.json", *reversed(checkpoints)):
        if found.is_file():
            return found
    if (path / "config.yaml").is_file() and (path / "run.json").is_file():
        resume = f"gtpo train --resume {shlex.quote(str(path))}"
        raise DataError(f"{path} has logged nothing yet: it stopped before its first step. {resume}")
    if any(path.glob("*.jsonl")):
        raise DataError(
            f"{path} is not a run. For the samples of an evaluation give `gtpo compare` its files: *.jsonl."
        )
    raise DataError(
        f"{path} is not a run: it has no {METRICS_FILE}, no trainer_state.json and no checkpoint with one. "
        "Give the folder that `gtpo train` or a TRL trainer wrote."
    )


def read_rows(path: Path, notes: list[str]) -> list[Row]:
    """All rows of a file of metrics, whatever its form; damage is noted, not raised."""
    skipped: dict[str, list[int]] = {}

    def on_skip(number: int, reason: str) -> None:
        skipped.setdefault(reason, []).append(number)

    try:
        if path.suffix == ".csv":
            return _csv_rows(path)
        if path.suffix == ".json":
            return _state_rows(path)
        rows = list(RecordFile(path).rows(on_skip))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}. Give a file of metrics.") from error
    notes += [_skipped_note(numbers, reason) for reason, numbers in skipped.items()]
    return rows


def _skipped_note(numbers: Sequence[int], reason: str) -> str:
    """Which lines were left out and why, in one sentence however many they are.

    >>> _skipped_note([5], "torn"), _skipped_note([1, 2, 3, 4, 7], "torn")
    ('line 5 skipped: torn', '5 lines skipped (1, 2, 3, …): torn')
    """
    if len(numbers) == 1:
        return f"line {numbers[0]} skipped: {reason}"
    shown = [*map(str, numbers[:3]), *["…"] * (len(numbers) > 3)]
    return f"{len(numbers)} lines skipped ({', '.join(shown)}): {reason}"


def training_rows(rows: Sequence[Row], notes: list[str]) -> list[Row]:
    """The rows of training steps, in order; of a step that was logged twice, as after a restart, the later row."""
    by_step: dict[float, Row] = {}
    num_without = 0
    for row in rows:
        if not is_number(row.get("step")):
            num_without += 1
        elif is_training_row(row):
            by_step[row["step"]] = without_summary(row)
    if num_without:
        notes.append(f"{num_without} rows without a step were left out (another schema?)")
    return [by_step[step] for step in sorted(by_step)]


def is_training_row(row: Row) -> bool:
    """Does it tell of training steps, not of an evaluation or of the whole run?"""
    return bool(without_summary(row)) and not any(name.startswith("eval_") for name in row)


def _csv_rows(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return [{name: _cell(text) for name, text in row.items() if name and text} for row in csv.DictReader(file)]


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _state_rows(path: Path) -> list[Row]:
    try:
        content = parse_json(path.read_text())
    except ValueError as error:
        raise DataError(f"{path} is not whole JSON ({error}). Take the one of an earlier checkpoint.") from error
    history = content.get("log_history") if isinstance(content, dict) else content
    if not isinstance(history, list):
        raise DataError(f"{path} has no log_history: it is not a trainer_state.json.")
    return [row for row in history if isinstance(row, dict)]


def _json_object(path: Path, notes: list[str]) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = parse_json(path.read_text())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        notes.append(f"{path.name} is not a whole JSON object and was left out")
        return {}
    return content


def _seed_in(name: str) -> int | None:
    found = re.search(r"(?:^|[-_.])(?:seed|s)[-_]?(\d+)$", name)
    return int(found[1]) if found else None


def _method_in(name: str) -> str:
    """A folder's name without its seed: `gtpo-seed3` and `gtpo-seed4` are one method.

    >>> _method_in("gtpo-seed3")
    'gtpo'
    """
    return re.sub(r"[-_.](?:seed|s)?[-_]?\d+$", "", name) or name
