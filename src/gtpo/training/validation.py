"""Validation while training: pass@k on held-out problems every N steps and at the last, and the best checkpoint.

The policy in memory is sampled by what samples for training, `generate` or the colocated vLLM. Afterwards all random
states are as before, so a run with validation trains the same weights as one without.
"""

import contextlib
import json
import os
import random
import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState

from gtpo.errors import ConfigError, GTPOError
from gtpo.evaluation.engines.transformers import TransformersEngine
from gtpo.evaluation.engines.vllm import VLLMEngine
from gtpo.evaluation.evaluate import BATCH_SIZES, make_request, no_progress, slug
from gtpo.evaluation.metrics import measure
from gtpo.evaluation.samples import Sample, SampleFile, append_samples, read_samples, start_or_resume
from gtpo.evaluation.sampling import Engine
from gtpo.files import is_number, parse_json, write_atomic
from gtpo.problems.loading import short_name
from gtpo.training.config.plan import Plan
from gtpo.training.held_out import held_out_problems, sampling_settings
from gtpo.training.run_folder import RunFolder
from gtpo.trl.watching.watch import copy_links, link_tree, restore_folder

BEST_FOLDER = "best"
BEST_FILE = "held_out.json"
PREFIX = "held_out/"
"""Of the logged metrics: held_out/pass@1, held_out/pass@8, held_out/format, held_out/seconds, …"""
ACCURACY = f"{PREFIX}pass@1"


def check_sampler(plan: Plan) -> None:
    """Refuse validation while training where the policy in memory cannot be sampled."""
    if not plan.options.held_out_every:
        return
    config = plan.config
    uses_vllm = getattr(config, "use_vllm", False)
    launched = [os.environ.get(f"ACCELERATE_USE_{engine}", "false") for engine in ("DEEPSPEED", "FSDP")]
    is_sharded = bool(config.deepspeed or config.fsdp) or any(value.lower() == "true" for value in launched)
    problem = None
    if uses_vllm and config.vllm_mode == "server":
        problem = "a vLLM server. Use --vllm_mode colocate"
    elif uses_vllm and config.vllm_tensor_parallel_size > 1:
        problem = "vllm_tensor_parallel_size above 1. Set it to 1"
    elif not uses_vllm and is_sharded:
        problem = "weights that DeepSpeed or FSDP splits. Sample with vLLM: --use_vllm true"
    if problem:
        raise ConfigError(f"held_out_every does not support {problem}, or leave held_out_every out.")


class HeldOutCallback(TrainerCallback):
    """Every `held_out_every` steps and at the last step, adds metrics of the policy to the row logged at this step.

    A checkpoint with a higher pass@1 than all before is saved, and kept in `best/`, where `save_total_limit` does not
    delete it. Several processes share the problems.
    """

    def __init__(self, trainer: Any, plan: Plan, tokenizer: Any, run: RunFolder) -> None:
        self.trainer, self.options, self.tokenizer, self.run = trainer, plan.options, tokenizer, run
        self.every = plan.options.held_out_every or 0
        self.problems = held_out_problems(plan.options)
        self.best: tuple[int, float] | None = None  # step and pass@1 of the best checkpoint
        self.values: dict[str, float] = {}  # of this step, until they are logged

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """On resume, read the points up to the checkpoint, and restore a best checkpoint that a kill lost."""
        if state.is_world_process_zero:
            self._begin(state)
        best: list[Any] = [self.best]
        if args.world_size > 1:
            broadcast_object_list(best)  # other machines may not see the folder
        self.best = best[0]

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step % self.every and state.global_step < state.max_steps:
            return
        self.values = self.measure(state.global_step)
        control.should_log = True
        if self._is_best(self.values[ACCURACY]):
            control.should_save = True

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        for row in (kwargs["logs"], state.log_history[-1]):
            row.update(self.values)
        self.values = {}

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        row: dict[str, Any] = state.log_history[-1] if state.log_history else {}
        accuracy: Any = row.get(ACCURACY) if row.get("step") == state.global_step else None
        if is_number(accuracy) and self._is_best(accuracy):
            self._keep(state, state.global_step, accuracy)

    def _begin(self, state: TrainerState) -> None:
        folder = self.run.path / BEST_FOLDER
        points: list[tuple[int, float]] = [
            (int(row["step"]), row[ACCURACY]) for row in state.log_history if is_number(row.get(ACCURACY))
        ]
        restore_folder(folder)
        self.best = None
        if state.global_step and (best := _read_best(folder)):
            self.best = best["step"], best["pass@1"]
            self._summarize(best)  # a kill may have come before
            if best["step"] > state.global_step:
                copy_links(folder)  # that checkpoint may be written again
        for step, accuracy in points:
            if self._is_best(accuracy) and self._checkpoint(step).is_dir():
                self._keep(state, step, accuracy)

    def _is_best(self, accuracy: float) -> bool:
        return self.best is None or accuracy > self.best[1]

    def measure(self, step: int) -> dict[str, float]:
        """The metrics of the current policy, the same in every process."""
        start = time.monotonic()
        with _random_states_restored():  # a grader of the user may draw random numbers too
            values = self._measure(step)
        return {**values, f"{PREFIX}seconds": round(time.monotonic() - start, 3)}

    def _measure(self, step: int) -> dict[str, float]:
        index, size = self.trainer.args.process_index, self.trainer.args.world_size
        outcome: tuple[list[Sample], Any] | Exception
        try:
            with self._sampler(step) as engine:
                outcome = self._sample(engine, index, size)
        except Exception as error:
            outcome = _portable(error) if size > 1 else error
        parts: list[Any] = gather_object([outcome]) if size > 1 else [outcome]
        failures = [part for part in parts if isinstance(part, Exception)]
        if failures:
            raise failures[0]
        result: list[Any] = [None]
        if index == 0:
            try:
                result = [self._metrics(step, parts)]
            except Exception as error:
                result = [_portable(error) if size > 1 else error]
        if size > 1:
            broadcast_object_list(result)
        if isinstance(result[0], Exception):
            raise result[0]
        return result[0]

    def _sample(self, engine: Engine, index: int, size: int) -> tuple[list[Sample], Any]:
        """The samples of every `size`-th problem, and the header of the file for all of them."""
        name = short_name(str(self.options.held_out_set))
        request = make_request(engine, self.options.model, name, self.problems, sampling_settings(self.options))
        per_problem = request.settings.num_samples
        numbers = [
            problem * per_problem + sample
            for problem in range(index, len(self.problems), size)
            for sample in range(per_problem)
        ]
        batch = BATCH_SIZES[engine.description["engine"]]
        samples: list[Sample] = []
        for start in range(0, len(numbers), batch):
            samples += request.sample(engine, numbers[start : start + batch])
        return samples, request.header

    def _metrics(self, step: int, parts: list[tuple[list[Sample], Any]]) -> dict[str, float]:
        """Write the samples of all processes to held_out/step-N, and measure them."""
        header = parts[0][1]
        samples = [sample for part, _ in parts for sample in part]
        samples.sort(key=lambda sample: (sample.problem, sample.sample))
        folder = self.run.held_out / f"step-{step}"
        path = folder / f"{slug(header['problems']['name'])}.jsonl"
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
        folder.mkdir(parents=True)
        start_or_resume(path, header, 1, lambda count: "")
        append_samples(path, samples)
        file: SampleFile = read_samples(path)
        estimates = measure(file, None, no_progress, self.options.grader).estimates
        values = {name: estimate.value for name, estimate in estimates.items() if name.startswith("pass@")}
        values["format"] = estimates["format_rate"].value
        return {f"{PREFIX}{name}": round(value, 6) for name, value in values.items()}

    @contextlib.contextmanager
    def _sampler(self, step: int) -> Generator[Engine]:
        """What samples for training, with the current weights."""
        trainer = self.trainer
        if getattr(trainer, "use_vllm", False):
            generation = trainer.vllm_generation
            generation.sync_weights()
            trainer._last_loaded_step = step
            if generation.enable_sleep_mode:
                generation.llm.wake_up(tags=["kv_cache"])
            yield VLLMEngine(generation.llm, self.tokenizer, f"step {step}")
            if generation.enable_sleep_mode:
                generation.llm.sleep(level=2)
                trainer._last_loaded_step = -1  # sleeping, vLLM forgets its weights
            return
        model = trainer.accelerator.unwrap_model(trainer.model)
        model = model.get_base_model() if hasattr(model, "get_base_model") else model  # contains the adapter
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        precision = contextlib.nullcontext()
        if trainer.args.bf16 and model.device.type == "cuda":
            precision = torch.autocast("cuda", torch.bfloat16)  # as in the update
        try:
            with precision:
                yield TransformersEngine(model, self.tokenizer, f"step {step}")
        finally:
            for module, mode in modes:
                module.training = mode

    def _checkpoint(self, step: int) -> Path:
        return self.run.path / f"checkpoint-{step}"

    def _keep(self, state: TrainerState, step: int, accuracy: float) -> None:
        self.best = (step, accuracy)
        if not state.is_world_process_zero:
            return
        checkpoint = self._checkpoint(step)
        best = {"step": step, "pass@1": accuracy, "num_problems": len(self.problems), "grader": self.options.grader}
        write_atomic(checkpoint / BEST_FILE, json.dumps(best) + "\n")
        link_tree(checkpoint, self.run.path / BEST_FOLDER)
        self._summarize(best)

    def _summarize(self, best: dict[str, Any]) -> None:
        self.run.write_summary(best={**best, "folder": BEST_FOLDER})


def _portable(error: Exception) -> Exception:
    """The error, or one with the same message that other processes can load."""
    return error if isinstance(error, GTPOError) else RuntimeError(f"{type(error).__name__}: {error}")


def _read_best(folder: Path) -> dict[str, Any] | None:
    """What was measured of the best checkpoint so far; None if there is none, or if its file is damaged."""
    try:
        best = parse_json((folder / BEST_FILE).read_text())
        return {**best, "step": int(best["step"]), "pass@1": float(best["pass@1"])}
    except (OSError, ValueError, TypeError, KeyError):
        return None


@contextlib.contextmanager
def _random_states_restored() -> Generator[None]:
    """Leave the random states of Python, NumPy and torch, on the CPU and on every GPU, as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
