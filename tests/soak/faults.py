"""What can happen to the checkpoints of a run between a kill and its resumption. Needs no privileges."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

Fault = Callable[[Path, random.Random], list[str]]
"""Takes the folder of a killed run. Returns the names of the checkpoints that cannot be resumed from any more."""


def complete(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    folders = [marker.parent for marker in run.glob("checkpoint-*/complete")]
    return sorted(folders, key=lambda folder: int(folder.name.split("-")[1]))


def any_file(checkpoint: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(path for path in checkpoint.iterdir() if path.is_file() and path.stat().st_size))


def nothing(run: Path, rng: random.Random) -> list[str]:
    return []


def truncate(run: Path, rng: random.Random) -> list[str]:
    path = any_file(complete(run)[-1], rng)
    os.truncate(path, rng.randrange(path.stat().st_size))
    return [path.parent.name]


def flip(run: Path, rng: random.Random) -> list[str]:
    """Change bytes and keep the size."""
    path = any_file(complete(run)[-1], rng)
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 4, 64])):
        content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
    is_changed = bytes(content) != path.read_bytes()
    path.write_bytes(content)
    return [path.parent.name] if is_changed else []


def delete(run: Path, rng: random.Random) -> list[str]:
    path = any_file(complete(run)[-1], rng)
    path.unlink()
    return [path.parent.name]


def empty_marker(run: Path, rng: random.Random) -> list[str]:
    marker = complete(run)[-1] / "complete"
    marker.write_bytes(b"")
    return [marker.parent.name]


def damage_all(run: Path, rng: random.Random) -> list[str]:
    checkpoints = complete(run)
    for checkpoint in checkpoints:
        any_file(checkpoint, rng).write_bytes(b"damaged")
    return [checkpoint.name for checkpoint in checkpoints]


def _move_clock(run: Path, seconds: float) -> list[str]:
    moment = time.time() + seconds
    for path in [run, *run.rglob("*")]:
        os.utime(path, (moment, moment))
    return []


def clock_set_back(run: Path, rng: random.Random) -> list[str]:
    """Everything that exists seems to come from the future."""
    return _move_clock(run, rng.uniform(1e3, 1e6))


def clock_set_forward(run: Path, rng: random.Random) -> list[str]:
    return _move_clock(run, -rng.uniform(1e3, 1e6))
