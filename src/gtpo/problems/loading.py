"""Problems by the name of a set or the path of a file."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gtpo.errors import ConfigError, DataError, require
from gtpo.problems.lab import NUM_HELD_OUT, lab_problems
from gtpo.problems.problem import COLUMNS, Problem
from gtpo.problems.rows import Row, make_problem, read_problems, read_rows
from gtpo.problems.sets import PROBLEM_SETS

_TRL_COLUMN = re.compile("(?:prompt|completion|image|environment)s?|completion_ids|trainer_state|log_(?:extra|metric)")
"""Columns with a meaning in TRL. Columns of a file with these names do not reach reward functions."""


def load_problems(
    name: str | Path,
    *,
    split: str = "test",
    data_dir: str | Path | None = None,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Problem]:
    """The problems of a named set, or of a .jsonl or .parquet file; at most the first `limit`.

    Named sets come from the hub, unless `data_dir` or the environment variable GTPO_DATA names a folder of JSONL
    files. The package makes the set "lab" itself (256 problems unless `limit` is set). A file has no splits. `columns`
    maps our column names to those of the file: {"question": "task"}. Other columns are kept for reward functions.
    """
    require(limit is None or limit >= 1, "limit", limit, "None or at least 1")
    if is_file_name(name):
        return _load_file(Path(name).expanduser(), columns)[:limit]
    if columns:
        raise ConfigError(f"`columns` only applies to a .jsonl or .parquet file; {str(name)!r} is not a file.")
    if name == "lab":
        return lab_problems(split, limit or NUM_HELD_OUT)
    names = f"one of {', '.join(PROBLEM_SETS)}, lab or the path of a .jsonl or .parquet file"
    require(str(name) in PROBLEM_SETS, "problems", str(name), names)
    return PROBLEM_SETS[str(name)].load(split, data_dir, limit)


def is_file_name(name: str | Path) -> bool:
    """Whether the name is that of a file, not of a problem set."""
    return str(name).endswith((".jsonl", ".json", ".parquet"))


def parse_columns(text: str) -> dict[str, str]:
    """Parse the `--columns` option of the command line.

    >>> parse_columns("question=task, answer=truth")
    {'question': 'task', 'answer': 'truth'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        ours, _, theirs = (side.strip() for side in part.partition("="))
        is_pair = bool(ours and theirs)
        require(is_pair, "columns", text, "written as question=task,answer=truth (ours=the file's)")
        columns[ours] = theirs
    return columns


def _load_file(path: Path, columns: Mapping[str, str] | None) -> list[Problem]:
    for name in columns or {}:
        require(name in COLUMNS, "columns", name, f"a mapping from {', '.join(COLUMNS)} to columns of the file")

    def read(row: Row) -> Problem:
        problem = make_problem(row, path.stem, columns)
        if "####" in problem.answer:
            raise DataError(
                "the answer contains '####', so it is a complete solution. Keep only the part after '####' as the "
                "answer; the solution can go into a column 'solution'."
            )
        names = [name for name in row if name not in COLUMNS and not _TRL_COLUMN.fullmatch(name)]
        return replace(problem, others={name: row[name] for name in names})

    return read_problems(read_rows(path), read)
