"""Your own problems: any JSONL or Parquet file with a question and an answer in each row."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gtpo.errors import ConfigError, require
from gtpo.problems.problem import COLUMNS, Problem
from gtpo.problems.rows import make_problem, read_rows

TAKEN = (
    "prompt", "prompts", "completion", "completions", "completion_ids", "image", "images", "environment",
    "environments", "trainer_state", "log_extra", "log_metric",
)  # fmt: skip
"""Names that mean something to TRL: a file's columns of these names are not handed on."""


def load_file(path: str | Path, columns: Mapping[str, str] | None = None) -> list[Problem]:
    """The problems of a .jsonl or .parquet file; `columns` says how it calls ours, as in {"question": "problem"}.

    What a row holds beside our columns is kept for rewards.
    """
    for name in columns or {}:
        require(name in COLUMNS, "columns", name, f"a mapping from {', '.join(COLUMNS)} to the file's columns")
    path = Path(path).expanduser()
    known = {*COLUMNS, *TAKEN}
    return [
        replace(make_problem(row, place, path.stem, columns), others={k: v for k, v in row.items() if k not in known})
        for place, row in read_rows(path)
    ]


def parse_columns(text: str) -> dict[str, str]:
    """A mapping of columns as it is typed on a command line.

    >>> parse_columns("question=task, answer=truth")
    {'question': 'task', 'answer': 'truth'}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise ConfigError(f"columns must be written as question=task,answer=truth (ours=the file's), got {text!r}.")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
