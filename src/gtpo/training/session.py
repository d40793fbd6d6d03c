"""One training run: numbers before, TRL's loop, numbers after; stopped and resumed at will."""

import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import reduce
from transformers import PrinterCallback, TrainerCallback

from gtpo.errors import ConfigError, GTPOError
from gtpo.evaluation.evaluate import evaluate, no_progress
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.training.config.plan import Plan
from gtpo.training.config.vllm import require_room, require_vllm
from gtpo.training.data import (
    file_columns,
    held_out_set,
    problems_digest,
    require_enough,
    rl_dataset,
    sft_dataset,
    system_prompt,
    training_problems,
)
from gtpo.training.model import load_tokenizer, locate_model, trainer_arguments
from gtpo.training.rewards import find_reward
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
    """On Ctrl-C or SIGTERM: finish the step, save a checkpoint, stop; outside the loop, stop at once.

    A second signal is not held back. If one process is asked, all stop after the same step.
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
        with contextlib.suppress(OSError):  # nobody may be listening any more
            os.write(2, b"\nStopping after this step, with a checkpoint. Once more to stop at once.\n")

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


def make_trainer(plan: Plan, model: str, callbacks: Sequence[TrainerCallback] = ()) -> Any:
    """The trainer of the method, ready to train."""
    options, config = plan.options, plan.config
    tokenizer = load_tokenizer(model)
    problems, _ = training_problems(options, tokenizer, config.seed)
    common: dict[str, Any] = {
        "args": config,
        "processing_class": tokenizer,
        "callbacks": [*callbacks] if options.method == "gtpo" else [*callbacks, MetricsRecorder()],
        **trainer_arguments(plan.model_config, config),
    }
    rewards: Any = [find_reward(name) for name in options.rewards]
    try:
        if options.method == "sft":
            made: Any = ResumableSFTTrainer(model, train_dataset=sft_dataset(problems, options), **common)
        else:
            trainer = GTPOTrainer if options.method == "gtpo" else ResumableGRPOTrainer
            made = trainer(model, rewards, train_dataset=rl_dataset(problems, options), **common)
            watch_health(made, options.on_collapse)
    except GTPOError:
        raise
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise ConfigError(f"TRL refuses these settings: {error}") from error
    made.remove_callback(PrinterCallback)  # transformers' way to show logs where its bar is off
    return made


def train(plan: Plan, run: RunFolder, callbacks: Sequence[TrainerCallback] = (), progress: Any = no_progress) -> bool:
    """Train in the run's folder, from its last complete checkpoint if it has one. False if it was interrupted."""
    require_vllm(plan)
    with StopAtStep() as stop:
        processes = PartialState()
        with processes.main_process_first():
            model = locate_model(plan.options.model, run.path, plan.model_config.model_revision)
            require_room(plan, model)
            if processes.is_main_process:
                _require_same_problems(plan, run)
                if "before" not in run.summary():
                    if plan.options.method != "sft":
                        problems, _ = training_problems(plan.options, load_tokenizer(model), plan.config.seed)
                        require_enough(problems, plan.config)
                    run.write_summary(before=measure_held_out(plan, model, run, "before", progress))
                remove_incomplete_checkpoints(run.path)
        if not _train(plan, run, model, [*callbacks, stop], stop):
            return False
        if processes.is_main_process:
            run.write_summary(after=measure_held_out(plan, str(run.model), run, "after", progress))
        processes.wait_for_everyone()
    return True


def _require_same_problems(plan: Plan, run: RunFolder) -> None:
    """Refuse to go on with other problems than the run began with: their file may have changed in between."""
    problems, _ = training_problems(plan.options, None, plan.config.seed)
    digest = problems_digest(problems)
    if run.summary().setdefault("problems_sha256", digest) != digest:
        raise ConfigError(
            f"The problems of {plan.options.problems} are not those that this run began with. Put them back as they "
            "were, or start a new run."
        )
    run.write_summary(problems_sha256=digest)


def _train(plan: Plan, run: RunFolder, model: str, callbacks: Sequence[TrainerCallback], stop: StopAtStep) -> bool:
    """TRL's loop; the final model is saved unless it was interrupted."""
    checkpoint = last_complete_checkpoint(run.path)
    earlier = run.summary().get("seconds")
    earlier = earlier if isinstance(earlier, int | float) else 0.0
    start = time.monotonic()
    trainer = make_trainer(plan, model, callbacks)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.is_world_process_zero():
        run.write_summary(
            seconds=round(earlier + time.monotonic() - start, 1),
            steps=trainer.state.global_step,
            max_steps=trainer.state.max_steps,
        )
    if stop.is_asked and trainer.state.global_step < trainer.state.max_steps:
        return False
    trainer.save_model(str(run.model))
    del trainer
    _free_memory()
    return True


def _free_memory() -> None:
    """What a model held goes back to the card: vLLM takes its share of what is free."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def measure_held_out(plan: Plan, model: str, run: RunFolder, when: str, progress: Any) -> dict[str, Any] | None:
    """Accuracy, format and entropy on held-out problems, sampled in the same way whatever the method."""
    options = plan.options
    problems = held_out_set(options)
    if problems is None:
        return None
    settings = SamplingSettings(
        num_samples=options.held_out_samples,
        temperature=options.held_out_temperature,
        max_new_tokens=options.held_out_tokens,
        system_prompt=system_prompt(options),
    )
    try:
        found = evaluate(
            [model], [problems], settings, run.held_out / when,
            data_dir=options.data_dir, limit=options.held_out_problems, progress=progress,
            columns=file_columns(options, problems),
        )  # fmt: skip
    except ConfigError as error:
        raise ConfigError(f"Held-out problems, {Path(problems).name}: {error}") from error
    _free_memory()
    estimates = found.measurements[0].estimates
    numbers = {"accuracy": "pass@1", "format": "format_rate", "entropy": "mean_entropy"}
    return {
        **{name: round(estimates[metric].value, 4) for name, metric in numbers.items() if metric in estimates},
        "problems": Path(problems).name,
        "num_problems": found.measurements[0].num_problems,
        "num_samples": options.held_out_samples,
        "temperature": settings.temperature,
        "max_new_tokens": options.held_out_tokens,
    }
