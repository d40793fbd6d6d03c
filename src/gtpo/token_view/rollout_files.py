"""Reads completions that a run logged: TRL's parquet files, verl's rollout dumps, and your own JSON Lines.

TRL (`log_completions=True`) writes the last rows that it generated at every log, completions_00001.parquet and so on.
If nothing was generated since the log before, the same rows come again under another step. evaluation_rows.py finds
those of evaluations. verl (`trainer.rollout_data_dir`) writes 1.jsonl and so on, one file per step.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.errors import DataError
from gtpo.files import JsonLines
from gtpo.token_view.evaluation_rows import Evaluations, evaluations_of

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Row = dict[str, Any]
"""One completion, as it was logged."""

TRAINING_OR_EVALUATION = (
    "At a step with an evaluation, TRL's file holds the rows of the evaluation, which were not trained on. The files "
    "do not show which steps these are, and there are no metrics of the run up to the last of them that do."
)
_OLDER_BY = 10.0
"""Seconds. A copied folder has files in any order, but written within moments."""
_MOST_BYTES = 2**32
_VERL = {"input": "prompt", "output": "completion", "score": "reward"}
_NOT_REWARDS = ("gts", "uid", "request_id")


def read_rollouts(paths: Sequence[Path], skipped: Counter[str], notes: list[str]) -> Iterator[Row]:
    """The rows of files and folders, without repeated ones. Counts lines that cannot be used, by reason."""
    num_repeated, num_evaluated, are_all_known = 0, 0, True
    evaluations: dict[Path, Evaluations] = {}
    before: list[bytes] = []
    for file in [file for path in paths for file in _files(path, notes)]:
        rows = [_with_number(row) for row in _rows(file, skipped, notes)]
        if file.suffix != ".parquet":
            yield from map(_from_verl, rows)
            continue
        digests = [_digest(row) for row in rows]
        repeated = _overlap(before, digests, rows)
        num_repeated += repeated
        before = digests
        if file.parent not in evaluations:
            evaluations[file.parent] = evaluations_of(file.parent)
        shown = rows[repeated:]
        num_evaluated += evaluations[file.parent].mark(shown)
        are_all_known &= not rows or _number(file) <= evaluations[file.parent].last_step
        yield from shown
    if num_repeated:
        notes.append(f"{num_repeated} repeated rows dropped: TRL had logged them at the step before already.")
    if num_evaluated:
        notes.append(f"{num_evaluated} rows are from evaluations and were not trained on: their groups are marked.")
    if not are_all_known:
        notes.append(TRAINING_OR_EVALUATION)


def _files(path: Path, notes: list[str]) -> list[Path]:
    """The file itself, or the files in a folder by their steps: what TRL logged, otherwise JSON Lines."""
    if path.is_file():
        return [path]
    tables = _regular_files(path, "*.parquet", "completions/*.parquet")
    files = sorted(tables or _regular_files(path, "*.jsonl"), key=lambda file: (_number(file), file.name))
    if not files:
        raise DataError(f"{path} is not a .jsonl or .parquet file, and not a folder that contains such files.")
    newest, older = _by_run(files)
    if older:
        notes.append(
            f"{len(older)} of {len(files)} files in {older[0].parent} left out: they are older than files of earlier "
            f"steps, so an earlier run left them ({older[0].name} to {older[-1].name}). Pass the files to see them."
        )
    return newest


def _regular_files(folder: Path, *patterns: str) -> list[Path]:
    """The files with these names, without pipes and devices: reading those may never end."""
    return [file for pattern in patterns for file in folder.glob(pattern) if file.is_file()]


def _number(file: Path) -> int:
    """The step in the name of a file; -1 if it has none."""
    match = re.search(r"\d{1,18}$", file.stem)
    return int(match[0]) if match else -1


def _by_run(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The files of the newest run in a folder, and those of earlier runs.

    A run writes its files in the order of steps. A resumed run continues with newer files: those before them stay.
    """
    newest: list[Path] = []
    older: list[Path] = []
    latest = 0.0
    for file in files:
        time = file.stat().st_mtime
        if _number(file) >= 0 and time < latest - _OLDER_BY:
            older.append(file)
        else:
            newest.append(file)
            latest = max(latest, time)
    return newest, older


def _with_number(row: Row) -> Row:
    """The row with its step as a number. Earlier versions of TRL log it as text."""
    step = row.get("step")
    if isinstance(step, str) and step.isdecimal() and len(step) < 16:
        return {**row, "step": int(step)}
    return row


def _rows(path: Path, skipped: Counter[str], notes: list[str]) -> Iterator[Row]:
    try:
        if path.suffix != ".parquet":
            yield from JsonLines(path).rows(lambda reason: skipped.update([reason]))
        else:
            yield from _table_rows(path, notes)
    except UnicodeDecodeError:
        notes.append(f"{path.name} has text that is not UTF-8. Write it again, or leave the file out.")
    except OSError as error:
        notes.append(f"{path.name} cannot be read ({error.strerror or 'damaged'}). Leave the file out.")


def _table_rows(path: Path, notes: list[str]) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path)
        if problem := _problem(table):
            notes.append(f"{path.name} {problem}.")
            return
        for batch in table.iter_batches(batch_size=256):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError):
        notes.append(
            f"{path.name} is not a complete parquet file: was the run killed as it wrote? Leave the file out."
        )


def _problem(table: "ParquetFile") -> str | None:
    """Why a table cannot be used, and what to do; None if it can."""
    names = table.schema_arrow.names
    if not {"prompt", "completion"} <= set(names) or not {"reward", "advantage"} & set(names):
        listed = ", ".join(names[:10])[:200]
        return (
            f"has the columns {listed}; it needs prompt, completion, and reward or advantage. "
            "Pass what TRL wrote into completions/, or rename the columns"
        )
    size = sum(table.metadata.row_group(number).total_byte_size for number in range(table.metadata.num_row_groups))
    return f"is larger than {_MOST_BYTES // 2**30} GiB. Split it" if size > _MOST_BYTES else None


def _digest(row: Row) -> bytes:
    """What tells a row from others, whatever its step."""
    content = repr([(name, value) for name, value in row.items() if name != "step"])
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _overlap(before: Sequence[bytes], digests: Sequence[bytes], rows: Sequence[Row]) -> int:
    """How many rows at the start of a buffer are the end of the one before: rows stay until others push them out.

    Only complete groups count, of at least two rows: a single row can be equal by chance.
    """
    for start in (number for number, digest in enumerate(before) if digests and digest == digests[0]):
        size = len(before) - start
        if size < 2 or list(before[start:]) != list(digests[:size]):
            continue
        if size == len(rows) or repr(rows[size].get("prompt")) != repr(rows[size - 1].get("prompt")):
            return size
    return 0


def _from_verl(row: Row) -> Row:
    """A row of verl's dump under the names of TRL, with true and false as 1 and 0; any other row as it is."""
    if not _VERL.keys() <= row.keys() or "prompt" in row:
        return row
    others = {name: value for name, value in row.items() if name not in _VERL and name not in _NOT_REWARDS}
    numbers = {name: float(value) if isinstance(value, bool) else value for name, value in others.items()}
    return {**numbers, **{name: row[field] for field, name in _VERL.items()}}
