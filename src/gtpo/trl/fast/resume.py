"""Runs that resume exactly, from checkpoints that survive a kill and are verified before use (`checkpoints`).

transformers writes a checkpoint file by file and resumes from the highest number, complete or not. TRL forgets its
position in the generation batch, and its sampler repeats the shuffles of the first epoch. Here a run resumes from the
newest intact checkpoint, and the position in the generation batch is stored. On a CPU a resumed run repeats the
uninterrupted one bit for bit. vLLM's sampler and nondeterministic GPU kernels do not.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from accelerate.utils import broadcast_object_list
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.sft_trainer import SFTTrainer

from gtpo.errors import DataError, GTPOError
from gtpo.trl.fast.checkpoints import (
    ROLLOUTS_FILE,
    back_up_checkpoints,
    back_up_completions,
    begin_checkpoint,
    complete_checkpoint,
    known_damage_of,
    read_state,
    resume_given,
    resume_newest,
    rotate_checkpoints,
)
from gtpo.trl.fast.padding import ROW_NUMBER

logger = logging.getLogger(__name__)
T = TypeVar("T")
_Parent: Any = GRPOTrainer if TYPE_CHECKING else object


class CompleteCheckpoints(_Parent):
    """Mixin for trainers of transformers and TRL: marks complete checkpoints and resumes only from intact ones."""

    accelerator: Any
    _finished_epochs = 0
    _newest: Path | None = None  # the last checkpoint that this process completed

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, or_start: bool = False, **kwargs: Any
    ) -> Any:
        """Train as the parent does. True means the newest intact checkpoint; `or_start` allows a start without one."""
        checkpoint = self._on_main_process(lambda: self._choose(resume_from_checkpoint, or_start))
        self._finished_epochs, self._newest = 0, None
        if checkpoint is None:
            return super().train(None, *args, **kwargs)
        state = read_state(checkpoint)
        self._finished_epochs = int(state.epoch or 0)
        if self._is_finished(state) and not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            return self._finish(str(checkpoint), state)
        return super().train(str(checkpoint), *args, **kwargs)

    def _choose(self, resume_from_checkpoint: str | bool | None, or_start: bool) -> Path | None:
        run, num_processes = Path(str(self.args.output_dir)), self.args.world_size
        if resume_from_checkpoint is True:
            return resume_newest(run, num_processes, or_start=or_start)
        if resume_from_checkpoint:
            return resume_given(run, Path(resume_from_checkpoint), num_processes)
        back_up_checkpoints(run)
        back_up_completions(run)
        return None

    def _on_main_process(self, choose: Callable[[], T]) -> T:
        """What `choose` returns or raises in the main process, in every process."""
        outcome: list[Any] = [None]
        if self.args.process_index == 0:
            try:
                outcome = [choose()]
            except Exception as error:
                outcome = [error]
        broadcast_object_list(outcome)
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def _is_finished(self, state: TrainerState) -> bool:
        """Whether a checkpoint with this state has all the steps that the current options ask for."""
        if self.args.max_steps > 0:
            return state.global_step >= self.args.max_steps
        return state.global_step >= state.max_steps and state.num_train_epochs >= self.args.num_train_epochs

    def _finish(self, checkpoint: str, state: TrainerState) -> TrainOutput:
        """Load a checkpoint of the last step without training. transformers would train one step more."""
        self._load_from_checkpoint(checkpoint)
        self.state = state
        self.state.is_world_process_zero = self.is_world_process_zero()
        if self.args.load_best_model_at_end and state.best_model_checkpoint is not None:
            self._load_best_model()
        return TrainOutput(self.state.global_step, 0.0, {})

    def _load_best_model(self) -> None:
        best = Path(str(self.state.best_model_checkpoint))
        damage = self._on_main_process(lambda: known_damage_of(best))
        if damage is None:
            super()._load_best_model()
        else:
            logger.warning(
                "The best checkpoint %s is damaged: %s. The weights of the last step are kept.", best, damage
            )

    def _load_from_checkpoint(self, resume_from_checkpoint: str, *args: Any, **kwargs: Any) -> None:
        with _loading(resume_from_checkpoint):
            super()._load_from_checkpoint(resume_from_checkpoint, *args, **kwargs)
            model: Any = self.accelerator.unwrap_model(self.model)
            if getattr(model, "peft_config", {}).keys() >= {"default", "ref"}:
                # An adapter that is trained further with beta > 0: transformers loads only TRL's copy of its start.
                model.load_adapter(resume_from_checkpoint, "default", is_trainable=True)
                model.set_adapter("default")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with _loading(checkpoint):
            super()._load_optimizer_and_scheduler(checkpoint)
            if checkpoint is not None:
                self._load_progress(checkpoint)
                self._follow_schedule()

    def _follow_schedule(self) -> None:
        """Set the learning rate of the next step to that of the schedule, which a longer run plans anew.

        The optimizer's state has the rate of the old schedule: zero, if it had decayed linearly.
        """
        schedule: Any = getattr(self.lr_scheduler, "scheduler", self.lr_scheduler)  # accelerate wraps it
        if isinstance(schedule, LambdaLR):
            factors = [function(schedule.last_epoch) for function in schedule.lr_lambdas]
            schedule._last_lr = [rate * factor for rate, factor in zip(schedule.base_lrs, factors, strict=True)]
            for group, rate in zip(schedule.optimizer.param_groups, schedule._last_lr, strict=True):
                group["lr"] = rate

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with _loading(checkpoint):
            super()._load_rng_state(checkpoint)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        if folder == self._newest:
            return  # to write a complete checkpoint again would make it incomplete for a while
        if self.args.should_save:
            begin_checkpoint(folder)
        limit, self.args.save_total_limit = self.args.save_total_limit, None  # rotate after the marker is written
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        self._save_progress(folder)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            complete_checkpoint(folder, self.args.world_size)
            rotate_checkpoints(folder, limit, self.state.best_model_checkpoint)
        self._newest = folder

    def _save_progress(self, folder: Path) -> None:
        """Hook: write what else the checkpoint needs, before its marker."""

    def _load_progress(self, checkpoint: str) -> None:
        """Hook: load what `_save_progress` wrote, if it did."""


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

    def _load_progress(self, checkpoint: str) -> None:
        path = os.path.join(checkpoint, ROLLOUTS_FILE.format(rank=self.args.process_index))
        if os.path.isfile(path):
            progress = torch.load(path, map_location=self.accelerator.device, weights_only=True)
            self._step, self._buffered_inputs = progress["step"], progress["buffered_inputs"]
            if self._buffered_inputs and ROW_NUMBER in self._buffered_inputs[-1]:
                self._buffered_inputs = None  # TRL generates again what the update had yet to shape
            self._metrics["train"].update(progress["metrics"])

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        sampler: Any = super()._get_train_sampler(dataset)
        for _ in range(self._finished_epochs if sampler.shuffle else 0):
            torch.randperm(sampler.num_samples, generator=sampler.generator)  # the shuffles of finished epochs
        return sampler


@contextlib.contextmanager
def _loading(checkpoint: str | None) -> Generator[None]:
    """Turn what a library raises for a file that it cannot load into a DataError that names the checkpoint."""
    try:
        yield
    except (GTPOError, OSError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"Cannot load {checkpoint}: {type(error).__name__}: {reason}. If the model and the options are those of "
            "the run, the checkpoint is damaged: rename its folder and resume from an earlier one."
        ) from error


class ResumableSFTTrainer(CompleteCheckpoints, SFTTrainer):
    """TRL's SFTTrainer with complete checkpoints."""
