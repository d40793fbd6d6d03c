"""Your own problems: any JSONL or Parquet file with a question and an answer in each row."""

from collections.abc import Mapping
from pathlib import Path

from gtpo.errors import require
from gtpo.problems.problem import Problem
from gtpo.problems.rows import make_problem, read_rows


def load_file(path: str | Path, columns: Mapping[str, str] | None = None) -> list[Problem]:
    """The problems of a .jsonl or .parquet file; `columns` says how it calls ours, as in {"question": "problem"}."""
    ours = tuple(Problem.__dataclass_fields__)
    for name in columns or {}:
        require(name in ours, "columns", name, f"a mapping from {', '.join(ours)} to the file's columns")
    path = Path(path).expanduser()
    return [make_problem(row, place, path.stem, columns) for place, row in read_rows(path)]
