"""Reads the files that a run leaves: metrics.jsonl, TRL's trainer_state.json, or a CSV with a header.

Damage costs only what is damaged: lines and rows that cannot be used are skipped, and `notes` says which.
"""

import csv
import shlex
from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.files import JsonLines, is_number, parse_json
from gtpo.logged import Row, is_training_row, without_summary
from gtpo.records import METRICS_FILE

STATE_FILE = "trainer_state.json"


def metrics_file(path: Path) -> Path:
    """The metrics file that `path` is or contains. A TRL run keeps its trainer_state.json in its checkpoints."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise DataError(f"{path} does not exist. Pass the folder of a run, its {METRICS_FILE} or {STATE_FILE}.")
    checkpoints = sorted(path.glob(f"checkpoint-*/{STATE_FILE}"), key=lambda file: file.stat().st_mtime)
    for file in (path / METRICS_FILE, path / STATE_FILE, *reversed(checkpoints)):
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


def read_training_rows(path: Path, notes: list[str]) -> list[Row]:
    """The rows of training steps in a metrics file, in order. Of a step logged twice, the later row counts."""
    by_step: dict[float, Row] = {}
    num_without_step = 0
    for row in _rows(path, notes):
        if not is_number(row.get("step")):
            num_without_step += 1
        elif is_training_row(row):
            by_step[row["step"]] = without_summary(row)
    if num_without_step:
        notes.append(f"{num_without_step} rows without a step were left out (another schema?)")
    return [by_step[step] for step in sorted(by_step)]


def read_json_object(path: Path, notes: list[str]) -> dict[str, Any]:
    """The JSON object in a file; empty if the file does not exist or is damaged."""
    if not path.is_file():
        return {}
    try:
        content = parse_json(path.read_text())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        notes.append(f"{path.name} is not a complete JSON object and was left out")
        return {}
    return content


def _rows(path: Path, notes: list[str]) -> list[Row]:
    try:
        if path.suffix == ".csv":
            return _csv_rows(path)
        if path.suffix == ".json":
            return _state_rows(path)
        skipped: list[int] = []
        rows = list(JsonLines(path).rows(lambda number, _: skipped.append(number)))
    except DataError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"Cannot read {path}: {error}. Pass a metrics file.") from error
    if skipped:
        listed = ", ".join(map(str, skipped[:3])) + (", …" if len(skipped) > 3 else "")
        notes.append(f"{len(skipped)} incomplete JSON lines skipped (line {listed}): was the run killed there?")
    return rows


def _csv_rows(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return [{name: _cell(text) for name, text in row.items() if name and text} for row in csv.DictReader(file)]


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _state_rows(path: Path) -> list[Row]:
    content = parse_json(path.read_text())
    history = content.get("log_history") if isinstance(content, dict) else content
    if not isinstance(history, list):
        raise DataError(f"{path} has no log_history, so it is not a {STATE_FILE}. Pass the folder of a run.")
    return [row for row in history if isinstance(row, dict)]
