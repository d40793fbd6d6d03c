"""GTPOConfig: GRPOConfig with the options of GTPO and other defaults for four of TRL's.

Options of TRL that do not fit GTPO raise an error here, with the reason and a remedy. None is ignored silently.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.utils.import_utils import is_torch_bf16_gpu_available
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.sft_config import SFTConfig

from gtpo.core.config import LN2, ShapingConfig
from gtpo.errors import ConfigError, require
from gtpo.trl.checks import check_training_options

PROVEN_LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo")


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class GTPOConfig(GRPOConfig):
    """Configuration of GTPOTrainer: every option of TRL's GRPOConfig, and the options of GTPO (arXiv:2508.03772).

    Parameters:
        conflict_edges (`str`, *optional*, defaults to `"both"`):
            Which runs of conflict tokens count: `"both"`, `"prefix"`, `"suffix"` or `"none"`.
        conflict_match (`str`, *optional*, defaults to `"position"`):
            `"position"` (as in the paper): each position of a run may match a different completion. `"prefix"`: the
            same completion matches the entire run.
        conflict_positive_weight (`float`, *optional*, defaults to `2.0`):
            λ on conflict tokens of completions with A > 0. `1.0` protects without amplifying.
        conflict_negative_weight (`float`, *optional*, defaults to `0.0`):
            λ on conflict tokens of completions with A < 0, between 0 and 1.
        entropy_filter (`str`, *optional*, defaults to `"auto"`):
            Which completions with a mean entropy above the threshold are excluded from the update: `"auto"` (all,
            unless the initial policy was above it too), `"all"`, `"negative"` (only those with A < 0) or `"off"`.
        entropy_threshold (`float`, *optional*, defaults to `ln 2`):
            The entropy threshold in nats.
        entropy_penalty (`float`, *optional*, defaults to `0.1`):
            γ, in units of reward. The paper's rewards range from 0 to 20.
        entropy_penalty_center (`bool`, *optional*, defaults to `False`):
            Subtract the group's mean entropy first, and give tied groups no penalty.
        initial_entropy (`float`, *optional*):
            Mean entropy of the initial policy. By default it is measured on the first prompts and stored in
            checkpoints.
        initial_entropy_prompts (`int`, *optional*, defaults to `32`):
            How many prompts that measurement needs.
        record_groups (`int`, *optional*, defaults to `1`):
            How many groups of completions a recorded step writes to `groups.jsonl`, for the token view.
        record_every (`int`, *optional*, defaults to `10`):
            How many optimizer steps lie between two recorded steps.
        trim_batches (`bool`, *optional*, defaults to `True`):
            Sort the rows of an optimizer step by length, remove padding and leave out completions without weight. The
            gradient stays the same; dropout draws different masks.
    """

    loss_type: str = _option("grpo", "How token losses are averaged. grpo: over tokens, then over completions.")
    scale_rewards: str = _option("none", "How rewards are scaled. GTPO only subtracts the mean of the group.")
    logging_steps: float = _option(1, "Steps between two logs. Health checks need every step.")
    beta: float = _option(0.0, "KL coefficient. GTPO needs no reference model; above 0 TRL loads one.")

    conflict_edges: str = _option("both", "Runs of conflict tokens that count: both, prefix, suffix or none.")
    conflict_match: str = _option("position", "position (as in the paper), or prefix: one completion matches a run.")
    conflict_positive_weight: float = _option(2.0, "λ on conflict tokens where A > 0; 1.0: do not amplify.")
    conflict_negative_weight: float = _option(0.0, "λ on conflict tokens where A < 0, between 0 and 1.")
    entropy_filter: str = _option("auto", "Excluded completions above the threshold: auto, all, negative or off.")
    entropy_threshold: float = _option(LN2, "Entropy threshold in nats. The paper's is ln 2.")
    entropy_penalty: float = _option(0.1, "γ, in units of reward. The paper's rewards range from 0 to 20.")
    entropy_penalty_center: bool = _option(False, "Centre the penalty in its group; tied groups get none.")
    initial_entropy: float | None = _option(None, "Mean entropy of the initial policy. Default: measured.")
    initial_entropy_prompts: int = _option(32, "How many prompts the measurement of the initial entropy needs.")

    record_groups: int = _option(1, "Groups of completions that a recorded step writes to groups.jsonl; 0: none.")
    record_every: int = _option(10, "Optimizer steps between two recorded steps.")
    trim_batches: bool = _option(True, "Remove padding and completions without weight; the gradient stays the same.")

    def __post_init__(self) -> None:
        check_training_options(self)  # first, because the parent divides by some of these values
        choose_precision(self)
        super().__post_init__()
        num_prompts, initial = self.initial_entropy_prompts, self.initial_entropy
        require(num_prompts >= 1, "initial_entropy_prompts", num_prompts, "at least 1")
        require(initial is None or 0 <= initial < math.inf, "initial_entropy", initial, "None or a finite number ≥ 0")
        require(self.record_groups >= 0, "record_groups", self.record_groups, "at least 0")
        require(self.record_every >= 1, "record_every", self.record_every, "at least 1")
        self.shaping  # noqa: B018 (checks the options of the method)
        self._refuse_what_does_not_fit()

    @property
    def shaping(self) -> ShapingConfig:
        """The options of the pure function."""
        return ShapingConfig(
            **{option.name: getattr(self, option.name) for option in dataclasses.fields(ShapingConfig)}
        )

    def _refuse_what_does_not_fit(self) -> None:
        if self.loss_type not in PROVEN_LOSS_TYPES:
            raise _refusal(
                f"loss_type={self.loss_type!r}",
                "it weighs tokens by the sign of the advantage or by the entire sequence, and no test shows that this "
                "is still GTPO",
                f"use 'grpo', as in the formula, or another way to average: {', '.join(PROVEN_LOSS_TYPES[1:])}",
            )
        if self.scale_rewards != "none":
            raise _refusal(
                f"scale_rewards={self.scale_rewards!r}",
                "the advantage of GTPO is the reward minus the mean of its group. Dividing by a standard deviation "
                "changes the unit of the entropy penalty and turns float noise in tied groups into signs",
                "use scale_rewards='none'",
            )
        if self.multi_objective_aggregation != "sum_then_normalize":
            raise _refusal(
                f"multi_objective_aggregation={self.multi_objective_aggregation!r}",
                "the sign of its advantage is relative to the batch, but conflicts are searched within a group",
                "use 'sum_then_normalize' with reward_weights",
            )
        if self.off_policy_mask_threshold is not None:
            raise _refusal(
                f"off_policy_mask_threshold={self.off_policy_mask_threshold!r}",
                "it drops completions by the sign of their advantage, and would drop single tokens here",
                "leave it unset; clipping (epsilon, delta) and the correction for vLLM still apply",
            )
        if self.entropy_coef != 0.0 or self.use_adaptive_entropy:
            raise _refusal(
                f"entropy_coef={self.entropy_coef!r} with use_adaptive_entropy={self.use_adaptive_entropy!r}",
                "a bonus that raises entropy works against GTPO's filter and penalty, which bound it from above",
                "leave both off, or lower entropy_penalty",
            )


def choose_precision(config: GRPOConfig | SFTConfig) -> None:
    """Turn bf16 on only where an accelerator computes in it, and pinned memory only where there is an accelerator.

    By default TRL turns bf16 on everywhere, including hardware where it is slow or not supported.
    """
    has_accelerator = torch.accelerator.is_available() and not config.use_cpu
    config.dataloader_pin_memory = config.dataloader_pin_memory and has_accelerator
    if config.bf16 is None:
        config.bf16 = not config.fp16 and has_accelerator and is_torch_bf16_gpu_available()


def _refusal(setting: str, reason: str, remedy: str) -> ConfigError:
    return ConfigError(f"GTPO does not support {setting}: {reason}. Remedy: {remedy}.")
