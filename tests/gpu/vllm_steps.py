"""Run by test_vllm.py in a process of its own: four LoRA steps with vLLM, two with TRL's correction, two without.

usage: python vllm_steps.py MODEL OUT
"""

import json
import os
import sys
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback

from gtpo import GTPOConfig, GTPOTrainer


class CountedTrainer(GTPOTrainer):
    """Counts the rows of scoring passes over the policy, by who asked for them."""

    rows = {"trl": 0, "us": 0}  # noqa: RUF012
    who = "trl"

    def _token_entropy(self, batch, captured):
        self.who = "us"
        entropy = super()._token_entropy(batch, captured)
        self.who = "trl"
        return entropy

    def _get_per_token_logps_and_entropies(self, model, input_ids, *args, **kwargs):
        if not torch.is_grad_enabled():
            self.rows[self.who] += len(input_ids)
        return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **kwargs)


class Steps(TrainerCallback):
    def __init__(self):
        self.found, self.trainer = [], None

    def on_step_begin(self, args, state, control, **kwargs):
        self.trainer.vllm_importance_sampling_correction = state.global_step < 2
        self.trainer.rows = {"trl": 0, "us": 0}

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            rows = {f"rows_scored_by_{who}": count for who, count in self.trainer.rows.items()}
            self.found.append({**rows, **logs})


def reward(completion_ids, **kwargs):
    return [float(sum(ids) % 2) for ids in completion_ids]


def main():
    model, out = sys.argv[1], Path(sys.argv[2])
    config = GTPOConfig(
        output_dir=str(out), max_steps=4, per_device_train_batch_size=8, gradient_accumulation_steps=2,
        num_generations=4, max_completion_length=16, learning_rate=1e-3, logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True, use_vllm=True, vllm_mode="colocate", vllm_max_model_length=128,
        vllm_gpu_memory_utilization=0.1,
    )  # fmt: skip
    assert config.bf16
    steps = Steps()
    trainer = CountedTrainer(
        model, reward, config, Dataset.from_dict({"prompt": [f"say w{i} :" for i in range(16)]}), callbacks=[steps],
        peft_config=LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
    )  # fmt: skip
    steps.trainer = trainer
    trainer.train()
    (out / "steps.json").write_text(json.dumps(steps.found))
    sys.stdout.flush()
    os._exit(0)  # vLLM's engine may not let an ordinary exit through


if __name__ == "__main__":
    main()
