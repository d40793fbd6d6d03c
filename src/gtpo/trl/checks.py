"""Checks of option values that TRL and transformers accept, only to fail in the middle of a step or train nothing."""

import math
import numbers
from collections.abc import Callable

from transformers import TrainingArguments

from gtpo.errors import require

Bound = tuple[Callable[[float], bool], str]

_AT_LEAST_1: Bound = (lambda value: value >= 1, "at least 1")
_FRACTION: Bound = (lambda value: 0 <= value < 1, "at least 0 and below 1")
_NOT_NEGATIVE: Bound = (lambda value: 0 <= value < math.inf, "a finite number ≥ 0")

BOUNDS: dict[str, Bound] = {
    "per_device_train_batch_size": _AT_LEAST_1,
    "gradient_accumulation_steps": _AT_LEAST_1,
    "num_generations": (lambda value: value >= 2, "at least 2: completions are compared within their group"),
    "num_iterations": _AT_LEAST_1,
    "steps_per_generation": _AT_LEAST_1,
    "max_completion_length": _AT_LEAST_1,
    "adam_beta1": _FRACTION,
    "adam_beta2": _FRACTION,
    "learning_rate": _NOT_NEGATIVE,
    "beta": _NOT_NEGATIVE,
    "weight_decay": _NOT_NEGATIVE,
    "dataloader_num_workers": _NOT_NEGATIVE,
    "seed": _NOT_NEGATIVE,
    "temperature": (lambda value: 0 < value < math.inf, "a finite number > 0"),
    "num_train_epochs": (lambda value: value > 0, "above 0"),
    "max_steps": (lambda value: value >= 1 or value == -1, "at least 1, or -1 to train for num_train_epochs"),
}
"""For each option: whether a value is allowed, and the rule in words."""

CHOICES: dict[str, tuple[object, ...]] = {
    "loss_type": ("grpo", "dapo", "dr_grpo", "bnpo", "cispo", "luspo", "sapo", "vespo"),
    "scale_rewards": ("group", "batch", "none", True, False),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}
"""Options of GRPO that TRL checks only when it first uses them; a contract test compares them with TRL's source."""


def check_training_options(config: TrainingArguments) -> None:
    """Raise ConfigError if an option of a GTPOConfig, GRPOConfig or SFTConfig has a value that cannot train.

    Options that the class does not have, or that are None, are skipped.
    """
    for name, (is_allowed, rule) in BOUNDS.items():
        value = getattr(config, name, None)
        if value is None or (name == "num_train_epochs" and config.max_steps > 0):
            continue
        require(isinstance(value, numbers.Real) and is_allowed(float(value)), name, value, rule)
    weights = getattr(config, "reward_weights", None) or []
    require(all(map(math.isfinite, weights)), "reward_weights", weights, "finite numbers")
    if hasattr(config, "num_generations"):
        for name, choices in CHOICES.items():
            value = getattr(config, name, choices[0])
            require(value in choices, name, value, f"one of {', '.join(map(repr, choices))}")
