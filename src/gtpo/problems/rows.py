"""Rows of problem files: reading JSON Lines, CSV and Parquet, and turning the columns of a row into a Problem.

`datasets` is not used here: it does not report the line of a broken row, takes seconds to import, and writes a cache.
"""

import csv
import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from gtpo.errors import DataError
from gtpo.files import is_number, parse_json
from gtpo.problems.problem import COLUMNS, Problem

Row = Mapping[str, Any]

ROLES = ("system", "developer", "user", "assistant", "tool")
"""Of chat messages, as chat templates know them."""


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row of a .jsonl, .csv or .parquet file, with its place for errors. Blank lines are skipped."""
    if not path.is_file():
        raise DataError(f"{path} does not exist. Pass the path of a .jsonl, .csv or .parquet file.")
    readers = {".parquet": _parquet_rows, ".csv": _csv_rows}
    return readers.get(path.suffix, _json_rows)(path)


def read_problems(rows: Iterable[tuple[str, Row]], read: Callable[[Row], Problem]) -> list[Problem]:
    """The problem that `read` makes of each row. An error names the place of its row."""
    problems: list[Problem] = []
    for place, row in rows:
        try:
            problems.append(read(row))
        except DataError as error:
            raise DataError(f"{place}: {error}") from error
    return problems


def make_problem(
    row: Row, source: str, columns: Mapping[str, str] | None = None, *, needs_answer: bool = True
) -> Problem:
    """A problem from a row with the columns of Problem. `columns` maps our names to those of the file.

    `prompt` is used where the row has no `question`, or where `columns` names it.
    """
    given = dict(columns or {})
    names = {name: name for name in COLUMNS} | given
    for name in ("prompt", "answer"):
        if name in given and given[name] not in row:
            raise _missing_column(row, name, given[name])
    for name in given:
        value = row.get(given[name])
        if not fits_field(name, value):
            remedy = f"Fix the row, or do not map the column to {name!r}: it reaches rewards and graders as it is."
            raise DataError(f"the column {given[name]!r} does not hold a {name}, got {value!r:.80}. {remedy}")
    has_prompt = names["prompt"] in row and ("prompt" in given or names["question"] not in row)
    prompt = _messages(row, names["prompt"]) if has_prompt else None
    has_answer = needs_answer or bool((_optional_text(row, names["answer"]) or "").strip())
    fields = {name: value for name, value in row.items() if fits_field(name, value)}
    return Problem(
        question=_question(prompt, names["prompt"]) if prompt else _text(row, "question", names["question"]),
        answer=_text(row, "answer", names["answer"]) if has_answer else "",
        source=_optional_text(fields, names["source"]) or source,
        solution=_optional_text(fields, names["solution"]) or "",
        subject=_optional_text(fields, names["subject"]),
        level=parse_level(row.get(names["level"])),
        prompt=prompt,
        system_prompt=_system_prompt(row, names["system_prompt"]),
    )


def fits_field(name: str, value: object) -> bool:
    """Whether the optional field `name` of a problem can hold this value of a column.

    >>> fits_field("solution", "2 + 3"), fits_field("solution", ["2", "3"]), fits_field("level", "hard")
    (True, False, False)
    """
    if name == "level":
        return _is_missing(value) or value == "Level ?" or parse_level(value) is not None
    is_text = _is_missing(value) or (isinstance(value, str | int | float) and not isinstance(value, bool))
    return is_text or name not in ("source", "solution", "subject")


def parse_level(value: object) -> int | None:
    """The level of a MATH problem, from 3 or "Level 3"; None for "Level ?" and missing values.

    >>> [parse_level(value) for value in ("Level 3", 3, "Level ?", None)]
    [3, 3, None, None]
    """
    match = re.fullmatch(r"(?:Level )?(\d{1,18})", str(value)) if isinstance(value, str | int) else None
    return int(match[1]) if match else None


def _text(row: Row, name: str, column: str) -> str:
    """Our column `name`, which must hold text or a number, as text: 27, "27" and 27.0 all become "27"."""
    value = row.get(column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if is_number(value):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        if column not in row:
            raise _missing_column(row, name, column)
        remedy = (
            "Fix the row, or use rewards and a grader that need no answer." if name == "answer" else "Fix the row."
        )
        raise DataError(f"the column {column!r} must hold text, got {value!r:.80}. {remedy}")
    return _encodable(value.strip(), column)


def _missing_column(row: Row, name: str, column: str) -> DataError:
    """What to do about a row without a column. Other rows may have it."""
    missing, remedy = repr(column), f"Add it, or map a column to it (--columns {name}=NAME)"
    if column != name:
        near = difflib.get_close_matches(column, row, n=1)
        question = f" Did you mean {near[0]!r}?" if near else ""
        return DataError(
            f"this row has no {column!r}, only {', '.join(row):.200}. It should hold the {name}.{question} Correct "
            f"the row, or with data of your own --columns {name}=NAME."
        )
    if name == "answer":
        remedy = f"Add it, map a column to it (--columns {name}=NAME), or use rewards and a grader that need no answer"
    if name == "question":
        missing, remedy = f"{column!r} or 'prompt'", f"{remedy}, or --columns prompt=NAME for chat messages"
    return DataError(f"this row has no {missing}, only {', '.join(row):.200}. {remedy}.")


def _messages(row: Row, column: str) -> list[dict[str, str]]:
    """The prompt of a row as chat messages: text is one message of the user."""
    value = row[column]
    if isinstance(value, str):
        return [{"role": "user", "content": _text(row, "prompt", column)}]
    if not isinstance(value, Sequence) or not value:
        raise DataError(
            f"the column {column!r} must hold text or a list of chat messages, got {value!r:.80}. Fix the row."
        )
    messages: list[dict[str, str]] = []
    for number, message in enumerate(cast("Sequence[Any]", value), start=1):
        filled = {key: part for key, part in message.items() if part is not None} if isinstance(message, dict) else {}
        if filled.keys() != {"role", "content"} or not all(isinstance(part, str) for part in filled.values()):
            raise DataError(
                f"message {number} of the column {column!r} must be {{'role': …, 'content': …}} with texts, "
                f"got {message!r:.80}. Fix the row."
            )
        if filled["role"] not in ROLES:
            raise DataError(
                f"message {number} of the column {column!r} has the role {filled['role']!r:.80}. Use one of "
                f"{', '.join(ROLES)}."
            )
        messages.append({key: _encodable(filled[key], column) for key in ("role", "content")})
    if messages[-1]["role"] == "assistant":
        raise DataError(f"the column {column!r} ends with a message of the assistant. Remove it: the model answers.")
    return messages


def _question(prompt: Sequence[dict[str, str]], column: str) -> str:
    """The last message of the user."""
    questions = [message["content"] for message in prompt if message["role"] == "user"]
    if not questions or not questions[-1].strip():
        raise DataError(f"the column {column!r} has no message of the user. Add one with the question.")
    return questions[-1].strip()


def _system_prompt(row: Row, column: str) -> str | None:
    """The system prompt of a row: None if it has none, "" if it must have none."""
    value = row.get(column)
    text = _optional_text(row, column)
    if text is not None and not isinstance(value, str):
        raise DataError(f"the column {column!r} must hold text, got {value!r:.80}. Fix the row.")
    return "" if value == "" else text


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
    return None if _is_missing(value) else _encodable(str(value), column)


def _is_missing(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error}). Convert the file to UTF-8.") from error


def _csv_rows(path: Path) -> Iterator[tuple[str, Row]]:
    reader = csv.DictReader(_read_text(path).splitlines(keepends=True))
    try:
        for row in reader:
            place = f"{path}, line {reader.line_num}"
            if None in row or None in row.values():
                raise DataError(f"{place}: the row does not have as many cells as the header. Fix the row.")
            yield place, row
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}. Write the file again as CSV.") from error


def _json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
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
