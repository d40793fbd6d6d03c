"""Rows of files and data sets, read with care: a broken row is an error that says where it is and what to do."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gtpo.errors import DataError
from gtpo.files import parse_json
from gtpo.problems.problem import COLUMNS, Problem

Row = Mapping[str, Any]
MOST_LEVEL = 10**18
"""Whoever has more levels has put something else there, and a data set holds no number that is much larger."""


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row of a .jsonl or .parquet file, with the place where it stands. Blank lines are skipped."""
    if not path.is_file():
        raise DataError(f"There is no file {path}: give the path of a .jsonl or .parquet file.")
    if path.suffix == ".parquet":
        yield from _read_parquet(path)
    elif path.suffix in (".jsonl", ".json"):
        yield from _read_jsonl(path)
    else:
        raise DataError(f"{path} is neither .jsonl nor .parquet: convert it to one of them.")


def make_problem(row: Row, place: str, source: str, columns: Mapping[str, str] | None = None) -> Problem:
    """The problem in a row whose columns are named as in Problem, or as `columns` (ours -> theirs) says."""
    named = {name: (columns or {}).get(name, name) for name in COLUMNS}
    if is_solution(row.get(named["answer"])):
        raise DataError(
            f"{place}: the answer holds '####', so it is a whole solution. Put only what follows it into "
            f"{named['answer']!r}; the rest may go into a column 'solution'."
        )
    return Problem(
        question=text_field(row, named["question"], place),
        answer=text_field(row, named["answer"], place),
        source=optional_text(row, named["source"], place) or source,
        solution=optional_text(row, named["solution"], place) or "",
        subject=optional_text(row, named["subject"], place),
        level=read_level(row.get(named["level"]), place),
    )


def is_solution(answer: object) -> bool:
    """Is it a whole solution as GSM8K publishes it, with the answer after ####?"""
    return isinstance(answer, str) and "####" in answer


def optional_text(row: Row, column: str, place: str) -> str | None:
    """A column that may hold something, as text; None where it holds nothing."""
    value = row.get(column)
    return None if not value or _is_missing(value) else _encodable(str(value), column, place)


def _encodable(text: str, column: str, place: str) -> str:
    """The text, unless it has half of a character: JSON can say that, but no tokenizer and no data set takes it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{place}: the column {column!r} has half of a character (a lone surrogate, {text[error.start]!r}). "
            "Mend the row."
        ) from error
    return text


def _is_missing(value: object) -> bool:
    """None and what data frames write in its place: a number that is not finite."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def text_field(row: Row, column: str, place: str) -> str:
    """A column that must hold text or a number, as text: 27, "27" and 27.0 are all "27"."""
    value = row.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and not _is_missing(value):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        found = _shown(value) if column in row else f"only the columns {', '.join(map(str, row)):.200}"
        raise DataError(
            f"{place}: the column {column!r} must hold text, got {found}. Mend the row, or name another column."
        )
    return _encodable(value.strip(), column, place)


def _shown(value: object) -> str:
    """A value for an error; of a list or an object only that, for it may be of any depth."""
    return f"a {type(value).__name__}" if isinstance(value, list | dict) else f"{value!r:.80}"


def read_level(value: object, place: str) -> int | None:
    """The level of a MATH problem, from 3 or "Level 3"; None for "Level ?" and for nothing.

    >>> [read_level(value, "line 1") for value in ("Level 3", 3, "Level ?", None)]
    [3, 3, None, None]
    """
    digits = re.fullmatch(r"(?:Level )?(\d+)", str(value)) if isinstance(value, str | int) else None
    if digits and (len(digits[1]) > len(str(MOST_LEVEL)) or int(digits[1]) > MOST_LEVEL):
        raise DataError(f"{place}: the level must be at most {MOST_LEVEL}, got {_shown(value)}. Mend the row.")
    return int(digits[1]) if digits else None


def _read_jsonl(path: Path) -> Iterator[tuple[str, Row]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place = f"{path}, line {number}"
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise DataError(f"{place}: this is not UTF-8 ({error.reason}). Convert the file to UTF-8.") from error
            if number == 1 and text.startswith("["):
                raise DataError(f"{path} is a JSON array. It must be JSON Lines: one object a line.")
            if not text:
                continue
            try:
                row = parse_json(text)
            except ValueError as error:
                raise DataError(f"{place}: this cannot be read as JSON ({error}). Mend or delete the line.") from error
            if not isinstance(row, dict):
                raise DataError(f"{place}: each line must be a JSON object, got {text:.80}. Mend the line.")
            yield place, row


def _read_parquet(path: Path) -> Iterator[tuple[str, Row]]:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    try:
        names = pq.read_schema(path).names
        if doubled := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise DataError(f"{path} has more than one column {doubled[0]!r}: rename or drop all but one.")
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a Parquet file, or damaged ({error}): write it again.") from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row
