"""One training run: evaluation before, TRL's training loop, evaluation after. It can be stopped and resumed."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import reduce
from transformers import PrinterCallback, TrainerCallback

from gtpo.errors import ConfigError, GTPOError
from gtpo.evaluation.evaluate import Progress, no_progress
from gtpo.training.held_out import free_memory, measure_held_out
from gtpo.training.model import download_weights
from gtpo.training.prepare import Prepared
from gtpo.training.run_folder import RunFolder
from gtpo.trl import GTPOTrainer
from gtpo.trl.recording import MetricsRecorder
from gtpo.trl.resume import (
    ResumableGRPOTrainer,
    ResumableSFTTrainer,
    last_complete_checkpoint,
    remove_incomplete_checkpoints,
)
from gtpo.trl.watch import watch_health


class StopAtStep(TrainerCallback):
    """On Ctrl-C or SIGTERM, finish the step, save a checkpoint and stop; outside the training loop, stop at once.

    A second signal stops at once. If one process gets the signal, all processes stop after the same step.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self.is_in_loop = False
        self._earlier: dict[int, Any] = {}

    def __enter__(self) -> "StopAtStep":
        if threading.current_thread() is threading.main_thread():
            self._earlier = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: Any) -> None:
        self.is_asked = True
        self.__exit__()
        if not self.is_in_loop:
            raise KeyboardInterrupt
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(2, b"\nStopping after this step, with a checkpoint. Press Ctrl-C again to stop at once.\n")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.is_in_loop = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.world_size > 1:
            asked = torch.tensor(float(self.is_asked), device=args.device)
            total: Any = reduce(asked, "sum")
            self.is_asked = bool(total > 0)
        if self.is_asked:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.is_in_loop = False


def make_trainer(prepared: Prepared, callbacks: Sequence[TrainerCallback] = ()) -> Any:
    """Load the weights into the trainer of the method."""
    options = prepared.plan.options
    rewards: Any = prepared.rewards
    common: dict[str, Any] = {
        "args": prepared.plan.config,
        "train_dataset": prepared.dataset,
        "processing_class": prepared.tokenizer,
        "callbacks": [*callbacks] if options.method == "gtpo" else [*callbacks, MetricsRecorder()],
        **prepared.trainer_arguments,
    }
    try:
        if options.method == "sft":
            trainer: Any = ResumableSFTTrainer(prepared.model, **common)
        else:
            trainer_class = GTPOTrainer if options.method == "gtpo" else ResumableGRPOTrainer
            trainer = trainer_class(prepared.model, rewards, **common)
            watch_health(trainer, options.on_collapse)
    except GTPOError:
        raise
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise ConfigError(f"TRL refuses these settings: {error}") from error
    trainer.remove_callback(PrinterCallback)  # transformers prints logs with it when its progress bar is off
    return trainer


def train(
    prepared: Prepared, run: RunFolder, callbacks: Sequence[TrainerCallback] = (), progress: Progress = no_progress
) -> bool:
    """Train in the run's folder, from its last complete checkpoint if there is one. False if it was interrupted."""
    plan = prepared.plan
    with StopAtStep() as stop:
        processes = PartialState()
        with processes.main_process_first():
            download_weights(plan.options.model, plan.model_config.model_revision)
            if processes.is_main_process:
                _require_same_problems(prepared, run)
                if "before" not in run.summary():
                    samples = run.held_out / "before"
                    run.write_summary(before=measure_held_out(plan.options, prepared.model, samples, progress))
                remove_incomplete_checkpoints(run.path)
        if not _train(prepared, run, [*callbacks, stop], stop):
            return False
        if processes.is_main_process:
            samples = run.held_out / "after"
            run.write_summary(after=measure_held_out(plan.options, str(run.model), samples, progress))
        processes.wait_for_everyone()
    return True


def _require_same_problems(prepared: Prepared, run: RunFolder) -> None:
    """Refuse to resume with other problems than the run started with, for example from an edited file."""
    digest = prepared.problems_digest
    if run.summary().get("problems_sha256", digest) != digest:
        raise ConfigError(
            f"The problems of {prepared.plan.options.problems} have changed since this run started. Restore them, or "
            "start a new run."
        )
    run.write_summary(problems_sha256=digest)


def _train(prepared: Prepared, run: RunFolder, callbacks: Sequence[TrainerCallback], stop: StopAtStep) -> bool:
    """Run TRL's training loop and save the final model. False if it was interrupted."""
    checkpoint = last_complete_checkpoint(run.path)
    earlier_seconds = run.summary().get("seconds", 0.0)
    start = time.monotonic()
    trainer = make_trainer(prepared, callbacks)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.is_world_process_zero():
        run.write_summary(
            seconds=round(earlier_seconds + time.monotonic() - start, 1),
            steps=trainer.state.global_step,
            max_steps=trainer.state.max_steps,
        )
    if stop.is_asked and trainer.state.global_step < trainer.state.max_steps:
        return False
    trainer.save_model(str(run.model))
    del trainer
    free_memory()
    return True
