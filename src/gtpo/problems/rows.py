"""Rows of problem files: reading JSON Lines and Parquet, and turning the columns of a row into a Problem.

Every error names the file, the line or row, and what to do. `datasets` is not used here: it does not report the line
of a broken row, takes seconds to import, and writes a cache.
"""

import math
import re
from collections.abc import Iterator, Mapping
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


def make_problem(row: Row, place: str, source: str, columns: Mapping[str, str] | None = None) -> Problem:
    """A problem from a row with the columns of Problem. `columns` maps our names to those of the file."""
    names = {name: (columns or {}).get(name, name) for name in COLUMNS}
    if is_solution(row.get(names["answer"])):
        raise DataError(
            f"{place}: the answer contains '####', so it is a complete solution. Keep only the part after '####' in "
            f"{names['answer']!r}; the solution can go into a column 'solution'."
        )
    return Problem(
        question=text_field(row, names["question"], place),
        answer=text_field(row, names["answer"], place),
        source=optional_text(row, names["source"]) or source,
        solution=optional_text(row, names["solution"]) or "",
        subject=optional_text(row, names["subject"]),
        level=parse_level(row.get(names["level"])),
    )


def is_solution(answer: object) -> bool:
    """Whether the answer is a complete solution as GSM8K publishes it, with the final answer after ####."""
    return isinstance(answer, str) and "####" in answer


def text_field(row: Row, column: str, place: str) -> str:
    """A column that must hold text or a number, as text: 27, "27" and 27.0 all become "27"."""
    value = row.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if is_number(value):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        columns = ", ".join(map(str, row))
        actual = f"{value!r:.80}" if column in row else f"only the columns {columns:.200}"
        raise DataError(
            f"{place}: the column {column!r} must hold text, got {actual}. Fix the row, or choose another column."
        )
    return value.strip()


def optional_text(row: Row, column: str) -> str | None:
    """A column that may be missing or empty, as text; None for missing values, which data frames write as NaN."""
    value = row.get(column)
    is_missing = not value or (isinstance(value, float) and math.isnan(value))
    return None if is_missing else str(value)


def parse_level(value: object) -> int | None:
    """The level of a MATH problem, from 3 or "Level 3"; None for "Level ?" and missing values.

    >>> [parse_level(value) for value in ("Level 3", 3, "Level ?", None)]
    [3, 3, None, None]
    """
    match = re.fullmatch(r"(?:Level )?(\d+)", str(value)) if isinstance(value, str | int) else None
    return int(match[1]) if match else None


def _json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place = f"{path}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise DataError(f"{place} is not UTF-8 ({error.reason}). Convert the file to UTF-8.") from error
            if number == 1 and text.startswith("["):
                raise DataError(f"{path} is a JSON array. Convert it to JSON Lines, with one object per line.")
            if text:
                yield place, _parse_row(text, place)


def _parse_row(text: str, place: str) -> Row:
    try:
        row = parse_json(text)
    except ValueError as error:
        raise DataError(f"{place}: cannot parse this as JSON ({error}). Fix or delete the line.") from error
    if not isinstance(row, dict):
        raise DataError(f"{place}: each line must be a JSON object, got {text:.80}. Fix or delete the line.")
    return row


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        rows: list[dict[str, Any]] = read_table(path).to_pylist()
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a Parquet file, or is damaged ({error}). Write it again.") from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row
