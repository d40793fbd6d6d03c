"""A lane of a sitting: a process that trains and evaluates one job after the other, with one vLLM engine.

Starting an engine takes as long as ten steps, so there is one per lane: every run loads its weights into it while it
trains, and its final weights for the evaluation.
"""

import contextlib
import fcntl
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from experiments.qwen.arm import check_arm, evaluate_arm, train_arm
from experiments.qwen.sitting import WRONG_INPUT
from experiments.qwen.specs import SPECS, ArmRun, Spec
from gtpo.errors import GTPOError
from gtpo.evaluation.engines import load_engine
from gtpo.evaluation.sampling import Engine
from gtpo.training.held_out import free_memory

ENGINE_MINUTES = 1.5
"""Allowance for the start of vLLM."""
GRACE_SECONDS = 5
"""After the end of the sitting, which ends its lanes."""
MAX_ATTEMPTS = 2
"""A job that failed this often in a sitting is left to the next one."""


def run_lane(runs: Sequence[ArmRun], options: Any) -> NoReturn:
    """The process of a lane. It ends at once, because vLLM's engine can keep an ordinary exit from ending it."""
    threading.Thread(target=end_with_sitting, args=[options.sitting, options.until], daemon=True).start()
    code, is_checked = 1, False
    try:
        check_arm(runs[0], options.model, options.data_dir)
        is_checked = True
        code = work_through(runs, options)
    except BaseException as error:
        traceback.print_exc()
        code = WRONG_INPUT if isinstance(error, GTPOError) and not is_checked else 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_with_sitting(sitting: int, until: float) -> None:
    """End this process when the sitting was killed, or did not end it in time."""
    while os.getppid() == sitting and time.time() < until + GRACE_SECONDS:
        time.sleep(1)
    os._exit(1)


def work_through(runs: Sequence[ArmRun], options: Any) -> int:
    """Train and evaluate what no other lane does, while there is time for a job."""
    spec, llm = SPECS[options.spec], None
    while True:
        needs_engine = llm is None and spec.engine == "vllm"
        minutes = options.job_minutes + (ENGINE_MINUTES if needs_engine else 0.0)
        if time.time() > options.until - 60 * minutes:
            return 0
        with next_job(runs) as run:
            if run is None:
                return 0
            if needs_engine:
                llm = start_engine(options.model, spec)
            run.count_attempt()
            if not run.is_trained and train_arm(run, options.model, options.data_dir, options.steps) != 0:
                return 1
            free_memory()
            evaluate_arm(run, engine_for(run, options.model, llm), options.data_dir)
            shutil.rmtree(run.work, ignore_errors=True)  # the weights of all runs would fill the disk


@contextlib.contextmanager
def next_job(runs: Sequence[ArmRun]) -> Generator[ArmRun | None]:
    """Claim an open job of the first seed that has one; among those of a seed, one that was tried less often."""
    for run in sorted(runs, key=lambda run: (run.seed, run.num_attempts)):
        with claimed(run) as is_ours:
            if is_ours and not run.is_done and run.num_attempts < MAX_ATTEMPTS:
                yield run
                return
    yield None


@contextlib.contextmanager
def claimed(run: ArmRun) -> Generator[bool]:
    """Whether this process has the job for itself. A claim ends with its process, however that ends."""
    run.claim.parent.mkdir(parents=True, exist_ok=True)
    with run.claim.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def start_engine(model: str, spec: Spec) -> Any:
    """Start vLLM, and let every trainer of this process use it."""
    import vllm  # pyright: ignore[reportMissingImports]
    from accelerate import PartialState
    from trl.generation import vllm_generation

    PartialState()  # before vLLM, as in TRL
    llm = vllm.LLM(model=model, **spec.engine_options)

    def shared(**_: Any) -> Any:
        return llm

    vllm_generation.LLM = shared  # pyright: ignore[reportPrivateImportUsage]
    return llm


def engine_for(run: ArmRun, model: str, llm: Any) -> Engine:
    """What answers the problems with the weights of a run: the lane's vLLM, or the model in transformers."""
    source = str(run.work / "model") if (run.work / "model").is_dir() else model
    if llm is None:
        return load_engine(SPECS[run.spec].engine, source)
    from gtpo.evaluation.engines.vllm import VLLMEngine

    load_weights(llm, source)
    return VLLMEngine(llm, llm.get_tokenizer(), run.name, seeds_samples=False)


def load_weights(llm: Any, source: str) -> None:
    """Replace the weights of vLLM by those of a model folder or of a model from the hub."""
    from huggingface_hub import snapshot_download

    folder = Path(source if Path(source).is_dir() else snapshot_download(source))
    model = llm.llm_engine.model_executor.driver_worker.model_runner.model
    loaded = model.load_weights(_weights(folder))  # leaves out names that it does not know
    if missing := {name for name, _ in model.named_parameters()} - loaded:
        raise RuntimeError(f"{folder} lacks {len(missing)} of the model's parameters, such as {min(missing)}.")
    if llm.reset_prefix_cache() is False:
        raise RuntimeError("vLLM keeps results of the last weights in its cache: requests are still running.")


def _weights(folder: Path) -> Iterator[tuple[str, Any]]:
    from safetensors import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118  # it is no dict
                yield name, file.get_tensor(name)
