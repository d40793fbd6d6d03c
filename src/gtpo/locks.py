"""One process at a time: a lock that a killed process does not leave behind."""

import contextlib
import fcntl
import logging
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from gtpo.errors import ConfigError

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def only_process(lock: Path, refusal: str) -> Generator[None]:
    """Hold the lock file while the block runs; where another process holds it, the refusal is a ConfigError."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_still_there(lock, file):  # the one who held it has just removed it: another may have begun
                raise ConfigError(refusal)
        except BlockingIOError as error:
            raise ConfigError(refusal) from error
        except OSError:
            logger.warning("%s: this file system has no locks; make sure that no other process writes here", lock)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _is_still_there(path: Path, file: Any) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
