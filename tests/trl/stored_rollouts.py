"""Trains on stored completions, so that any number of processes gets the same ones.

usage: torchrun --nproc_per_node N stored_rollouts.py MODEL OUT
"""

import gc
import json
import os
import random
import sys
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback

from gtpo import FastGRPOTrainer, GTPOConfig, GTPOTrainer
from gtpo.core.config import LN2
from trl import GRPOConfig, GRPOTrainer

ROWS = 12  # completions in a generation batch, over all processes
LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
EVEN_STEPS = {
    "num_generations": 4,
    "gradient_accumulation_steps": 2,
    "optim": "sgd",
    "max_grad_norm": 0.0,
    "learning_rate": 1e-3,
    "entropy_threshold": 1.9,
    "initial_entropy": 0.0,
}
CASES = {
    "split": {"num_generations": 12},
    "split for two processes": {"num_generations": 4},
    "split for three processes, divided advantages": {"num_generations": 6, "scale_rewards": "group"},
    "split for three processes, centred": {
        "num_generations": 6,
        "entropy_penalty_center": True,
        "conflict_match": "prefix",
    },
    "split for three processes, lora and accumulation": {
        "num_generations": 6,
        "gradient_accumulation_steps": 2,
        "peft_config": LORA,
    },
    "split for three processes, tools": {"num_generations": 6, "tools": True},
    "split for three processes, a scheme with every input": {
        "num_generations": 6,
        "credit": "tests.credit.own_schemes:every_input",
        "learning_rate": 1e-3,
        "entropy_threshold": LN2,
    },
    "several iterations": {"num_generations": 4, "num_iterations": 2},
    "trimmed": {**EVEN_STEPS, "entropy_filter": "all"},
    "shaped in the update": EVEN_STEPS,
    "untrimmed": {**EVEN_STEPS, "trim_batches": False},
}
OF_GTPO = {"initial_entropy_prompts", "entropy_threshold", "initial_entropy"}
PLAIN = {**{name: value for name, value in EVEN_STEPS.items() if name not in OF_GTPO}, "bf16": False}
GRPO_CASES = {
    f"{loss_type}, {name}": {**PLAIN, "trainer": trainer, "loss_type": loss_type}
    for loss_type in ("bnpo", "cispo")  # GTPO's cases have the divisor of the others
    for name, trainer in {"fast": FastGRPOTrainer, "stock": GRPOTrainer}.items()
}


def stored(prompt: str, copy: int) -> list[int]:
    """A completion of a prompt: openings and endings are shared, lengths differ."""
    rng = random.Random(f"{prompt} {copy}")
    return [*rng.choice([[20, 21], [20, 22]]), *(rng.randint(20, 40) for _ in range(rng.randint(0, 9))), 50, 1]


def reward(completion_ids, **kwargs):
    return [None if len(ids) == 7 else float(sum(ids) % 3) for ids in completion_ids]


reward.spans = lambda text: [(0, len(text) // 2)]


def run_case(model: str, out: Path, options: dict) -> dict:
    options = dict(options)
    group_size, has_tools = options["num_generations"], options.pop("tools", False)
    peft_config = options.pop("peft_config", None)
    trainer_class = options.pop("trainer", GTPOTrainer)
    is_gtpo = trainer_class is GTPOTrainer
    shaped_rows, sizes, gradients = [], [], []

    class Gradients(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).tolist())

    def rollout(prompts, trainer):
        first = trainer.accelerator.process_index * len(prompts)
        completions = [stored(p, (first + i) % group_size) for i, p in enumerate(prompts)]
        prompt_ids = [[5, *range(20, 20 + sum(map(ord, prompt)) % 7)] for prompt in prompts]
        output = {"prompt_ids": prompt_ids, "completion_ids": completions, "logprobs": None}
        if has_tools:
            output["env_mask"] = [[int(i != 1) for i in range(len(ids))] for ids in completions]
        return output

    class Watched(trainer_class):
        def _credit(self, rows, batch, *others):
            credit = super()._credit(rows, batch, *others)
            shaped_rows.extend(
                row[mask.bool()].tolist() for row, mask in zip(credit, batch["completion_mask"], strict=True)
            )
            return credit

        def _compute_loss(self, model, inputs):
            sizes.append(len(inputs["advantages"]))
            return super()._compute_loss(model, inputs)

    world = int(torch.distributed.get_world_size()) if torch.distributed.is_initialized() else 1
    accumulation = options.get("gradient_accumulation_steps", 1)
    per_device = ROWS // world // accumulation
    defaults = {"learning_rate": 1e-2, "entropy_threshold": 2.05, "initial_entropy_prompts": 2}
    config = (GTPOConfig if is_gtpo else GRPOConfig)(
        output_dir=str(out),
        per_device_train_batch_size=per_device,
        max_steps=3,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        **{**(defaults if is_gtpo else {}), **options},
    )
    dataset = Dataset.from_dict({"prompt": [f"say w{i} :" for i in range(24)]})
    callbacks = [Gradients()] if "optim" in options else None
    trainer = Watched(
        model, reward, config, dataset, rollout_func=rollout, peft_config=peft_config, callbacks=callbacks
    )
    trainer.train()
    gathered = [None] * world
    if world > 1:
        torch.distributed.all_gather_object(gathered, (shaped_rows, sizes))
    else:
        gathered = [(shaped_rows, sizes)]
    num_rows = ROWS // world
    return {
        "advantages": [
            row
            for first in range(0, len(shaped_rows), num_rows)
            for rows, _ in gathered
            for row in rows[first : first + num_rows]
        ],
        "sizes": [sizes for _, sizes in gathered],
        "gradients": gradients,
        "logs": [
            {k: v for k, v in entry.items() if "time" not in k and "per_second" not in k}
            for entry in trainer.state.log_history
            if "loss" in entry
        ],
        "weights": [p.flatten().tolist() for p in trainer.model.parameters() if p.requires_grad],
    }


def main() -> None:
    torch.set_num_threads(1)
    model, out = sys.argv[1], Path(sys.argv[2])
    if int(os.environ["WORLD_SIZE"]) > 1:
        torch.distributed.init_process_group("gloo")
    results = {name: run_case(model, out, options) for name, options in {**CASES, **GRPO_CASES}.items()}
    if int(os.environ["RANK"]) == 0:
        (out / "results.json").write_text(json.dumps(results))
    if torch.distributed.is_initialized():
        gc.collect()  # a trainer refers to the process group; its threads abort a process that ends before them
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
