"""Your own problems: any JSONL or Parquet file with a question and an answer in each row."""

from collections.abc import Mapping
from pathlib import Path

from gtpo.errors import ConfigError, require
from gtpo.problems.problem import Problem
from gtpo.problems.rows import make_problem, read_rows


def load_file(path: str | Path, columns: Mapping[str, str] | None = None) -> list[Problem]:
    """The problems of a .jsonl or .parquet file; `columns` says how it calls ours, as in {"question": "problem"}."""
    ours = tuple(Problem.__dataclass_fields__)
    for name in columns or {}:
        require(name in ours, "columns", name, f"a mapping from {', '.join(ours)} to the file's columns")
    path = Path(path).expanduser()
    return [make_problem(row, place, path.stem, columns) for place, row in read_rows(path)]


def parse_columns(text: str) -> dict[str, str]:
    """A mapping of columns as it is typed on a command line.

    >>> parse_columns("question=task, answer=truth")
    {'question': 'task', 'answer': 'truth'}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise ConfigError(f"columns must be written as question=task,answer=truth (ours=the file's), got {text!r}.")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
