"""Problem sets by name: every module of this package that has SETS takes part, so a new set is one new file."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import gtpo.problems
from gtpo.errors import ConfigError, require, require_choice
from gtpo.problems.lab import lab_problems
from gtpo.problems.local import load_file
from gtpo.problems.problem import Problem
from gtpo.problems.problem_set import ProblemSet

_LAB_PROBLEMS = 256


def load_problems(
    name: str | Path,
    *,
    split: str = "test",
    data_dir: str | Path | None = None,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> list[Problem]:
    """The problems of a set by name, or of a .jsonl or .parquet file by path; the first `limit` of them.

    Named sets come from the hub unless `data_dir` or the environment variable GTPO_DATA names a folder of JSONL files.
    "lab" is the package's own set (256 problems unless `limit` says otherwise). A file has no splits; `columns` maps
    our column names to those of the file.
    """
    require(limit is None or limit >= 1, "limit", limit, "None or at least 1")
    if is_file_name(name):
        return load_file(name, columns)[:limit]
    require(not columns, "columns", columns, f"left out: {name} is no file, its columns are known")
    if name == "lab":
        require_choice("split of lab", split, ("train", "test"))
        return lab_problems("train" if split == "train" else "test", limit or _LAB_PROBLEMS)
    sets = problem_sets()
    if name not in sets:
        raise ConfigError(
            f"problems must be one of {', '.join((*sets, 'lab'))} or a path to .jsonl or .parquet, got {name!r}."
        )
    return sets[str(name)].load(split, data_dir)[:limit]


def is_file_name(name: str | Path) -> bool:
    """Does the name of a problem set mean a file?"""
    return str(name).endswith((".jsonl", ".json", ".parquet"))


@cache
def problem_sets() -> dict[str, ProblemSet]:
    """Every problem set that a module of gtpo.problems declares in SETS, by name."""
    modules = sorted(module.name for module in pkgutil.iter_modules(gtpo.problems.__path__))
    found = [importlib.import_module(f"gtpo.problems.{module}") for module in modules]
    return {one.name: one for module in found for one in getattr(module, "SETS", ())}
