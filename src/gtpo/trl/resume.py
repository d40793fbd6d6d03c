"""Checkpoints that survive a kill, and runs that go on as if nothing had happened.

transformers writes a checkpoint file by file and resumes from the highest number, finished or not; TRL forgets where
in its generation batch it was, and its sampler starts its shuffles over. So a checkpoint gets a marker, which names
its files, when everything is written; only marked ones that are whole are resumed from, older ones are removed after
the marker and not before, and the place in the generation batch is kept. On a CPU a resumed run then repeats the
unbroken one bit for bit; vLLM's sampler and nondeterministic GPU kernels are beyond us.
"""

import json
import logging
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput, rotate_checkpoints
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.sft_trainer import SFTTrainer

from gtpo.errors import ConfigError, DataError

COMPLETE = "complete"
ROLLOUTS = "rollouts_{rank}.pt"
logger = logging.getLogger(__name__)

_EARLIER = re.compile(rf"earlier-(\d+)-{PREFIX_CHECKPOINT_DIR}-\d+")
_Parent: Any = GRPOTrainer if TYPE_CHECKING else object


def last_complete_checkpoint(run: Path | str) -> Path | None:
    """The newest checkpoint of a run that was written to its end."""
    return next((folder for folder in reversed(_checkpoints(run)) if (folder / COMPLETE).is_file()), None)


def remove_incomplete_checkpoints(run: Path | str) -> None:
    """Delete what a kill left half written."""
    for folder in _checkpoints(run):
        if not (folder / COMPLETE).is_file():
            logger.warning("%s is half written and is removed.", folder)
            shutil.rmtree(folder)


def set_checkpoints_aside(run: Path | str) -> None:
    """What lies there when a run starts anew is another run's: it gets a name that nobody resumes from by mistake."""
    folders = _checkpoints(run)
    number = 1 + max((int(name.group(1)) for name in map(_EARLIER.match, _names(run)) if name), default=0)
    for folder in folders:
        folder.rename(folder.with_name(f"earlier-{number}-{folder.name}"))
    if folders:
        logger.warning("The checkpoints of an earlier run in %s are now called earlier-%d-checkpoint-….", run, number)


def _names(run: Path | str) -> list[str]:
    names = (path.name for path in Path(run).glob("*"))
    return sorted(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def require_whole(checkpoint: Path, num_processes: int) -> None:
    """Refuse a checkpoint that has lost something since it was written, or that another number of processes wrote."""
    marker = checkpoint / COMPLETE
    text = marker.read_text() if marker.is_file() else ""
    if not text:
        return  # not ours, or of an earlier version: nothing to check by
    try:
        written = json.loads(text)
        if written.keys() != {"num_processes", "files"}:
            raise ValueError("it does not name processes and files")
    except (ValueError, AttributeError) as error:
        raise DataError(
            f"{marker} is damaged: {error}. Delete the checkpoint, and resume from an older one."
        ) from error
    if written["num_processes"] != num_processes:
        raise ConfigError(
            f"{checkpoint} was written by {written['num_processes']} processes, this is a run of {num_processes}: "
            f"they would not agree on where they are. Resume with {written['num_processes']}."
        )
    sizes = _file_sizes(checkpoint)
    for name, size in written["files"].items():
        if sizes.get(name) != size:
            what = "is missing" if name not in sizes else f"has {sizes[name]} bytes, was written with {size}"
            whole = [other for other in _checkpoints(checkpoint.parent) if (other / COMPLETE).is_file()]
            others = [other for other in whole if other != checkpoint]
            before = f" and go on from {others[-1].name}" if others else " and train from the start"
            raise DataError(f"{checkpoint} is damaged: {name} {what}. Delete the folder{before}.")


def _checkpoints(run: Path | str) -> list[Path]:
    """The folders that a trainer made, the newest last; what somebody else called so similarly is not touched."""
    numbered = re.compile(rf"{PREFIX_CHECKPOINT_DIR}-\d+")
    folders = [folder for folder in Path(run).glob("*") if numbered.fullmatch(folder.name) and folder.is_dir()]
    return sorted(folders, key=lambda folder: int(folder.name.rsplit("-", 1)[1]))


def _file_sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != COMPLETE)
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


class CompleteCheckpoints(_Parent):
    """Mixin for trainers of transformers and TRL: marks checkpoints, and resumes from marked ones alone."""

    accelerator: Any
    _finished_epochs = 0

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(last_complete_checkpoint(str(self.args.output_dir)) or "")
            if not resume_from_checkpoint:
                earlier = [name for name in _names(str(self.args.output_dir)) if _EARLIER.match(name)]
                such_as = f", such as {earlier[-1]} of an earlier run" if earlier else ""
                raise ConfigError(
                    f"{self.args.output_dir} holds no complete checkpoint to resume from. Train without "
                    f"resume_from_checkpoint, or name the folder of a checkpoint{such_as}."
                )
        self._finished_epochs = 0
        if resume_from_checkpoint:
            require_whole(Path(resume_from_checkpoint), self.args.world_size)
            state = json.loads((Path(resume_from_checkpoint) / "trainer_state.json").read_text())
            self._finished_epochs = int(state["epoch"])
            if self._is_finished(state) and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
                return self._finish(str(resume_from_checkpoint))
        elif self.args.should_save:
            set_checkpoints_aside(str(self.args.output_dir))
        return super().train(resume_from_checkpoint or None, *args, **kwargs)

    def _is_finished(self, state: dict[str, Any]) -> bool:
        """Was the last step made, by what the trainer is asked for now?"""
        if self.args.max_steps > 0:
            return state["global_step"] >= self.args.max_steps
        return state["global_step"] >= state["max_steps"] and state["num_train_epochs"] >= self.args.num_train_epochs

    def _finish(self, checkpoint: str) -> TrainOutput:
        """Take over a checkpoint of the last step. transformers would make one step more."""
        self._load_from_checkpoint(checkpoint)
        self.state = TrainerState.load_from_json(os.path.join(checkpoint, "trainer_state.json"))
        self.state.is_world_process_zero = self.is_world_process_zero()
        return TrainOutput(self.state.global_step, 0.0, {})

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # not before the marker is there
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        run = self._get_output_dir(trial=trial)
        folder = Path(run) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        self._save_progress(folder)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            marker = {"num_processes": self.args.world_size, "files": _file_sizes(folder)}
            partial = folder / f"{COMPLETE}.partial"
            partial.write_text(json.dumps(marker))
            os.replace(partial, folder / COMPLETE)
            rotate_checkpoints(run, limit, self.state.best_model_checkpoint, use_mtime=True)

    def _save_progress(self, folder: Path) -> None:
        """What else a checkpoint must hold."""


class ExactResume(CompleteCheckpoints):
    """The same for GRPO's family: also keeps the place in the generation batch and in the order of prompts."""

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
        torch.save(progress, folder / ROLLOUTS.format(rank=self.args.process_index))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        path = os.path.join(checkpoint or "", ROLLOUTS.format(rank=self.args.process_index))
        if checkpoint is not None and os.path.isfile(path):
            progress = torch.load(path, map_location=self.accelerator.device, weights_only=True)
            self._step, self._buffered_inputs = progress["step"], progress["buffered_inputs"]
            self._metrics["train"].update(progress["metrics"])

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler: Any = super()._get_train_sampler(dataset)
        for _ in range(self._finished_epochs if sampler.shuffle else 0):
            torch.randperm(sampler.num_samples, generator=sampler.generator)  # the shuffles of finished epochs
        return sampler


class ResumableGRPOTrainer(ExactResume, GRPOTrainer):
    """TRL's GRPOTrainer with checkpoints as above, so that it can be compared with GTPO on equal terms."""


class ResumableSFTTrainer(CompleteCheckpoints, SFTTrainer):
    """TRL's SFTTrainer, likewise."""
