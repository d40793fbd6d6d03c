"""Plain GRPO trainers of TRL on the tiny model, to be watched."""

from typing import Any

import torch

from tests.trl.checked import parity_reward, prompts, settings
from trl import GRPOConfig, GRPOTrainer


def grpo_config(folder: Any, **options: Any) -> GRPOConfig:
    merged = {**settings(folder), "max_steps": 3, "bf16": False, "use_cpu": True, **options}
    return GRPOConfig(**{name: merged[name] for name in merged.keys() - {"entropy_threshold", "initial_entropy"}})


def grpo_trainer(
    model: Any, folder: Any, kind: type[GRPOTrainer] = GRPOTrainer, reward: Any = parity_reward, **options: Any
) -> GRPOTrainer:
    """A trainer that has not trained; `options` are those of GRPOConfig, or `peft_config`."""
    peft_config = options.pop("peft_config", None)
    torch.manual_seed(0)  # TRL 1.14 does not seed the weights of adapters
    return kind(model, reward, grpo_config(folder, **options), prompts(), peft_config=peft_config)
