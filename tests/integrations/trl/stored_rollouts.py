"""Run under torchrun: trains on completions stored beforehand, so that any number of processes sees the same ones.

usage: torchrun --nproc_per_node N stored_rollouts.py MODEL OUT
"""

import json
import os
import random
import sys
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig

from gtpo import GTPOConfig, GTPOTrainer

ROWS = 12  # completions in a generation batch, over all processes
LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
CASES = {
    "split": {"num_generations": 12},
    "some split": {"num_generations": 4},
    "centred": {"num_generations": 6, "entropy_penalty_center": True, "conflict_match": "prefix"},
    "lora and accumulation": {"num_generations": 6, "gradient_accumulation_steps": 2, "peft_config": LORA},
    "tools": {"num_generations": 6, "tools": True},
}


def stored(prompt: str, copy: int) -> list[int]:
    """Completions of one prompt: shared openings and endings, uneven lengths."""
    rng = random.Random(f"{prompt} {copy}")
    return [*rng.choice([[20, 21], [20, 22]]), *(rng.randint(20, 40) for _ in range(rng.randint(0, 9))), 50, 1]


def reward(completion_ids, **kwargs):
    return [None if len(ids) == 7 else float(sum(ids) % 3) for ids in completion_ids]


def run_case(model: str, out: Path, options: dict) -> dict:
    options = dict(options)
    group_size, has_tools = options["num_generations"], options.pop("tools", False)
    peft_config = options.pop("peft_config", None)
    shaped_rows = []

    def rollout(prompts, trainer):
        first = trainer.accelerator.process_index * len(prompts)
        completions = [stored(p, (first + i) % group_size) for i, p in enumerate(prompts)]
        output = {"prompt_ids": [[5, 6]] * len(prompts), "completion_ids": completions, "logprobs": None}
        if has_tools:
            output["env_mask"] = [[int(i != 1) for i in range(len(ids))] for ids in completions]
        return output

    class Watched(GTPOTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            shaped_rows.extend(row[mask.bool()].tolist() for row, mask in
                               zip(batch["advantages"], batch["completion_mask"], strict=True))  # fmt: skip
            return batch

    world = int(torch.distributed.get_world_size()) if torch.distributed.is_initialized() else 1
    accumulation = options.get("gradient_accumulation_steps", 1)
    per_device = ROWS // world // accumulation
    config = GTPOConfig(
        output_dir=str(out), per_device_train_batch_size=per_device, max_steps=3, learning_rate=1e-2, logging_steps=1,
        save_strategy="no", report_to="none", disable_tqdm=True, entropy_threshold=2.05,
        initial_entropy_prompts=2, use_cpu=True, **options,
    )  # fmt: skip
    dataset = Dataset.from_dict({"prompt": [f"say w{i} :" for i in range(24)]})
    trainer = Watched(model, reward, config, dataset, rollout_func=rollout, peft_config=peft_config)
    trainer.train()
    gathered = [None] * world
    if world > 1:
        torch.distributed.all_gather_object(gathered, shaped_rows)
    else:
        gathered = [shaped_rows]
    per_step = [len(rows) // 3 for rows in gathered]
    return {
        "advantages": [row for step in range(3) for rows, n in zip(gathered, per_step, strict=True)
                       for row in rows[step * n : (step + 1) * n]],
        "logs": [{k: v for k, v in entry.items() if "time" not in k and "per_second" not in k}
                 for entry in trainer.state.log_history if "loss" in entry],
        "weights": [p.flatten().tolist() for p in trainer.model.parameters() if p.requires_grad],
    }  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    model, out = sys.argv[1], Path(sys.argv[2])
    if int(os.environ["WORLD_SIZE"]) > 1:
        torch.distributed.init_process_group("gloo")
    results = {name: run_case(model, out, options) for name, options in CASES.items()}
    if int(os.environ["RANK"]) == 0:
        (out / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
