"""One training run: numbers before, TRL's loop, numbers after; stopped and resumed at will."""

import gc
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PrinterCallback, TrainerCallback

from gtpo.evaluation.evaluate import evaluate, no_progress
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.integrations.trl import GTPOTrainer
from gtpo.integrations.trl.checkpoints import (
    ResumableGRPOTrainer,
    ResumableSFTTrainer,
    last_complete_checkpoint,
    remove_incomplete_checkpoints,
)
from gtpo.integrations.trl.health import watch_health
from gtpo.integrations.trl.recording import MetricsRecorder
from gtpo.training.data import rl_dataset, sft_dataset, system_prompt, training_problems
from gtpo.training.model import load_tokenizer, locate_model, trainer_arguments
from gtpo.training.plan import Plan
from gtpo.training.rewards import find_reward
from gtpo.training.run import RunFolder


class StopAtStep(TrainerCallback):
    """On Ctrl-C or SIGTERM: finish the step, save a checkpoint, stop. A second signal is not held back."""

    def __init__(self) -> None:
        self.is_asked = False
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

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.is_asked:
            control.should_save = control.should_training_stop = True


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
    if options.method == "sft":
        made: Any = ResumableSFTTrainer(model, train_dataset=sft_dataset(problems, options), **common)
    else:
        trainer = GTPOTrainer if options.method == "gtpo" else ResumableGRPOTrainer
        rewards: Any = [find_reward(name) for name in options.rewards]
        made = trainer(model, rewards, train_dataset=rl_dataset(problems, options), **common)
        watch_health(made, options.on_collapse)
    made.remove_callback(PrinterCallback)  # transformers' way to show logs where its bar is off
    return made


def train(plan: Plan, run: RunFolder, callbacks: Sequence[TrainerCallback] = (), progress: Any = no_progress) -> bool:
    """Train in the run's folder, from its last complete checkpoint if it has one. False if it was interrupted."""
    processes = PartialState()
    with processes.main_process_first():
        model = locate_model(plan.options.model, run.path)
        if processes.is_main_process:
            if "before" not in run.summary():
                run.write_summary(before=held_out(plan, model, run, "before", progress))
            remove_incomplete_checkpoints(run.path)
    checkpoint = last_complete_checkpoint(run.path)
    start, earlier = time.monotonic(), run.summary().get("seconds", 0.0)
    with StopAtStep() as stop:
        trainer = make_trainer(plan, model, [*callbacks, stop])
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if processes.is_main_process:
            run.write_summary(seconds=round(earlier + time.monotonic() - start, 1), steps=trainer.state.global_step)
        if stop.is_asked and trainer.state.global_step < trainer.state.max_steps:
            return False
    trainer.save_model(str(run.model))
    del trainer
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if processes.is_main_process:
        run.write_summary(after=held_out(plan, str(run.model), run, "after", progress))
    processes.wait_for_everyone()
    return True


def held_out(plan: Plan, model: str, run: RunFolder, when: str, progress: Any) -> dict[str, Any] | None:
    """Accuracy, format and entropy on held-out problems, sampled at the training temperature."""
    options = plan.options
    if options.held_out_problems == 0:
        return None
    problems = options.held_out or options.problems
    settings = SamplingSettings(
        num_samples=options.held_out_samples,
        temperature=getattr(plan.config, "temperature", 1.0),
        max_new_tokens=getattr(plan.config, "max_completion_length", None),
        system_prompt=system_prompt(options),
    )
    found = evaluate(
        [model], [problems], settings, run.held_out / when,
        data_dir=options.data_dir, limit=options.held_out_problems, progress=progress,
    )  # fmt: skip
    estimates = found.measurements[0].estimates
    numbers = {"accuracy": "pass@1", "format": "format_rate", "entropy": "mean_entropy"}
    return {
        **{name: round(estimates[metric].value, 4) for name, metric in numbers.items() if metric in estimates},
        "problems": Path(problems).name,
        "num_problems": found.measurements[0].num_problems,
        "num_samples": options.held_out_samples,
        "temperature": settings.temperature,
    }
