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
from gtpo.health.verdict import Verdict, health_of
from gtpo.logged import Row, Series, is_training_row, series
from gtpo.files import JsonLines, LARGEST_NUMBER, is_integer, is_number, parse_json
from gtpo.logged import without_summary
from gtpo.records import GROUPS_FILE, METRICS_FILE


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
    if not series(rows, "accuracy").values:
        notes.append("no accuracy was logged (`accuracy`, or a reward between 0 and 1 named after it)")
    return Run(
        path=folder,
        name=name,
        method=str(about.get("method") or _method_in(name)),
        seed=seed if is_integer(seed) else None,
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


def _run_of(source: Path) -> Path:
    """The folder of the run that a file of metrics belongs to; a TRL run has it in a checkpoint."""
    folder = source.parent
    return folder.resolve().parent if re.fullmatch(r"checkpoint-\d+", folder.resolve().name) else folder


def _threshold_in(groups: Path) -> float | None:
    """The entropy threshold that a run of GTPO wrote beside its groups."""
    first = next(JsonLines(groups).rows(), {}) if groups.is_file() else {}
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
        rows = list(JsonLines(path).rows(on_skip))
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


def health_of_run(run: Run, entropy_threshold: float | None = None) -> list[Verdict]:
    """A verdict after each row of a run, by its own threshold unless another one is given."""
    return health_of(
        run.rows, entropy_threshold=run.entropy_threshold if entropy_threshold is None else entropy_threshold
    )
