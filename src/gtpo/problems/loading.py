"""Problems by the name of a set, the path of a file or folder, or the id of a data set on the hub."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gtpo.errors import ConfigError, DataError, require
from gtpo.problems.data_sets import read_data_set
from gtpo.problems.lab import NUM_HELD_OUT, lab_problems
from gtpo.problems.problem import COLUMNS, Problem
from gtpo.problems.rows import Row, fits_field, make_problem, read_problems, read_rows
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
    needs_answer: bool = True,
) -> list[Problem]:
    """The problems of a named set, or of the user's own data; at most the first `limit`.

    Named sets come from the hub, unless `data_dir` or the environment variable GTPO_DATA names a folder of JSONL
    files. The package makes the set "lab" itself (256 problems unless `limit` is set). Own data is a .jsonl, .csv or
    .parquet file, which has no splits, a folder that `datasets` can load, or a hub id: `user/name`, with a
    configuration and another split than `split` as `user/name:config@split`. `columns` maps our column names to those
    of the data: {"question": "task"}. Other columns are kept for reward functions and graders. With
    `needs_answer=False` rows of own data may lack an answer.
    """
    require(limit is None or limit >= 1, "limit", limit, "None or at least 1")
    if is_own(name):
        problems = _load_own(str(name), split, columns, needs_answer=needs_answer)[:limit]
    elif columns:
        raise ConfigError(f"`columns` only applies to data of your own; {str(name)!r} is a built-in problem set.")
    elif name == "lab":
        problems = lab_problems(split, limit or NUM_HELD_OUT)
    else:
        problems = PROBLEM_SETS[str(name)].load(split, data_dir, limit)
    if not problems:
        raise DataError(f"{name} has no problems. Add rows to it, or pass another file or problem set.")
    return problems


def is_own(name: str | Path) -> bool:
    """Whether the name is that of the user's own data, not of a built-in problem set."""
    return str(name) != "lab" and str(name) not in PROBLEM_SETS


def is_file_name(name: str | Path) -> bool:
    """Whether the name is that of a file of rows."""
    return str(name).endswith((".jsonl", ".json", ".csv", ".parquet"))


def short_name(name: str | Path) -> str:
    """The name of a problem set in tables and file names.

    >>> short_name("data/mine.jsonl"), short_name("user/sums:hard@test"), short_name("gsm8k")
    ('mine', 'sums:hard@test', 'gsm8k')
    """
    return Path(name).stem if is_file_name(name) else Path(name).name


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


def _load_own(name: str, split: str, columns: Mapping[str, str] | None, *, needs_answer: bool) -> list[Problem]:
    for ours in columns or {}:
        require(ours in COLUMNS, "columns", ours, f"a mapping from {', '.join(COLUMNS)} to columns of the data")

    def read(row: Row) -> Problem:
        problem = make_problem(row, short_name(name), columns, needs_answer=needs_answer)
        if problem.answer and "####" in problem.answer:
            raise DataError(
                "the answer contains '####', so it is a complete solution. Keep only the part after '####' as the "
                "answer; the solution can go into a column 'solution'."
            )
        others = {
            name: value
            for name, value in row.items()
            if (name not in COLUMNS or (name not in (columns or {}) and not fits_field(name, value)))
            and not _TRL_COLUMN.fullmatch(name)
        }
        return replace(problem, others=others)

    if is_file_name(name):
        return read_problems(read_rows(Path(name).expanduser()), read)
    if "/" not in name and not Path(name).is_dir():
        names = f"one of {', '.join(PROBLEM_SETS)}, lab, a file or folder of rows, or a hub id such as user/name"
        require(False, "problems", name, names)
    return read_problems(read_data_set(name, split), read)
