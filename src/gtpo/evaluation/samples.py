"""The file of samples: JSON Lines, a header that says what was asked, then one line a sample, in order.

Samples are appended as they are made. Everything else (grades, metrics, tables, figures) is a function of such files,
so that an evaluation can be broken off and taken up again, and its metrics recomputed without a model.
"""

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtpo.errors import ConfigError, DataError
from gtpo.files import is_integer, is_number, locked, parse_json, writing

FORMAT = 1
logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One line: the `sample`-th completion of the `problem`-th problem, and the gold answer to grade it by."""

    problem: int
    sample: int
    gold: str
    text: str
    num_tokens: int
    truncated: bool
    entropy: float | None


@dataclasses.dataclass(frozen=True)
class SampleFile:
    """A file as it was read: its header, its samples, and the byte at which each line ends."""

    path: Path
    header: dict[str, Any]
    samples: list[Sample]
    line_ends: list[int]

    @property
    def num_samples(self) -> int:
        """Samples of each problem, as the header has it."""
        return self.header["settings"]["num_samples"]


def read_samples(path: Path) -> SampleFile:
    """Read a file of samples; an unfinished last line, which an interruption leaves, is dropped with a warning."""
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = f"{path}/*.jsonl, or {path}/*/*.jsonl" if path.is_dir() else "a file that `gtpo eval` wrote"
        raise DataError(f"{path} cannot be read: {error.strerror}. Give {hint}.") from error
    *lines, torn = content.split(b"\n")
    if torn:
        logger.warning("%s: dropped an unfinished last line of %d bytes", path, len(torn))
    if not lines:
        raise DataError(f"{path} has no header line. Delete it, or give a file of samples that `gtpo eval` wrote.")
    header = _header(path, lines[0])
    samples = [_sample(path, number, line) for number, line in enumerate(lines[1:], start=2)]
    num_samples = header["settings"]["num_samples"]
    for row, sample in enumerate(samples):
        if (sample.problem, sample.sample) != divmod(row, num_samples):
            raise DataError(
                f"{path}, line {row + 2}: expected sample {row % num_samples} of problem {row // num_samples}, got "
                f"{sample.sample} of {sample.problem}. Lines were lost, or two evaluations wrote at once: delete "
                "this and all later lines; sampling goes on from there."
            )
    ends: list[int] = []
    for line in lines:
        ends.append((ends[-1] if ends else 0) + len(line) + 1)
    return SampleFile(path, header, samples, ends)


def start_or_resume(
    path: Path, header: dict[str, Any], batch_size: int, digest: Callable[[int], str] | None = None
) -> int:
    """Make the file ready for appending and say how many samples it already has.

    A batch that is there in part is cut off and made again, so that the samples do not depend on where the
    interruption fell. A file made with other settings is refused, but one whose problems are the first of those asked
    now goes on with the others: `digest(n)` is the digest of the first n problems.
    """
    writable_folder(path.parent)
    with writing(path):
        if not path.exists() or b"\n" not in path.read_bytes()[: 2**20]:
            path.write_bytes(_line(header))
            return 0
    found = read_samples(path)
    old, new = found.header["problems"], header["problems"]
    if digest is not None and old["count"] < new["count"] and digest(old["count"]) == old["sha256"]:
        found = dataclasses.replace(found, header=found.header | {"problems": new})
    if differences := _differences(found.header, json.loads(_line(header))):
        follows = " Unless told, max_new_tokens follows from the longest prompt: give --max-new-tokens."
        raise ConfigError(
            f"{path} holds samples made with other settings ({'; '.join(differences)}). "
            "Choose another folder with --out, repeat the old settings, or delete the file."
            + follows
            * any("max_new_tokens" in one for one in differences)
        )
    num_kept = len(found.samples)
    if num_kept < header["problems"]["count"] * found.num_samples:
        num_kept -= num_kept % batch_size
    if new["count"] > old["count"]:
        _replace(path, _line(found.header) + path.read_bytes()[found.line_ends[0] : found.line_ends[num_kept]])
    else:
        _cut(path, found.line_ends[num_kept])
    return num_kept


def append_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Add a batch, in one write, and hand it to the system before returning."""
    lines = b"".join(_line(dataclasses.asdict(sample)) for sample in samples)
    with writing(path, "Make room; the same command then goes on where it stopped."), path.open("ab") as file:
        file.write(lines)


def only_writer(path: Path) -> contextlib.AbstractContextManager[None]:
    """Refuse a second process that would sample into the same file."""
    writable_folder(path.parent)
    return locked(
        path.with_suffix(".lock"),
        f"Another evaluation is writing {path}. Wait for it, or choose another folder with --out.",
    )


def writable_folder(path: Path) -> None:
    """Make the folder, or say clearly that it cannot be had."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The folder {path} cannot be made: {error.strerror}. Choose another with --out.") from error
    if not os.access(path, os.W_OK):
        raise ConfigError(f"The folder {path} is not writable. Choose another with --out.")


def _line(record: dict[str, Any]) -> bytes:
    """One line of pure ASCII, whatever control characters and lone surrogates a completion has."""
    return json.dumps(record, allow_nan=False).encode("ascii") + b"\n"


def _cut(path: Path, size: int) -> None:
    if path.stat().st_size == size:
        return
    with writing(path), path.open("r+b") as file:
        file.truncate(size)


def _replace(path: Path, content: bytes) -> None:
    """Write the file anew, so that an interruption leaves either the old or the new one."""
    beside = path.with_suffix(".new")
    with writing(path):
        beside.write_bytes(content)
        beside.replace(path)


def _header(path: Path, line: bytes) -> dict[str, Any]:
    """The header, in which every field that anything reads is there and is what it must be."""
    try:
        header = parse_json(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("gtpo_samples") != FORMAT:
        raise DataError(f"{path} does not start with the header of a file of samples: was it written by `gtpo eval`?")
    for name, (is_right, expected) in _HEADER_FIELDS.items():
        value: Any = header
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if not is_right(value):
            raise _damaged_header(path, f"{name} must be {expected}, got {value!r:.60}")
    try:
        _line(header)
    except ValueError as error:  # results.json repeats the header and is JSON for every reader
        raise _damaged_header(path, "it has numbers that are not finite") from error
    return header


def _damaged_header(path: Path, reason: str) -> DataError:
    return DataError(
        f"{path} has a damaged header: {reason}. Mend its first line, or delete the file and sample again."
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return is_integer(value) and value >= 1


_HEADER_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (_is_text, "text"),
    "engine": (lambda value: isinstance(value, dict), "an object"),
    "problems.name": (_is_text, "text"),
    "problems.count": (_is_count, "a whole number of at least 1"),
    "problems.sha256": (_is_text, "text"),
    "settings.num_samples": (_is_count, "a whole number of at least 1"),
    "settings.temperature": (lambda value: is_number(value) and value >= 0, "a number of at least 0"),
    "settings.top_p": (is_number, "a number"),
    "settings.max_new_tokens": (_is_count, "a whole number of at least 1"),
    "settings.seed": (is_integer, "a whole number"),
}
"""What a header must hold, and in words."""

_SAMPLE_FIELDS: dict[str, Callable[[Any], bool]] = {
    "problem": is_integer,
    "sample": is_integer,
    "gold": _is_text,
    "text": _is_text,
    "num_tokens": lambda value: is_integer(value) and value >= 0,
    "truncated": lambda value: isinstance(value, bool),
    "entropy": lambda value: value is None or is_number(value),
}


def _sample(path: Path, number: int, line: bytes) -> Sample:
    try:
        row = parse_json(line)
        if not isinstance(row, dict) or row.keys() != _SAMPLE_FIELDS.keys():
            raise ValueError(f"it must have the fields {', '.join(_SAMPLE_FIELDS)}")
        if wrong := [name for name, is_right in _SAMPLE_FIELDS.items() if not is_right(row[name])]:
            raise ValueError(f"{', '.join(wrong)} of the wrong type or range")
    except ValueError as error:
        raise DataError(
            f"{path}, line {number} is damaged ({str(error)[:120]}). "
            "Delete this and all later lines: sampling goes on from there."
        ) from error
    return Sample(**row)


def _differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            found += _differences(before, now, f"{prefix}{key}.")
        elif before != now and f"{prefix}{key}" == "problems.count":
            found.append(f"--limit: there were {before} problems, there are {now}")
        elif before != now and not (key == "sha256" and old.get("count") != new.get("count")):
            found.append(f"{prefix}{key} was {before!r:.60}, is {now!r:.60}")
    return found
