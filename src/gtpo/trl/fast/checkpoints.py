"""Checkpoint folders: marked when they are complete, verified before use, never lost.

While a checkpoint is written it contains a file `incomplete`. Once all its files are on disk, it gets the marker
`complete`, which lists them with sizes and SHA-256 checksums. Only after that are older checkpoints deleted. A
checkpoint is intact if the listed files are as they were written; files added later do not matter. A checkpoint that
is in the way of a run is renamed. Only a fragment, whose writing was interrupted, is deleted. Checkpoints of stock TRL
have no marker: they are used only with a warning, and only if no checkpoint is intact.
"""

import contextlib
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from transformers import TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from gtpo.errors import ConfigError, DataError
from gtpo.files import first_free, is_number, sync, write_atomic

MARKER = "complete"
"""The file that is written last into a checkpoint; it lists the others."""

UNFINISHED = "incomplete"
"""The file that a checkpoint contains until it has its marker."""

UNFINISHED_JIT = "checkpoint-is-incomplete.txt"
"""The same of transformers, with `enable_jit_checkpoint`."""

ROLLOUTS_FILE = "rollouts_{rank}.pt"
"""The position of a process in its generation batch, in the checkpoints of our GRPO trainers and of no others."""

UNVERIFIABLE = f"it has no file '{MARKER}' with checksums"
"""What `damage_of` returns for a readable checkpoint of stock TRL or transformers."""

logger = logging.getLogger(__name__)

_CHECKPOINT = rf"{PREFIX_CHECKPOINT_DIR}-\d+"


class Marker(msgspec.Struct):
    """What a checkpoint contained when it was complete. The markers of earlier versions have no checksums."""

    num_processes: int
    files: dict[str, int]
    sha256: dict[str, str] = {}


def begin_checkpoint(folder: Path) -> None:
    """Mark a checkpoint as incomplete, before its files are written."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / UNFINISHED).touch()
    (folder / MARKER).unlink(missing_ok=True)


def complete_checkpoint(folder: Path, num_processes: int) -> None:
    """Wait until the files of a checkpoint, and the records of its run, are on disk; then write the marker."""
    files = _files(folder)
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in [*folders, *folder.parent.glob("*.jsonl")]:
        sync(path)
    sizes = {name: path.stat().st_size for name, path in files.items()}
    _write_marker(folder, Marker(num_processes, sizes, _checksums(files, is_new=True)))
    sync(folder.parent)
    (folder / UNFINISHED).unlink(missing_ok=True)


def damage_of(checkpoint: Path) -> str | None:
    """Why a checkpoint is not known to be intact; None if it is."""
    try:
        if not (checkpoint / MARKER).is_file():
            return _damage_without_marker(checkpoint)
        marker = _read_marker(checkpoint)
        files = _files(checkpoint)
        sizes = {name: path.stat().st_size for name, path in files.items()}
        for name, size in marker.files.items():
            if sizes.get(name) != size:
                return f"{name} has {sizes[name]} bytes instead of {size}" if name in sizes else f"{name} is missing"
        checksums = _checksums({name: files[name] for name in marker.sha256.keys() & marker.files.keys()})
        changed = sorted(name for name in checksums if checksums[name] != marker.sha256[name])
        if changed:
            return f"{', '.join(changed)} changed after the checkpoint was written"
        read_state(checkpoint)
    except DataError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or 'a file'} cannot be read: {error.strerror or error}"
    return None


def known_damage_of(checkpoint: Path) -> str | None:
    """Like `damage_of`, but a checkpoint of stock TRL is accepted with a warning."""
    damage = damage_of(checkpoint)
    if damage != UNVERIFIABLE:
        return damage
    _warn_of_unverifiable(checkpoint)
    return None


def read_state(checkpoint: Path) -> TrainerState:
    """The state of the trainer in a checkpoint. Raises DataError if it cannot be parsed."""
    try:
        state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    except (ValueError, TypeError, RecursionError, FileNotFoundError) as error:
        raise DataError("its trainer_state.json is missing or cannot be parsed") from error
    if not all(map(is_number, (state.epoch, state.global_step, state.max_steps, state.num_train_epochs))):
        raise DataError("its trainer_state.json has no number of steps or epochs")
    return state


def newest_intact(run: Path) -> tuple[Path | None, dict[Path, str]]:
    """The newest intact checkpoint of a run, and what is wrong with each newer one."""
    damaged: dict[Path, str] = {}
    for checkpoint in reversed(_folders(run)):
        damage = damage_of(checkpoint)
        if damage is None:
            return checkpoint, damaged
        damaged[checkpoint] = damage
    return None, damaged


def resume_newest(run: Path, num_processes: int, *, or_start: bool) -> Path | None:
    """Choose the newest intact checkpoint, and move newer ones aside. None: train from the start, if allowed.

    If no checkpoint is intact and a start is not allowed, the newest readable one of stock TRL.
    """
    checkpoint, damaged = newest_intact(run)
    if checkpoint is not None:
        _require_processes(checkpoint, num_processes)
    elif not or_start:
        checkpoint = _newest_unverifiable(damaged)
        if checkpoint is None:
            reasons = "".join(f" {folder.name}: {damage}." for folder, damage in damaged.items())
            earlier = _aside(run, "earlier")
            such_as = f", such as {earlier[-1].name} of an earlier run" if earlier else ""
            too_early = "" if damaged else " The run may have ended before its first one: lower save_steps."
            raise ConfigError(
                f"There is no complete checkpoint in {run} to resume from.{reasons} Train without "
                f"resume_from_checkpoint, or pass the folder of a checkpoint{such_as}.{too_early}"
            )
        _warn_of_unverifiable(checkpoint)
        damaged = {folder: damage for folder, damage in damaged.items() if _numbers(folder) > _numbers(checkpoint)}
    done = _move_aside(run, damaged, "damaged")
    if damaged:
        skipped = ", ".join(f"{folder.name} ({damage}; {done[folder]})" for folder, damage in damaged.items())
        logger.warning(
            "Skipped %s in %s. %s.",
            skipped,
            run,
            f"Resuming from {checkpoint.name}"
            if checkpoint
            else "No intact checkpoint is left: training from the start",
        )
    return checkpoint


def resume_given(run: Path, checkpoint: Path, num_processes: int) -> Path:
    """Check a checkpoint that the caller named, and move aside what the run would overwrite."""
    if not checkpoint.is_dir():
        raise DataError(f"There is no checkpoint {checkpoint}. {_remedy(checkpoint)}")
    damage = known_damage_of(checkpoint)
    if damage is not None:
        raise DataError(f"{checkpoint} is damaged: {damage}. {_remedy(checkpoint)}")
    if (checkpoint / MARKER).is_file():
        _require_processes(checkpoint, num_processes)
    back_up_checkpoints(run, resumed=checkpoint)
    return checkpoint


def back_up_checkpoints(run: Path, resumed: Path | None = None) -> None:
    """Rename the checkpoints of an earlier run in this folder, so that this run neither overwrites nor resumes them.

    Those up to the resumed checkpoint belong to this run if they are in the same folder.
    """
    checkpoints = _folders(run)
    if resumed is not None and resumed.resolve() in [folder.resolve() for folder in checkpoints]:
        checkpoints = [folder for folder in checkpoints if _numbers(folder) > _numbers(resumed)]
    done = _move_aside(run, checkpoints, "earlier")
    if done:
        changes = ", ".join(f"{folder.name} ({what})" for folder, what in done.items())
        logger.warning("Moved checkpoints of an earlier run in %s out of the way: %s.", run, changes)


def back_up_completions(run: Path) -> None:
    """Rename the folder of completions that an earlier run logged here (`log_completions`), unless it is empty."""
    completions = run / "completions"
    if completions.is_dir() and any(completions.iterdir()):
        completions.rename(first_free(lambda number: run / f"earlier-{number}-completions"))
        completions.mkdir()  # TRL expects the folder, which it creates with the trainer


def rotate_checkpoints(newest: Path, limit: int | None, best: str | None) -> None:
    """Delete the checkpoints of the lowest steps while a run has more than `limit`; never the newest or the best.

    transformers orders them by modification time: after the clock was set back, it would delete the newest. Ordered by
    step, it would count and delete every folder whose name begins like a checkpoint's.
    """
    if not limit or limit < 0:
        return
    checkpoints = _folders(newest.parent)
    kept = {newest.resolve(), *([Path(best).resolve()] if best else [])}
    old = [checkpoint for checkpoint in checkpoints if checkpoint.resolve() not in kept]
    num_kept = len(checkpoints) - len(old)
    for checkpoint in old[: max(0, len(checkpoints) - max(limit, num_kept))]:
        with contextlib.suppress(OSError):  # what is left if the deletion is interrupted must not be resumed from
            (checkpoint / "trainer_state.json").unlink(missing_ok=True)
            begin_checkpoint(checkpoint)
        shutil.rmtree(checkpoint, ignore_errors=True)


def _move_aside(run: Path, checkpoints: Iterable[Path], label: str) -> dict[Path, str]:
    """Rename checkpoints to LABEL-N-checkpoint-…, or delete fragments. Returns what was done to each.

    transformers writes trainer_state.json after the other files: a folder without it never was a checkpoint.
    """
    number = 1 + max((_numbers(folder)[0] for folder in _aside(run, label)), default=0)
    done: dict[Path, str] = {}
    for checkpoint in checkpoints:
        if _is_unfinished(checkpoint) and not (checkpoint / "trainer_state.json").exists():
            shutil.rmtree(checkpoint)
            done[checkpoint] = "deleted"
        else:
            renamed = checkpoint.rename(checkpoint.with_name(f"{label}-{number}-{checkpoint.name}"))
            done[checkpoint] = f"renamed to {renamed.name}"
    return done


def _aside(run: Path, label: str) -> list[Path]:
    """The checkpoints that were renamed with this label."""
    return _folders(run, rf"{label}-\d+-{_CHECKPOINT}")


def _remedy(damaged: Path) -> str:
    checkpoint, others = newest_intact(damaged.parent)
    if checkpoint is not None:
        return f"Resume from {checkpoint}, which is intact."
    checkpoint = _newest_unverifiable(others)
    return f"Resume from {checkpoint}, which cannot be verified." if checkpoint else "Train from the start."


def _newest_unverifiable(damaged: dict[Path, str]) -> Path | None:
    """The first of these checkpoints, which begin with the newest, that stock TRL wrote."""
    return next((folder for folder, damage in damaged.items() if damage == UNVERIFIABLE), None)


def _warn_of_unverifiable(checkpoint: Path) -> None:
    logger.warning("%s has no file '%s': whether it is damaged cannot be checked.", checkpoint, MARKER)


def _damage_without_marker(checkpoint: Path) -> str:
    if _is_unfinished(checkpoint):
        return "its writing was interrupted"
    if any(checkpoint.glob(ROLLOUTS_FILE.format(rank="*"))):
        return f"its file '{MARKER}' is missing"
    read_state(checkpoint)
    return UNVERIFIABLE


def _require_processes(checkpoint: Path, num_processes: int) -> None:
    num_writers = _read_marker(checkpoint).num_processes
    if num_writers != num_processes:
        raise ConfigError(
            f"{checkpoint} was written by {num_writers} processes, but this run has {num_processes}. "
            f"Resume with {num_writers} processes: each stored its own position in the data."
        )


def _is_unfinished(checkpoint: Path) -> bool:
    """Whether the writing of the checkpoint began and did not end."""
    is_begun = any((checkpoint / name).is_file() for name in (UNFINISHED, UNFINISHED_JIT))
    return is_begun and not (checkpoint / MARKER).is_file()


def _write_marker(checkpoint: Path, marker: Marker) -> None:
    """Write a line with the marker, and a line with its own checksum."""
    line = msgspec.json.encode(marker)
    write_atomic(checkpoint / MARKER, line + b"\n" + hashlib.sha256(line).hexdigest().encode())


def _read_marker(checkpoint: Path) -> Marker:
    """The marker of a checkpoint. Raises DataError if it is empty or damaged."""
    line, _, checksum = (checkpoint / MARKER).read_bytes().partition(b"\n")
    try:
        marker = msgspec.json.decode(line, type=Marker)
    except (ValueError, RecursionError) as error:
        raise DataError(f"its file '{MARKER}' is empty or cannot be parsed") from error
    is_of_earlier_version = not checksum and not marker.sha256
    if not is_of_earlier_version and checksum != hashlib.sha256(line).hexdigest().encode():
        raise DataError(f"its file '{MARKER}' changed after the checkpoint was written")
    return marker


def _folders(run: Path, pattern: str = _CHECKPOINT) -> list[Path]:
    """The folders of a run whose names match, in the order of the numbers in their names."""
    folders = (folder for folder in run.glob("*") if re.fullmatch(pattern, folder.name) and folder.is_dir())
    return sorted(folders, key=_numbers)


def _numbers(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.name)]


def _files(folder: Path) -> dict[str, Path]:
    """The files of a checkpoint by their relative names, without those that exist only while it is written."""
    temporary = (MARKER, f"{MARKER}.partial", UNFINISHED, UNFINISHED_JIT)
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in temporary)
    return {str(path.relative_to(folder)): path for path in paths}


def _checksums(files: dict[str, Path], *, is_new: bool = False) -> dict[str, str]:
    """The SHA-256 checksum of each file, in hexadecimal. New files are written to disk first."""

    def checksum(path: Path) -> str:
        if is_new:
            sync(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing and waiting for the disk leave Python's lock free
        return dict(zip(files, pool.map(checksum, files.values()), strict=True))
