"""Files on disk: replaced atomically, locked against a second writer, and JSON Lines that survive a kill."""

import contextlib
import errno
import itertools
import json
import logging
import math
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from gtpo.errors import ConfigError

LARGEST_NUMBER = 1e60
"""Larger numbers in a file are ignored: float32 ends at 3e38, and means and variances of these still fit a float."""

logger = logging.getLogger(__name__)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace `path`, also if it is a link. An interruption or a power cut leaves the old file or the new one."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with partial.open("xb") as file:  # a new file: in a folder from elsewhere, a link could lead anywhere
        file.write(content.encode() if isinstance(content, str) else content)
    sync(partial)
    os.replace(partial, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the list of names in a folder, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)


def first_free(numbered: Callable[[int], Path]) -> Path:
    """The first of the paths numbered(1), numbered(2), … that does not exist."""
    return next(path for path in map(numbered, itertools.count(1)) if not path.exists())


def free_path(path: Path) -> Path:
    """The path, with a number appended if it exists."""
    return first_free(lambda number: path if number == 1 else path.with_name(f"{path.name}-{number}"))


@contextlib.contextmanager
def writing(path: Path, remedy: str = "Choose another place with --out.") -> Generator[None]:
    """Turn an OSError of the block into a ConfigError that names the file and what to do."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror or error}. {remedy}") from error


@contextlib.contextmanager
def locked(path: Path, refusal: str) -> Generator[None]:
    """Hold the lock file while the block runs; if another process holds it, raise ConfigError(refusal)."""
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise ConfigError(refusal) from error
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise
        logger.warning("%s: no locks here (%s). Make sure that no other process writes here.", path, error)
    try:
        yield
    finally:
        lock.release()


class JsonLines:
    """A file with one JSON object per line, appended to a complete line at a time."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def append(self, row: dict[str, Any]) -> None:
        line = json.dumps(finite(row), allow_nan=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                is_torn = file.read(1) != b"\n"  # a killed process left an incomplete line: start a new one
                line = "\n" + line if is_torn else line
            file.write(line.encode())

    def rows(self, on_skip: Callable[[str], None] | None = None) -> Iterator[dict[str, Any]]:
        """The row of every complete line; `on_skip` gets the reason for each other line."""
        for line, row in self._lines():
            if row is not None:
                yield row
            elif on_skip is not None and line.strip():
                on_skip("not a complete JSON line (was the run killed here?)")

    def truncate_after(self, last_step: int) -> None:
        """Drop rows after `last_step`, torn lines and rows without a step. Other lines stay byte for byte.

        A resumed run writes the dropped steps again.
        """
        if self.path.exists():
            kept = [
                line.rstrip(b"\n") + b"\n"
                for line, row in self._lines()
                if row is not None and is_number(row.get("step")) and row["step"] <= last_step
            ]
            write_atomic(self.path, b"".join(kept))

    def back_up(self) -> None:
        """Rename the file of an earlier run. A new run then starts with an empty file, and nothing is lost."""
        if self.path.exists() and self.path.stat().st_size:
            stem, suffix = self.path.stem, self.path.suffix
            os.replace(self.path, first_free(lambda n: self.path.with_name(f"{stem}.earlier-{n}{suffix}")))

    def _lines(self) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
        """Each line with its row; None if it is not a complete JSON object."""
        with self.path.open("rb") as file:
            for line in file:
                yield line, parse_row(line)


def parse_json(text: str | bytes) -> Any:
    """`json.loads`, raising ValueError for every text that it cannot parse. NaN and Infinity become None.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: too many nested brackets
    """
    with contextlib.suppress(ValueError, RecursionError):
        return msgspec.json.decode(text)  # fast, but refuses NaN and numbers such as 1e999
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("too many nested brackets") from error


def parse_row(text: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None if it is not a complete one."""
    with contextlib.suppress(ValueError):
        row = parse_json(text)
        return row if isinstance(row, dict) else None
    return None


def is_number(value: object) -> bool:
    """Whether `value`, read from a file, is a finite number. True and False are not.

    >>> is_number(0.5), is_number(10**400), is_number(float("nan")), is_number(True), is_number("1")
    (True, False, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER


def is_integer(value: object) -> bool:
    """Whether `value`, read from a file, is an integer that `is_number` accepts."""
    return isinstance(value, int) and is_number(value)


def finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value
