"""Trains with two processes, watched and unwatched, and with an instrument that fails on one of them.

usage: torchrun --nproc_per_node 2 watched_processes.py MODEL OUT
"""

import gc
import json
import os
import sys
from pathlib import Path

import torch
from accelerate.utils import gather_object

import gtpo
from gtpo import GTPOConfig, GTPOTrainer
from gtpo.trl.watching import generated
from tests.trl.checked import prompts, settings
from tests.trl.watching.watched import grpo_trainer

RANK = int(os.environ.get("RANK", "0"))
ROWS = 4  # completions per process


def uneven_reward(completion_ids, **_):
    """The completions of the second process differ more in their rewards."""
    return [float(row) * (10 if RANK == 1 else 1) for row in range(len(completion_ids))]


def fail_in_the_second_process(trainer):
    summarise = generated.summarise

    def failing(*args):
        if RANK == 1 and trainer.state.global_step == 1:
            raise RuntimeError("made to fail in one process")
        return summarise(*args)

    generated.summarise = failing
    return lambda: setattr(generated, "summarise", summarise)


def fill_the_disk(trainer):
    if RANK == 0:
        Path(trainer.args.output_dir, "groups.jsonl").symlink_to("/dev/full")
    return lambda: None


CASES = {
    "unwatched": (4, False, None),
    "watched": (4, True, None),
    "split": (8, True, None),  # a group is larger than the rows of a process
    "split, gtpo": (8, True, None, True),
    "failing": (4, True, fail_in_the_second_process),
    "full disk": (4, True, fill_the_disk),
    "watched on one": (4, RANK == 0, None),
}


def run_case(model, out, group_size, is_watched, sabotage, is_gtpo=False):
    out.mkdir(exist_ok=True)
    options = {"per_device_train_batch_size": ROWS, "num_generations": group_size, "max_steps": 4}
    if is_gtpo:
        trainer = GTPOTrainer(model, uneven_reward, GTPOConfig(**settings(out, **options), use_cpu=True), prompts())
    else:
        trainer = grpo_trainer(model, out, reward=uneven_reward, **options)
    if is_watched:
        gtpo.watch(trainer, record_groups=1, record_every=1)
    restore = sabotage(trainer) if sabotage else lambda: None
    trainer.train()
    restore()
    recorder = getattr(trainer, "gtpo_recorder", None)
    agreed = gather_object([None if recorder is None else recorder.is_agreed_off])
    weights = [parameter.flatten().tolist() for parameter in trainer.model.parameters()]
    return {"steps": trainer.state.global_step, "weights": weights, "is_off": agreed}


def main():
    torch.set_num_threads(1)
    model, out = sys.argv[1], Path(sys.argv[2])
    torch.distributed.init_process_group("gloo")
    results = {name: run_case(model, out / name, *case) for name, case in CASES.items()}
    if RANK == 0:
        (out / "results.json").write_text(json.dumps(results))
    gc.collect()  # a trainer refers to the process group; its threads abort a process that ends before them
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
