"""GTPOConfig: GRPOConfig with the options of GTPO and other defaults for three of TRL's.

The few options of TRL that contradict GTPO raise an error here, with the reason and a remedy. No option is ignored.
"""

import dataclasses
import logging
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.utils.import_utils import is_torch_bf16_gpu_available
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.sft_config import SFTConfig

from gtpo.core.config import LN2, ShapingConfig
from gtpo.credit import SCHEMES
from gtpo.credit.choice import SHAPING, ChosenScheme, choose_scheme, is_shaped
from gtpo.errors import ConfigError, require_number
from gtpo.trl.checks import check_training_options

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo", "sapo")
"""Losses that take one advantage per token."""

logger = logging.getLogger(__name__)


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class GTPOConfig(GRPOConfig):
    """Configuration of GTPOTrainer: every option of TRL's GRPOConfig, and the options of GTPO (arXiv:2508.03772).

    Each field has its description as `help`, which `gtpo train --help-all` prints too.
    """

    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "credit_parameters"]  # noqa: RUF012 (as in the parent)

    loss_type: str = _option("grpo", "How token losses are averaged. grpo: over tokens, then over completions.")
    scale_rewards: str = _option(
        "none",
        "What advantages are divided by: nothing (none, as in the paper), or the standard deviation of the rewards of "
        "the group or batch. entropy_penalty is then measured in standard deviations.",
    )
    beta: float = _option(0.0, "KL coefficient. GTPO needs no reference model; above 0 TRL loads one.")

    credit: str = _option(
        "gtpo",
        f"How the advantage of a completion is distributed over its tokens: {', '.join(SCHEMES)}, or a function of "
        "your own as package.module:function (docs/credit.md).",
    )
    credit_parameters: dict[str, Any] | str | None = _option(  # noqa: RUF009
        None, "Parameters of the credit scheme, as a mapping or as JSON. Those of gtpo are the options that follow."
    )
    conflict_edges: str = _option("both", "Which runs of conflict tokens count: both, prefix, suffix or none.")
    conflict_match: str = _option(
        "position",
        "position (as in the paper): each position of a run may match a different completion. prefix: the same "
        "completion matches the entire run.",
    )
    conflict_positive_weight: float = _option(2.0, "λ on conflict tokens where A > 0. 1.0 does not amplify.")
    conflict_negative_weight: float = _option(0.0, "λ on conflict tokens where A < 0, between 0 and 1.")
    entropy_filter: str = _option(
        "auto",
        "Which completions with a mean entropy above the threshold are excluded from the update: auto (all, unless "
        "the initial policy was above it too), all, negative (only those with A < 0) or off.",
    )
    entropy_threshold: float = _option(LN2, "The entropy threshold in nats. The paper's is ln 2.")
    entropy_penalty: float = _option(0.1, "γ, in units of reward. The paper's rewards range from 0 to 20.")
    entropy_penalty_center: bool = _option(False, "Subtract the group's mean entropy; tied groups get no penalty.")
    entropy_penalty_relative: bool = _option(
        False, "Measure entropy_penalty in standard deviations of the group's rewards instead of units of reward."
    )
    initial_entropy: float | None = _option(None, "Mean entropy of the initial policy. Default: measured.")
    initial_entropy_prompts: int = _option(32, "How many of the first prompts the initial entropy is measured on.")

    record_groups: int = _option(2, "Groups of completions that a recorded step writes to groups.jsonl; 0: none.")
    record_every: int = _option(10, "Optimizer steps between two recorded steps.")
    trim_batches: bool = _option(
        True,
        "Sort the rows of an optimizer step by length, remove padding and leave out completions without weight. The "
        "gradient stays the same; dropout draws different masks.",
    )

    def __post_init__(self) -> None:
        check_training_options(self)  # first, because the parent divides by some of these values
        choose_precision(self)
        super().__post_init__()
        if self.initial_entropy is not None:
            rule = "None or a finite number ≥ 0"
            require_number("initial_entropy", self.initial_entropy, lambda value: 0 <= value < math.inf, rule)
        for name, least in {"initial_entropy_prompts": 1, "record_groups": 0, "record_every": 1}.items():
            require_number(name, getattr(self, name), lambda value, least=least: value >= least, f"at least {least}")
        self.shaping  # noqa: B018 (checks the options of the method)
        if ":" not in str(self.credit):  # a function is imported later: `gtpo train` asks for trust first
            self.choose_credit()
        self._warn_about_ignored_options()
        self._refuse_what_does_not_fit()
        self._warn_if_entropy_is_pushed_both_ways()

    @property
    def shaping(self) -> ShapingConfig:
        """The options of the pure function."""
        return ShapingConfig(
            **{option.name: getattr(self, option.name) for option in dataclasses.fields(ShapingConfig)}
        )

    def choose_credit(self) -> ChosenScheme:
        """The credit scheme and its parameters, checked. Imports the function that `credit` names."""
        if not isinstance(self.credit_parameters, dict | None):
            raise ConfigError(
                f"credit_parameters must be a mapping or a JSON object, got {self.credit_parameters!r}. "
                'Example: {"kappa": 2}'
            )
        return choose_scheme(self.credit, self.credit_parameters, self.shaping)

    def _warn_about_ignored_options(self) -> None:
        scheme = SCHEMES.get(self.credit)
        ignored = [] if scheme is not None and is_shaped(scheme) else [*SHAPING]
        if scheme is not None and not is_shaped(scheme):
            ignored += ["initial_entropy", "initial_entropy_prompts"]
        if scheme is not None and "rewards" in scheme.needs:
            ignored.append("scale_rewards")
        defaults = {option.name: option.default for option in dataclasses.fields(self)}
        changed = [f"{name}={getattr(self, name)!r}" for name in ignored if getattr(self, name) != defaults[name]]
        if changed:
            logger.warning("credit=%r does not use %s.", self.credit, ", ".join(changed))

    def _refuse_what_does_not_fit(self) -> None:
        self._refuse(
            self.loss_type not in LOSS_TYPES,
            "loss_type",
            "it computes one weight per completion from the sign of its advantage, but GTPO has one advantage per "
            "token",
            f"use one of {', '.join(map(repr, LOSS_TYPES))}. The formula's is 'grpo'",
        )
        self._refuse(
            getattr(self, "multi_objective_aggregation", "sum_then_normalize") != "sum_then_normalize",
            "multi_objective_aggregation",
            "the sign of its advantage is relative to the batch, but conflicts are searched within a group",
            "use 'sum_then_normalize' with reward_weights",
        )
        self._refuse(
            getattr(self, "off_policy_mask_threshold", None) is not None,
            "off_policy_mask_threshold",
            "it keeps or drops entire completions by the sign of their advantage, but would drop single tokens here",
            "leave it unset; clipping (epsilon, delta) and the correction for vLLM still apply",
        )

    def _warn_if_entropy_is_pushed_both_ways(self) -> None:
        target = self.entropy_target if getattr(self, "use_adaptive_entropy", False) else 0.0
        scheme = SCHEMES.get(self.credit)
        has_filter = scheme is not None and is_shaped(scheme) and self.entropy_filter != "off"
        if has_filter and target > self.entropy_threshold:
            logger.warning(
                "entropy_target=%s is above entropy_threshold=%.3f: the adaptive bonus raises entropy to where the "
                "filter excludes completions. Set entropy_target below the threshold, or entropy_filter='off'.",
                target,
                self.entropy_threshold,
            )

    def _refuse(self, is_refused: bool, name: str, reason: str, remedy: str) -> None:
        if is_refused:
            setting = f"{name}={getattr(self, name)!r}"
            raise ConfigError(f"GTPO does not support {setting}: {reason}. Remedy: {remedy}.")


def choose_precision(config: GRPOConfig | SFTConfig) -> None:
    """Turn bf16 on only where an accelerator computes in it, and pinned memory only where there is an accelerator.

    By default TRL turns bf16 on everywhere, including hardware where it is slow or not supported.
    """
    has_accelerator = torch.accelerator.is_available() and not config.use_cpu
    config.dataloader_pin_memory = config.dataloader_pin_memory and has_accelerator
    if config.bf16 is None:
        config.bf16 = not config.fp16 and has_accelerator and is_torch_bf16_gpu_available()
