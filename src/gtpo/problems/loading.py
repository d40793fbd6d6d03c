"""Problems by the name of a set or the path of a file. A module with SETS adds sets: a new set is one new file."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import gtpo.problems
from gtpo.errors import ConfigError, require
from gtpo.problems.lab import LabSet
from gtpo.problems.problem import COLUMNS, Problem
from gtpo.problems.problem_set import ProblemSet
from gtpo.problems.rows import make_problem, read_rows

TRL_COLUMNS = {
    "prompt",
    "prompts",
    "completion",
    "completions",
    "completion_ids",
    "image",
    "images",
    "environment",
    "environments",
    "trainer_state",
    "log_extra",
    "log_metric",
}
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
    maps our column names to those of the file.
    """
    require(limit is None or limit >= 1, "limit", limit, "None or at least 1")
    if is_file_name(name):
        return load_file(name, columns)[:limit]
    if columns:
        raise ConfigError(f"`columns` only applies to a .jsonl or .parquet file; {str(name)!r} is not a file.")
    sets = problem_sets()
    if str(name) not in sets:
        raise ConfigError(
            f"problems must be one of {', '.join(sets)} or the path of a .jsonl or .parquet file, got {str(name)!r}."
        )
    return sets[str(name)].load(split, data_dir, limit)


def is_file_name(name: str | Path) -> bool:
    """Whether the name is that of a file, not of a problem set."""
    return str(name).endswith((".jsonl", ".json", ".parquet"))


def load_file(path: str | Path, columns: Mapping[str, str] | None = None) -> list[Problem]:
    """The problems of a .jsonl or .parquet file. `columns` maps our names to those of the file: {"question": "task"}.

    Other columns of the file are kept for reward functions.
    """
    for name in columns or {}:
        require(name in COLUMNS, "columns", name, f"a mapping from {', '.join(COLUMNS)} to columns of the file")
    path = Path(path).expanduser()
    known = {*COLUMNS, *TRL_COLUMNS}
    problems: list[Problem] = []
    for place, row in read_rows(path):
        others = {name: value for name, value in row.items() if name not in known}
        problems.append(replace(make_problem(row, place, path.stem, columns), others=others))
    return problems


def parse_columns(text: str) -> dict[str, str]:
    """Parse the `--columns` option of the command line.

    >>> parse_columns("question=task, answer=truth")
    {'question': 'task', 'answer': 'truth'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        ours, _, theirs = (side.strip() for side in part.partition("="))
        if not ours or not theirs:
            raise ConfigError(
                f"columns must be written as question=task,answer=truth (ours=the file's), got {text!r}."
            )
        columns[ours] = theirs
    return columns


@cache
def problem_sets() -> dict[str, ProblemSet | LabSet]:
    """The problem sets that the modules of gtpo.problems declare in SETS, by name."""
    sets: dict[str, ProblemSet | LabSet] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(gtpo.problems.__path__)):
        for problem_set in getattr(importlib.import_module(f"gtpo.problems.{module}"), "SETS", ()):
            sets[problem_set.name] = problem_set
    return sets
