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
from gtpo.locks import only_process

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
        return int(self.header["settings"]["num_samples"])


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
    num_samples = int(header["settings"]["num_samples"])
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
    try:
        if not path.exists() or b"\n" not in path.read_bytes()[: 2**20]:
            path.write_bytes(_line(header))
            return 0
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Choose another folder with --out.") from error
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
    try:
        with path.open("ab") as file:
            file.write(lines)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}. Make room; the same command then goes on where it stopped."
        ) from error


def only_writer(path: Path) -> contextlib.AbstractContextManager[None]:
    """Refuse a second process that would sample into the same file."""
    writable_folder(path.parent)
    return only_process(
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
    try:
        with path.open("r+b") as file:
            file.truncate(size)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Choose another folder with --out.") from error


def _replace(path: Path, content: bytes) -> None:
    """Write the file anew, so that an interruption leaves either the old or the new one."""
    beside = path.with_suffix(".new")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Choose another folder with --out.") from error


def _header(path: Path, line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
        is_ours = header["gtpo_samples"] == FORMAT and int(header["settings"]["num_samples"]) >= 1
        is_ours = is_ours and isinstance(header["model"], str) and isinstance(header["problems"]["name"], str)
    except (ValueError, KeyError, TypeError):
        is_ours = False
        header = {}
    if not is_ours:
        raise DataError(f"{path} does not start with the header of a file of samples: was it written by `gtpo eval`?")
    return header


def _sample(path: Path, number: int, line: bytes) -> Sample:
    try:
        row = json.loads(line)
        kinds = (("problem", int), ("sample", int), ("gold", str), ("text", str), ("num_tokens", int))
        if wrong := [name for name, kind in kinds if name in row and not isinstance(row[name], kind)]:
            raise TypeError(f"{', '.join(wrong)} of the wrong type")
        return Sample(**row)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}, line {number} is damaged ({str(error)[:80]}). Delete this and all later lines: sampling goes on "
            "from there."
        ) from error


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
