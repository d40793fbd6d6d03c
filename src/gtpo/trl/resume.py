"""Checkpoints that survive a kill, and runs that resume exactly.

transformers writes a checkpoint file by file and resumes from the highest number, complete or not. TRL forgets its
position in the generation batch, and its sampler repeats the shuffles of the first epoch. Here a checkpoint gets a
marker that lists its files after all of them are written. Only complete checkpoints with a marker are resumed from,
older ones are removed after the marker is written, and the position in the generation batch is stored. On a CPU a
resumed run repeats the uninterrupted one bit for bit. vLLM's sampler and nondeterministic GPU kernels do not.
"""

import json
import logging
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from transformers import TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput, rotate_checkpoints
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.sft_trainer import SFTTrainer

from gtpo.errors import ConfigError, DataError
from gtpo.files import write_atomic

MARKER = "complete"
"""The file that is written last into a checkpoint; it lists the others."""

ROLLOUTS_FILE = "rollouts_{rank}.pt"

logger = logging.getLogger(__name__)

_CHECKPOINT = rf"{PREFIX_CHECKPOINT_DIR}-\d+"
_BACKUP = rf"earlier-\d+-{_CHECKPOINT}"
_Parent: Any = GRPOTrainer if TYPE_CHECKING else object


class Marker(msgspec.Struct):
    """What a checkpoint held when it was complete: files with their sizes, written by so many processes."""

    num_processes: int
    files: dict[str, int]


def last_complete_checkpoint(run: Path | str) -> Path | None:
    """The newest complete checkpoint of a run."""
    return max(_complete(run), key=_numbers, default=None)


def remove_incomplete_checkpoints(run: Path | str) -> None:
    """Delete checkpoints that a kill left incomplete."""
    for folder in _folders(run, _CHECKPOINT):
        if not (folder / MARKER).is_file():
            logger.warning("Removing %s: it is incomplete.", folder)
            shutil.rmtree(folder)


def back_up_checkpoints(run: Path | str) -> None:
    """Rename the checkpoints of an earlier run in this folder, so that the new run does not resume from them."""
    folders = _folders(run, _CHECKPOINT)
    number = 1 + max((_numbers(backup)[0] for backup in _folders(run, _BACKUP)), default=0)
    for folder in folders:
        folder.rename(folder.with_name(f"earlier-{number}-{folder.name}"))
    if folders:
        logger.warning("Renamed the checkpoints of an earlier run in %s to earlier-%d-checkpoint-….", run, number)


def require_complete(checkpoint: Path, num_processes: int) -> None:
    """Raise if the checkpoint has lost files since it was written, or if another number of processes wrote it."""
    marker = checkpoint / MARKER
    text = marker.read_bytes() if marker.is_file() else b""
    if not text:
        return  # written by another trainer, or by an earlier version: there is nothing to compare with
    try:
        written = msgspec.json.decode(text, type=Marker)
    except ValueError as error:
        raise DataError(f"Cannot parse {marker}: {error}. {_remedy(checkpoint)}") from error
    if written.num_processes != num_processes:
        raise ConfigError(
            f"{checkpoint} was written by {written.num_processes} processes, but this run has {num_processes}. "
            f"Resume with {written.num_processes} processes: each stored its own position in the data."
        )
    sizes = _file_sizes(checkpoint)
    for name, size in written.files.items():
        if sizes.get(name) != size:
            what = f"has {sizes[name]} bytes instead of {size}" if name in sizes else "is missing"
            raise DataError(f"{checkpoint} is damaged: {name} {what}. {_remedy(checkpoint)}")


def _complete(run: Path | str) -> list[Path]:
    return [folder for folder in _folders(run, _CHECKPOINT) if (folder / MARKER).is_file()]


def _remedy(damaged: Path) -> str:
    others = [folder.name for folder in _complete(damaged.parent) if folder != damaged]
    return f"Delete the folder and {f'resume from {others[-1]}' if others else 'train from the start'}."


def _folders(run: Path | str, pattern: str) -> list[Path]:
    """The folders of a run whose names match, in the order of the numbers in their names."""
    folders = (folder for folder in Path(run).glob("*") if re.fullmatch(pattern, folder.name) and folder.is_dir())
    return sorted(folders, key=_numbers)


def _numbers(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.name)]


def _file_sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MARKER)
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


class CompleteCheckpoints(_Parent):
    """Mixin for trainers of transformers and TRL: marks complete checkpoints and resumes only from these."""

    accelerator: Any
    _finished_epochs = 0

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(last_complete_checkpoint(str(self.args.output_dir)) or "")
            if not resume_from_checkpoint:
                backups = _folders(str(self.args.output_dir), _BACKUP)
                such_as = f", such as {backups[-1].name} of an earlier run" if backups else ""
                raise ConfigError(
                    f"There is no complete checkpoint in {self.args.output_dir} to resume from. Train without "
                    f"resume_from_checkpoint, or pass the folder of a checkpoint{such_as}."
                )
        self._finished_epochs = 0
        if resume_from_checkpoint:
            require_complete(Path(resume_from_checkpoint), self.args.world_size)
            state = json.loads((Path(resume_from_checkpoint) / "trainer_state.json").read_text())
            self._finished_epochs = int(state["epoch"])
            if self._is_finished(state) and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
                return self._finish(str(resume_from_checkpoint))
        elif self.args.should_save:
            back_up_checkpoints(str(self.args.output_dir))
        return super().train(resume_from_checkpoint or None, *args, **kwargs)

    def _is_finished(self, state: dict[str, Any]) -> bool:
        """Whether a checkpoint with this state has all the steps that the current options ask for."""
        if self.args.max_steps > 0:
            return state["global_step"] >= self.args.max_steps
        return state["global_step"] >= state["max_steps"] and state["num_train_epochs"] >= self.args.num_train_epochs

    def _finish(self, checkpoint: str) -> TrainOutput:
        """Load a checkpoint of the last step without training. transformers would train one step more."""
        self._load_from_checkpoint(checkpoint)
        self.state = TrainerState.load_from_json(os.path.join(checkpoint, "trainer_state.json"))
        self.state.is_world_process_zero = self.is_world_process_zero()
        return TrainOutput(self.state.global_step, 0.0, {})

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # rotate after the marker is written
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        run = self._get_output_dir(trial=trial)
        folder = Path(run) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        self._save_progress(folder)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            marker = Marker(self.args.world_size, _file_sizes(folder))
            write_atomic(folder / MARKER, msgspec.json.encode(marker))
            rotate_checkpoints(run, limit, self.state.best_model_checkpoint, use_mtime=True)

    def _save_progress(self, folder: Path) -> None:
        """Hook: write what else the checkpoint needs, before its marker."""


class ExactResume(CompleteCheckpoints):
    """Mixin for GRPO trainers: also stores the position in the generation batch and in the order of prompts."""

    _step: int
    _buffered_inputs: Any
    _metrics: Any

    def _save_progress(self, folder: Path) -> None:
        args: Any = self.args
        is_used_up = self._step % (args.steps_per_generation * self.num_iterations) == 0
        progress = {
            "step": self._step,
            "buffered_inputs": None if is_used_up else self._buffered_inputs,
            "metrics": dict(self._metrics["train"]),
        }
        torch.save(progress, folder / ROLLOUTS_FILE.format(rank=self.args.process_index))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        path = os.path.join(checkpoint or "", ROLLOUTS_FILE.format(rank=self.args.process_index))
        if checkpoint is not None and os.path.isfile(path):
            progress = torch.load(path, map_location=self.accelerator.device, weights_only=True)
            self._step, self._buffered_inputs = progress["step"], progress["buffered_inputs"]
            self._metrics["train"].update(progress["metrics"])

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler: Any = super()._get_train_sampler(dataset)
        for _ in range(self._finished_epochs if sampler.shuffle else 0):
            torch.randperm(sampler.num_samples, generator=sampler.generator)  # the shuffles of finished epochs
        return sampler


class ResumableSFTTrainer(CompleteCheckpoints, SFTTrainer):
    """TRL's SFTTrainer with complete checkpoints."""
