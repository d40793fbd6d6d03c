"""Rows of problem files: reading JSON Lines and Parquet, and turning the columns of a row into a Problem.

`datasets` is not used here: it does not report the line of a broken row, takes seconds to import, and writes a cache.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.files import is_number, parse_json
from gtpo.problems.problem import COLUMNS, Problem

Row = Mapping[str, Any]


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row of a .jsonl or .parquet file, with its place for errors. Blank lines are skipped."""
    if not path.is_file():
        raise DataError(f"{path} does not exist. Pass the path of a .jsonl or .parquet file.")
    return _parquet_rows(path) if path.suffix == ".parquet" else _json_rows(path)


def read_problems(rows: Iterable[tuple[str, Row]], read: Callable[[Row], Problem]) -> list[Problem]:
    """The problem that `read` makes of each row. An error names the place of its row."""
    problems: list[Problem] = []
    for place, row in rows:
        try:
            problems.append(read(row))
        except DataError as error:
            raise DataError(f"{place}: {error}") from error
    return problems


def make_problem(row: Row, source: str, columns: Mapping[str, str] | None = None) -> Problem:
    """A problem from a row with the columns of Problem. `columns` maps our names to those of the file."""
    names = {name: name for name in COLUMNS} | dict(columns or {})
    return Problem(
        question=_text(row, names["question"]),
        answer=_text(row, names["answer"]),
        source=_optional_text(row, names["source"]) or source,
        solution=_optional_text(row, names["solution"]) or "",
        subject=_optional_text(row, names["subject"]),
        level=parse_level(row.get(names["level"])),
    )


def parse_level(value: object) -> int | None:
    """The level of a MATH problem, from 3 or "Level 3"; None for "Level ?" and missing values.

    >>> [parse_level(value) for value in ("Level 3", 3, "Level ?", None)]
    [3, 3, None, None]
    """
    match = re.fullmatch(r"(?:Level )?(\d{1,18})", str(value)) if isinstance(value, str | int) else None
    return int(match[1]) if match else None


def _text(row: Row, column: str) -> str:
    """A column that must hold text or a number, as text: 27, "27" and 27.0 all become "27"."""
    value = row.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if is_number(value):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        if column not in row:
            columns = f"{', '.join(row):.200}"
            raise DataError(f"there is no column {column!r}, only {columns}. Map one to it: --columns {column}=NAME.")
        raise DataError(f"the column {column!r} must hold text, got {value!r:.80}. Fix the row.")
    return _encodable(value.strip(), column)


def _encodable(text: str, column: str) -> str:
    """The text, unless it has half of a surrogate pair: JSON can hold that, but no tokenizer and no data set."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the column {column!r} is not valid Unicode ({error.reason}). Fix the row.") from error
    return text


def _optional_text(row: Row, column: str) -> str | None:
    """A column that may be missing or empty, as text; None for missing values, which data frames write as NaN."""
    value = row.get(column)
    is_missing = not value or (isinstance(value, float) and math.isnan(value))
    return None if is_missing else _encodable(str(value), column)


def _json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error}). Convert the file to UTF-8.") from error
    for number, line in enumerate(text.split("\n"), start=1):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise DataError(f"{place}: cannot parse this as JSON ({error}). Write one object per line.") from error
        if not isinstance(row, dict):
            raise DataError(f"{place}: each line must be a JSON object, got {line:.80}. Fix or delete the line.")
        yield place, row


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        rows: list[dict[str, Any]] = read_table(path).to_pylist()
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a Parquet file, or is damaged ({error}). Write it again.") from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row
