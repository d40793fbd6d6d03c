"""GTPOConfig: GRPOConfig with the method's knobs, four other defaults, and refusals.

Whatever TRL offers and GTPO cannot honour is refused here, with the reason and the way out; nothing is ignored.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.utils.import_utils import is_torch_bf16_gpu_available
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.sft_config import SFTConfig

from gtpo.core.config import ShapingConfig
from gtpo.errors import ConfigError, require
from gtpo.trl.checks import check_training_options

PROVEN_LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo")


def _knob(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class GTPOConfig(GRPOConfig):
    """Configuration of GTPOTrainer: every option of TRL's GRPOConfig, and the knobs of GTPO (arXiv:2508.03772).

    Parameters:
        conflict_edges (`str`, *optional*, defaults to `"both"`):
            Which runs of conflict tokens count: `"both"`, `"prefix"`, `"suffix"` or `"none"`.
        conflict_match (`str`, *optional*, defaults to `"position"`):
            `"position"` (the paper's): each place of a run may be hit by another completion. `"prefix"`: one and the
            same completion agrees on the whole run.
        conflict_positive_weight (`float`, *optional*, defaults to `2.0`):
            λ on conflict tokens of completions with A > 0. `1.0` protects without amplifying.
        conflict_negative_weight (`float`, *optional*, defaults to `0.0`):
            λ on conflict tokens of completions with A < 0, between 0 and 1.
        entropy_filter (`str`, *optional*, defaults to `"auto"`):
            Which completions with a mean entropy above the threshold leave the update: `"auto"` (all, unless the
            initial policy was above it too), `"all"`, `"negative"` (only those with A < 0) or `"off"`.
        entropy_threshold (`float`, *optional*, defaults to `ln 2`):
            In nats.
        entropy_penalty (`float`, *optional*, defaults to `0.1`):
            γ, in units of reward: the paper's rewards run from 0 to 20.
        entropy_penalty_center (`bool`, *optional*, defaults to `False`):
            Subtract the group's mean entropy first, and leave tied groups without penalty.
        initial_entropy (`float`, *optional*):
            Mean entropy of the initial policy. By default it is measured on the first prompts and kept in checkpoints.
        initial_entropy_prompts (`int`, *optional*, defaults to `32`):
            How many prompts that measurement needs.
        record_groups (`int`, *optional*, defaults to `1`):
            How many groups of completions are written to `groups.jsonl` in a recorded step, for the token view.
        record_every (`int`, *optional*, defaults to `10`):
            A step is recorded every so many optimizer steps.
        trim_batches (`bool`, *optional*, defaults to `True`):
            Order the rows of an optimizer step by length, cut padding off and leave out completions without weight.
            The gradient stays the same; dropout draws other masks.
    """

    loss_type: str = _knob("grpo", "The formula's: mean over a completion's tokens, then over completions.")
    scale_rewards: str = _knob("none", "GTPO's advantage is the reward minus the group's mean, not scaled.")
    logging_steps: float = _knob(1, "A step takes seconds to minutes, and the verdict on health needs its rows.")
    beta: float = _knob(0.0, "KL coefficient. GTPO needs no reference model; above 0 TRL loads one.")

    conflict_edges: str = _knob("both", "Runs of conflict tokens that count: both, prefix, suffix or none.")
    conflict_match: str = _knob(
        "position", "position (the paper's), or prefix: one completion agrees on the whole run."
    )
    conflict_positive_weight: float = _knob(2.0, "λ on conflict tokens where A > 0; 1.0 protects without amplifying.")
    conflict_negative_weight: float = _knob(0.0, "λ on conflict tokens where A < 0, between 0 and 1.")
    entropy_filter: str = _knob(
        "auto", "Completions above the threshold that leave the update: auto, all, negative, off."
    )
    entropy_threshold: float = _knob(math.log(2), "Entropy threshold in nats; the paper's is ln 2.")
    entropy_penalty: float = _knob(0.1, "γ, in units of reward (the paper's rewards run from 0 to 20).")
    entropy_penalty_center: bool = _knob(False, "Centre the penalty in its group and leave tied groups without it.")
    initial_entropy: float | None = _knob(None, "Mean entropy of the initial policy; measured if not given.")
    initial_entropy_prompts: int = _knob(32, "How many prompts the measurement of the initial entropy needs.")

    record_groups: int = _knob(1, "Groups of completions written to groups.jsonl in a recorded step; 0 turns it off.")
    record_every: int = _knob(10, "A step is recorded every so many optimizer steps.")
    trim_batches: bool = _knob(True, "Cut padding and leave out completions without weight; same gradient.")

    def __post_init__(self) -> None:
        check_training_options(self)  # first, because the parent divides by some of these values
        choose_precision(self)
        super().__post_init__()
        require(
            self.initial_entropy_prompts >= 1, "initial_entropy_prompts", self.initial_entropy_prompts, "at least 1"
        )
        require(self.record_groups >= 0, "record_groups", self.record_groups, "at least 0")
        require(self.record_every >= 1, "record_every", self.record_every, "at least 1")
        initial = self.initial_entropy
        require(initial is None or 0 <= initial < math.inf, "initial_entropy", initial, "None or a finite number ≥ 0")
        self.shaping  # noqa: B018 (checks the knobs)
        self._refuse_what_does_not_fit()

    @property
    def shaping(self) -> ShapingConfig:
        """The knobs that the pure function takes."""
        return ShapingConfig(**{knob.name: getattr(self, knob.name) for knob in dataclasses.fields(ShapingConfig)})

    @property
    def is_on_policy(self) -> bool:
        """Every optimizer step trains on completions of the policy that it starts from."""
        steps_per_generation = self.steps_per_generation or self.gradient_accumulation_steps
        return self.num_iterations == 1 and self.gradient_accumulation_steps % steps_per_generation == 0

    def _refuse_what_does_not_fit(self) -> None:
        _refuse(
            self.loss_type not in PROVEN_LOSS_TYPES, "loss_type", self.loss_type,
            "it weighs a token by its own reading of the advantage's sign or by the whole sequence, and no test shows "
            "that this still is GTPO",
            f"use 'grpo', the formula's, or another way to take the mean: {', '.join(PROVEN_LOSS_TYPES[1:])}",
        )  # fmt: skip
        _refuse(
            self.scale_rewards != "none", "scale_rewards", self.scale_rewards,
            "GTPO's advantage is the reward minus its group's mean; dividing by a standard deviation changes what the "
            "entropy penalty weighs and blows float noise in tied groups up into signs",
            "use scale_rewards='none'",
        )  # fmt: skip
        _refuse(
            self.multi_objective_aggregation != "sum_then_normalize", "multi_objective_aggregation",
            self.multi_objective_aggregation,
            "the sign of its advantage is relative to the batch, no longer to the group that conflicts are sought in",
            "use 'sum_then_normalize' with reward_weights",
        )  # fmt: skip
        _refuse(
            self.off_policy_mask_threshold is not None, "off_policy_mask_threshold", self.off_policy_mask_threshold,
            "it drops whole completions by the sign of their one advantage, and would judge token by token here",
            "leave it unset; clipping (epsilon, delta) and vLLM's correction stay in force",
        )  # fmt: skip
        _refuse(
            self.entropy_coef != 0.0 or self.use_adaptive_entropy, "entropy_coef / use_adaptive_entropy",
            self.entropy_coef or self.use_adaptive_entropy,
            "a bonus that raises entropy works against GTPO's filter and penalty, which bound it from above",
            "leave both off, or lower entropy_penalty",
        )  # fmt: skip


def choose_precision(config: GRPOConfig | SFTConfig) -> None:
    """Turn bf16 on only where an accelerator computes in it, and pinned memory only where there is an accelerator.

    By default TRL turns bf16 on everywhere, including hardware where it is slow or not supported.
    """
    has_accelerator = torch.accelerator.is_available() and not config.use_cpu
    config.dataloader_pin_memory = config.dataloader_pin_memory and has_accelerator
    if config.bf16 is None:
        config.bf16 = not config.fp16 and has_accelerator and is_torch_bf16_gpu_available()


def _refuse(is_set: bool, option: str, value: object, reason: str, remedy: str) -> None:
    if is_set:
        raise ConfigError(f"GTPO does not take {option}={value!r}: {reason}. Remedy: {remedy}.")
