"""One training run: evaluation before, TRL's training loop, evaluation after. It can be stopped and resumed."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Generator, Sequence
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import reduce
from transformers import PrinterCallback, TrainerCallback

from gtpo.errors import ConfigError, GTPOError
from gtpo.evaluation.evaluate import Progress, no_progress
from gtpo.files import JsonLines, is_number
from gtpo.models import find_model
from gtpo.records import METRICS_FILE
from gtpo.training.held_out import free_memory, measure_held_out
from gtpo.training.inputs.adapters import load_adapter
from gtpo.training.prepare import Prepared, download_weights
from gtpo.training.publish.card import write_card
from gtpo.training.run_folder import RunFolder
from gtpo.training.validation import HeldOutCallback
from gtpo.trl.fast.resume import ResumableSFTTrainer
from gtpo.trl.fast.trainer import FastGRPOTrainer
from gtpo.trl.trainer import GTPOTrainer
from gtpo.trl.watching.recording import Recorder
from gtpo.trl.watching.watch import discard_worse_model, watch

TRAINERS: dict[str, Any] = {"gtpo": GTPOTrainer, "grpo": FastGRPOTrainer, "sft": ResumableSFTTrainer}


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


@contextlib.contextmanager
def one_thread() -> Generator[None]:
    """Compute on one CPU thread: for one token of a tiny model, threads wait for each other longer than they work."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def make_trainer(prepared: Prepared, callbacks: Sequence[TrainerCallback] = (), run: RunFolder | None = None) -> Any:
    """Load the weights into the trainer of the method. In a `run`, it is validated while it trains, if asked for."""
    method, config = prepared.plan.options.method, prepared.plan.config
    config.push_to_hub = False  # it would upload the folder of the run; gtpo.training.publish.hub uploads the model
    arguments: dict[str, Any] = {
        "args": config,
        "train_dataset": prepared.dataset,
        "processing_class": prepared.tokenizer,
        "callbacks": [*callbacks, Recorder()] if method == "sft" else [*callbacks],
        **prepared.trainer_arguments,
        **_model_arguments(prepared),
    }
    if method != "sft":
        arguments["reward_funcs"] = prepared.rewards
    try:
        trainer: Any = TRAINERS[method](**arguments)
    except GTPOError:
        raise
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise ConfigError(f"TRL refuses these settings: {error}") from error
    if method != "sft":
        recorded: dict[str, Any] = {
            name: getattr(trainer.args, name)
            for name in ("record_groups", "record_every")
            if hasattr(trainer.args, name)
        }
        watch(trainer, on_collapse=prepared.plan.options.on_collapse, **recorded)
        if prepared.plan.options.model == "lab":
            trainer._generate_single_turn = one_thread()(trainer._generate_single_turn)
    if run is not None and prepared.plan.options.held_out_every:
        validation = HeldOutCallback(trainer, prepared.plan, prepared.tokenizer, run)
        trainer.callback_handler.callbacks.insert(0, validation)  # first: the verdict and the records get its metrics
    trainer.remove_callback(PrinterCallback)  # transformers prints logs with it when its progress bar is off
    return trainer


def _model_arguments(prepared: Prepared) -> dict[str, Any]:
    """The model for the trainer: a folder or a hub id, or the loaded adapter that is trained further.

    A new adapter stores the path of its base, so the path is absolute.
    """
    source, config = find_model(prepared.model), prepared.plan.config
    if source.base is None:
        return {"model": os.path.abspath(prepared.model) if source.is_local else prepared.model}
    quantization = prepared.trainer_arguments["quantization_config"]
    model = load_adapter(source.location, source.base, config, quantization)
    config.model_init_kwargs = None  # TRL warns about options for a model that is loaded already
    return {"model": model, "peft_config": None, "quantization_config": None}


def train(
    prepared: Prepared, run: RunFolder, callbacks: Sequence[TrainerCallback] = (), progress: Progress = no_progress
) -> bool:
    """Train in the run's folder, from its newest intact checkpoint if there is one. False if it was interrupted."""
    options, trusts = prepared.plan.options, prepared.plan.config.trust_remote_code

    def evaluate(when: str, model: str) -> None:
        folder = run.held_out / when
        run.write_summary(**{when: measure_held_out(options, model, folder, progress, trust_remote_code=trusts)})

    with StopAtStep() as stop:
        processes = PartialState()
        with processes.main_process_first():
            download_weights(options.model, prepared.plan.model_config.model_revision)
            if processes.is_main_process:
                _require_same_problems(prepared, run)
                if "before" not in run.summary():
                    evaluate("before", prepared.model)
        earlier_seconds = _seconds_so_far(run)
        start = time.monotonic()
        trainer = make_trainer(prepared, [*callbacks, stop], run)
        trainer.train(resume_from_checkpoint=True, or_start=True)
        steps, max_steps = trainer.state.global_step, trainer.state.max_steps
        if processes.is_main_process:
            seconds = round(earlier_seconds + time.monotonic() - start, 1)
            run.write_summary(seconds=seconds, steps=steps, max_steps=max_steps)
        if stop.is_asked and steps < max_steps:
            return False
        trainer.save_model(str(run.model))
        del trainer
        free_memory()
        if processes.is_main_process:
            evaluate("after", str(run.model))
            discard_worse_model(run.path, steps)
            write_card(prepared, run)
        processes.wait_for_everyone()
    return True


def _seconds_so_far(run: RunFolder) -> float:
    """The seconds of training that the summary or, after a kill, the metrics of an earlier start know of."""
    metrics = JsonLines(run.path / METRICS_FILE)
    rows = metrics.rows() if metrics.path.exists() else ()
    known: list[Any] = [run.summary().get("seconds"), *(row.get("seconds") for row in rows)]
    return max(filter(is_number, known), default=0.0)


def _require_same_problems(prepared: Prepared, run: RunFolder) -> None:
    """Refuse to resume with other problems than the run started with, for example from an edited file."""
    digest = prepared.problems_digest
    if run.summary().get("problems_sha256", digest) != digest:
        name = prepared.plan.options.problems
        raise ConfigError(
            f"The problems of {name} have changed since this run started. Restore them, or start a new run."
        )
    run.write_summary(problems_sha256=digest)
