"""A short run on the tiny model, in a process that can be killed. Most checkpoints split a generation batch.

The processes are forked from a server that has imported TRL already, which saves ten seconds each time.
"""

import gc
import hashlib
import json
import multiprocessing
import os
import resource
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from gtpo import GTPOTrainer
from tests.trl.checked import settings, train

NUM_STEPS = 6
OPTIONS = {
    "max_steps": NUM_STEPS,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 3,
    "per_device_train_batch_size": 4,
    "steps_per_generation": 3,
    "num_generations": 4,
    "initial_entropy": None,
    "initial_entropy_prompts": 2,
    "trainer": GTPOTrainer,
}

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.soak.training", "tests.tiny"])


class FullDisk(TrainerCallback):
    """From a step on, no file may grow beyond `limit` bytes: what a full disk looks like without privileges."""

    def __init__(self, step: int, limit: int) -> None:
        self.step, self.limit = step, limit

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step >= self.step:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, self.limit))


class ResumingTrainer(GTPOTrainer):
    """Resumes or starts, as `gtpo train --resume` does."""

    def train(self, *args: Any, **kwargs: Any) -> Any:
        return super().train(resume_from_checkpoint=True, or_start=True)


def launch(model: str, run: Path, log: Path, disk: tuple[int, int] | None = None) -> Any:
    """Train in another process, from the newest intact checkpoint if there is one."""
    process = SERVER.Process(target=_run, args=(model, run, log, disk), daemon=True)
    process.start()
    return process


def _run(model: str, run: Path, log: Path, disk: tuple[int, int] | None) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    torch.set_num_threads(1)
    gc.freeze()  # TRL collects garbage at the end, which takes half a second with the server's objects
    torch.manual_seed(int.from_bytes(os.urandom(4)))  # resume must not depend on it
    callbacks = [FullDisk(*disk)] if disk else []
    trainer = train(model, **settings(run, **{**OPTIONS, "trainer": ResumingTrainer}), callbacks=callbacks)
    digest = hashlib.sha256()
    for name, weights in sorted(trainer.model.state_dict().items()):
        digest.update(name.encode() + weights.numpy().tobytes())
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    newest = max(int(folder.name.split("-")[1]) for folder in run.glob("checkpoint-*"))
    result = {"weights": digest.hexdigest(), "steps": steps, "newest checkpoint": newest}
    (run / "result.json").write_text(json.dumps(result))
