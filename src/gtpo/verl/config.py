"""`algorithm.gtpo.*`: the settings of the method in verl's configuration, and what GTPO needs of verl's own options.

An option of verl that GTPO cannot honour is refused with a reason and a remedy; no option is ignored. The
configuration arrives as plain dictionaries, so this file does not import verl.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gtpo.core.config import ShapingConfig
from gtpo.credit.choice import SHAPING, ChosenScheme, choose_scheme
from gtpo.errors import ConfigError, require

Nested = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Settings(ShapingConfig):
    """`algorithm.gtpo`: the credit scheme and the options of the method, with the names and defaults of GTPOConfig."""

    initial_entropy: float | None = None
    initial_entropy_prompts: int = 32
    credit: str = "gtpo"
    credit_parameters: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        num_prompts, initial = self.initial_entropy_prompts, self.initial_entropy
        require(num_prompts >= 1, "initial_entropy_prompts", num_prompts, "at least 1")
        require(initial is None or 0 <= initial < math.inf, "initial_entropy", initial, "null or a finite number ≥ 0")

    def choose_credit(self) -> ChosenScheme:
        """The credit scheme and its parameters, checked. Imports the function that `credit` names."""
        shaping = ShapingConfig(**{name: getattr(self, name) for name in SHAPING})
        chosen = choose_scheme(self.credit, self.credit_parameters, shaping)
        if chosen.needs & {"component_advantages", "token_component"}:
            raise ConfigError(
                f"GTPO does not support algorithm.gtpo.credit={self.credit!r}: it needs the rewards of each reward "
                "function, and verl passes on only their sum. Remedy: another scheme, or GTPOTrainer on TRL."
            )
        return chosen


@dataclasses.dataclass(frozen=True)
class Requirement:
    """What GTPO needs of one option of verl, and why."""

    option: str
    is_met: Callable[[Any], bool]
    reason: str
    remedy: str


def _is_off(value: object) -> bool:
    return not value


_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
REQUIREMENTS = (
    Requirement(
        "algorithm.adv_estimator",
        lambda value: value == "gtpo",
        "trainer.v1.trainer_mode=gtpo_sync passes tokens and entropies to GTPO's estimator, and no other estimator "
        "uses them",
        "algorithm.adv_estimator=gtpo, or trainer.v1.trainer_mode=sync for another method",
    ),
    Requirement(
        "algorithm.rollout_correction.bypass_mode",
        _is_off,
        "verl then skips the pass over old log-probs, which computes the entropies for the filter and the penalty",
        "algorithm.rollout_correction.bypass_mode=False; the decoupled corrections (rollout_is, rollout_rs) work",
    ),
    Requirement(
        f"{_ROLLOUT}.multi_turn.enable",
        _is_off,
        "a session of several turns can give several rows, and conflicts between them are not defined yet",
        f"{_ROLLOUT}.multi_turn.enable=False",
    ),
    Requirement(
        "algorithm.use_kl_in_reward",
        _is_off,
        "it subtracts a different amount from every reward. No group is tied then, and the sign of an advantage, "
        "which decides conflicts, may be noise of the KL estimate",
        f"algorithm.use_kl_in_reward=False; {_ACTOR}.use_kl_loss=True leaves the advantages unchanged",
    ),
    Requirement(
        "algorithm.norm_adv_by_std_in_grpo",
        _is_off,
        "GTPO's advantage is the reward minus the mean of its group, not divided by a standard deviation",
        "algorithm.norm_adv_by_std_in_grpo=False (verl's default is True)",
    ),
    Requirement(
        f"{_ACTOR}.loss_agg_mode",
        lambda value: value == "seq-mean-token-mean",
        "GTPO's loss is the mean over the tokens of a completion, then over completions, and verl's default differs",
        f"{_ACTOR}.loss_agg_mode=seq-mean-token-mean",
    ),
    Requirement(
        f"{_ACTOR}.policy_loss.loss_mode",
        lambda value: value in (None, "vanilla"),
        "it weights tokens by its own use of the advantage or by the sequence, and GTPO is not tested with it",
        f"{_ACTOR}.policy_loss.loss_mode=vanilla",
    ),
    Requirement(
        f"{_ACTOR}.entropy_coeff",
        _is_off,
        "a bonus that raises entropy works against GTPO's filter and penalty, which bound it from above",
        f"{_ACTOR}.entropy_coeff=0, or a lower algorithm.gtpo.entropy_penalty",
    ),
    Requirement(
        f"{_ROLLOUT}.n",
        lambda value: (value or 1) >= 2,
        "advantages are relative to the other completions of the same prompt, and there are none",
        f"{_ROLLOUT}.n=8 or more (verl's default is 1)",
    ),
    Requirement(
        "critic.enable",
        _is_off,
        "GTPO has no critic, and nothing would use its values",
        "critic.enable=False",
    ),
    Requirement(
        "distillation.enabled",
        _is_off,
        "the teacher's loss replaces the policy's loss or is added to it, and GTPO is not tested with it",
        "distillation.enabled=False",
    ),
)


def read_settings(config: Nested) -> Settings:
    """The settings under `algorithm.gtpo`, checked. Raises ConfigError if an option of verl does not fit GTPO."""
    for requirement in REQUIREMENTS:
        value = _option(config, requirement.option)
        if not requirement.is_met(value):
            raise ConfigError(
                f"GTPO does not support {requirement.option}={value!r}: {requirement.reason}. "
                f"Remedy: {requirement.remedy}."
            )
    section: dict[str, Any] = _option(config, "algorithm.gtpo") or {}
    names = [field.name for field in dataclasses.fields(Settings)]
    unknown = section.keys() - set(names)
    if unknown:
        raise ConfigError(f"algorithm.gtpo has no setting {min(unknown)!r}. It has: {', '.join(sorted(names))}.")
    try:
        return msgspec.convert(section, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"algorithm.gtpo: {error}") from error


def _option(config: Nested, path: str) -> Any:
    """The value at a dotted path; None where the path ends early."""
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
