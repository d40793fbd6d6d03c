"""Reads the files that a run leaves: metrics.jsonl, TRL's trainer_state.json, or a CSV with a header.

Damage costs only what is damaged: lines and rows that cannot be used are skipped, and `notes` lists them.
"""

import contextlib
import csv
import dataclasses
import functools
import shlex
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import yaml

from gtpo.errors import DataError
from gtpo.files import is_number, parse_json, parse_row
from gtpo.logged import Row, Table, without_summary
from gtpo.records import METRICS_FILE

STATE_FILE = "trainer_state.json"
LONGEST_LINE, LONGEST_RECORD = 2**24, 2**26
"""Bytes of a line of metrics, and of a recorded group."""
MOST_CHARACTERS, MOST_SETTINGS = 2**26, 2**18
"""Limits of what is read of run.json and summary.json, and of config.yaml."""


def metrics_file(path: Path) -> Path:
    """The metrics file that `path` is or contains. A TRL run keeps its trainer_state.json in its checkpoints."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise DataError(f"{path} does not exist. Pass the folder of a run, its {METRICS_FILE} or {STATE_FILE}.")
    for file in (path / METRICS_FILE, path / STATE_FILE, *_states(path)):
        if file.is_file():
            return file
    if (path / "config.yaml").is_file() and (path / "run.json").is_file():
        resume = f"gtpo train --resume {shlex.quote(str(path))}"
        raise DataError(f"{path} has no metrics yet: the run stopped before its first step. Resume it with: {resume}")
    if any(path.glob("*.jsonl")):
        raise DataError(f"{path} is not a run. To compare evaluations, pass their sample files: {path}/*.jsonl.")
    raise DataError(
        f"{path} is not a run: it has no {METRICS_FILE}, no {STATE_FILE} and no checkpoint with one. "
        "Pass the folder that `gtpo train` or a TRL trainer wrote."
    )


@dataclasses.dataclass(frozen=True)
class Metrics:
    """The rows of a metrics file in the order of their steps."""

    training: Table
    evaluations: Table
    """Rows of an evaluation during training, with names that start with "eval_"."""
    last_step: float
    planned_steps: int | None = None
    """How many steps the trainer was to take; only TRL's trainer_state.json has it."""


def read_metrics(path: Path, notes: list[str]) -> Metrics:
    """The rows of a metrics file. Of a training step logged twice, the later row counts; evaluations are merged."""
    table = Table()
    numbers: dict[float, int] = {}
    evaluations: dict[float, Row] = {}
    num_without_step, last_step, planned_steps = 0, 0.0, None
    with _reading(path):
        planned_steps, rows = _rows(path, notes)
        for row in rows:
            if not is_number(row.get("step")):
                num_without_step += 1
                continue
            step = float(row["step"])
            last_step = max(last_step, step)
            if _is_evaluation(tuple(row)):
                evaluations.setdefault(step, {}).update(row)
            elif logged := without_summary(row):
                numbers[step] = len(table)
                table.append(logged)
    if num_without_step:
        notes.append(f"{num_without_step} rows without a step were left out (another schema?)")
    if table.num_left_out:
        notes.append(f"{table.num_left_out} values were left out: their names are too long, or too many")
    order = [numbers[step] for step in sorted(numbers)]
    table = table if order == list(range(len(table))) else table.picked(order)
    return Metrics(table, Table(evaluations[step] for step in sorted(evaluations)), last_step, planned_steps)


@functools.lru_cache(maxsize=64)
def _is_evaluation(names: tuple[str, ...]) -> bool:
    """Whether a row with these names is from an evaluation. Most rows of a run have the same names."""
    return any(name.startswith("eval_") for name in names)


def read_json_object(path: Path, notes: list[str]) -> dict[str, Any]:
    """The JSON object in a file; empty if the file does not exist or is damaged."""
    if not path.is_file():
        return {}
    try:
        content = parse_json(read_small(path))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        notes.append(f"{path.name} is not a complete JSON object and was left out")
        return {}
    return content


def read_settings(folder: Path) -> dict[str, Any]:
    """The options in the config.yaml of a run of `gtpo train`; empty if there is none, or none that can be read."""
    try:
        content: Any = yaml.safe_load(read_small(folder / "config.yaml", MOST_SETTINGS))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return {str(name): value for name, value in content.items()} if isinstance(content, dict) else {}


def read_small(path: Path, most: int = MOST_CHARACTERS) -> str:
    """The text of a file that a run wrote; ValueError if the file is longer than any run writes it."""
    with path.open(encoding="utf-8") as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise ValueError(f"it is longer than {most:,} characters")
    return text


def first_record(path: Path) -> Row:
    """The first complete row of JSON Lines; empty if there is none."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line in iter(lambda: file.readline(LONGEST_RECORD), b""):
            if row := parse_row(line):
                return row
    return {}


def planned_steps_in(folder: Path) -> int | None:
    """The number of steps in the newest checkpoint of a run."""
    return next((steps for path in _states(folder) if (steps := planned_steps(path))), None)


def planned_steps(state: Path) -> int | None:
    """The number of steps in a trainer_state.json; None if it has none, or is damaged."""
    with contextlib.suppress(OSError, ValueError):
        return _read_state(state)[0]
    return None


def _states(folder: Path) -> list[Path]:
    """The trainer_state.json of each checkpoint, the newest first."""
    paths = folder.glob(f"checkpoint-*/{STATE_FILE}")
    return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)


@contextlib.contextmanager
def _reading(path: Path) -> Generator[None]:
    try:
        yield
    except DataError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"Cannot read {path}: {error}. Pass a metrics file.") from error


def _rows(path: Path, notes: list[str]) -> tuple[int | None, Iterator[Row]]:
    """The planned number of steps if the file has it, and the rows."""
    if path.suffix == ".csv":
        return None, _csv_rows(path)
    if path.suffix == ".json":
        return _state_rows(path)
    return None, _line_rows(path, notes)


def _line_rows(path: Path, notes: list[str]) -> Iterator[Row]:
    """The rows of JSON Lines. A line of more than `LONGEST_LINE` bytes comes in pieces, none of them a row."""
    skipped: list[int] = []
    num_skipped = 0
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            row = parse_row(line)
            if row is not None:
                yield row
            elif line.strip():
                num_skipped += 1
                skipped = [*skipped, number][:4]
    if num_skipped:
        listed = ", ".join(map(str, skipped[:3])) + (", …" if num_skipped > 3 else "")
        notes.append(f"{num_skipped} incomplete JSON lines skipped (line {listed}): was the run killed there?")


def _csv_rows(path: Path) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {name: _cell(text) for name, text in row.items() if name and text}


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _read_state(path: Path) -> tuple[int | None, Any]:
    """The planned number of steps in a trainer_state.json, and its log_history. A list is a log_history by itself."""
    content = parse_json(path.read_bytes())
    if not isinstance(content, dict):
        return None, content
    steps: Any = content.get("max_steps")
    return int(steps) if is_number(steps) and steps > 0 else None, content.get("log_history")


def _state_rows(path: Path) -> tuple[int | None, Iterator[Row]]:
    planned, history = _read_state(path)
    if not isinstance(history, list):
        raise DataError(f"{path} has no log_history, so it is not a {STATE_FILE}. Pass the folder of a run.")
    return planned, (row for row in history if isinstance(row, dict))
