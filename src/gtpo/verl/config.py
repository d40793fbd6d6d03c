"""`algorithm.gtpo.*`: the method's knobs in verl's configuration, and refusals.

Whatever verl offers and GTPO cannot honour is refused here, with the reason and the way out; nothing is ignored. The
configuration arrives as plain dictionaries: this file needs no verl.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from gtpo.core.config import ShapingConfig
from gtpo.errors import ConfigError, require

Nested = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the user set under `algorithm.gtpo`, by the names of GTPOConfig."""

    shaping: ShapingConfig
    initial_entropy: float | None
    initial_entropy_prompts: int


DEFAULTS: dict[str, Any] = {
    **dataclasses.asdict(ShapingConfig()),
    "initial_entropy": None,
    "initial_entropy_prompts": 32,
}


def read_settings(config: Nested) -> Settings:
    """The knobs, checked, after refusing what the rest of verl's configuration must not hold."""
    _refuse_what_does_not_fit(config)
    given = dict(_option(config, "algorithm.gtpo") or {})
    for name, value in given.items():
        if name not in DEFAULTS:
            raise ConfigError(f"algorithm.gtpo has no knob {name!r}. Its knobs are: {', '.join(sorted(DEFAULTS))}.")
        _check_type(name, value)
    initial_entropy = given.pop("initial_entropy", None)
    num_prompts = given.pop("initial_entropy_prompts", DEFAULTS["initial_entropy_prompts"])
    require(num_prompts >= 1, "algorithm.gtpo.initial_entropy_prompts", num_prompts, "at least 1")
    require(
        initial_entropy is None or 0 <= initial_entropy < math.inf,
        "algorithm.gtpo.initial_entropy", initial_entropy, "null or a finite number ≥ 0",
    )  # fmt: skip
    knobs: dict[str, Any] = {
        name: float(value) if isinstance(DEFAULTS[name], float) else value for name, value in given.items()
    }
    return Settings(ShapingConfig(**knobs), initial_entropy, num_prompts)


def _check_type(name: str, value: object) -> None:
    default = DEFAULTS[name]
    kinds: dict[type, tuple[tuple[type, ...], str]] = {
        bool: ((bool,), "true or false"),
        str: ((str,), "a word"),
        int: ((int,), "a whole number"),
        float: ((int, float), "a number"),
        type(None): ((int, float, type(None)), "null or a number"),
    }
    allowed, words = kinds[type(default)]
    is_right = isinstance(value, allowed) and (isinstance(default, bool) or not isinstance(value, bool))
    require(is_right, f"algorithm.gtpo.{name}", value, words)


def _option(config: Nested, path: str) -> Any:
    """The value at a dotted path; None where the path ends early."""
    found: Any = config
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _refuse_what_does_not_fit(config: Nested) -> None:
    def refuse(path: str, is_fine: bool, reason: str, remedy: str) -> None:
        if not is_fine:
            raise ConfigError(f"GTPO does not take {path}={_option(config, path)!r}: {reason}. Remedy: {remedy}.")

    def is_off(path: str) -> bool:
        return not _option(config, path)

    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    refuse(
        "algorithm.adv_estimator", _option(config, "algorithm.adv_estimator") == "gtpo",
        "trainer.v1.trainer_mode=gtpo_sync brings tokens and entropies to GTPO's estimator, and another one would "
        "leave them unused", "algorithm.adv_estimator=gtpo, or trainer.v1.trainer_mode=sync for another method",
    )  # fmt: skip
    refuse(
        "algorithm.rollout_correction.bypass_mode", is_off("algorithm.rollout_correction.bypass_mode"),
        "verl then skips the pass over old log-probs, and with it the entropies that filter and penalty rest on",
        "algorithm.rollout_correction.bypass_mode=False; the decoupled corrections (rollout_is, rollout_rs) work",
    )  # fmt: skip
    refuse(
        f"{rollout}.multi_turn.enable", is_off(f"{rollout}.multi_turn.enable"),
        "a session of several turns may give several rows, and there is no rule yet for what conflicts between them",
        f"{rollout}.multi_turn.enable=False",
    )  # fmt: skip
    refuse(
        "algorithm.use_kl_in_reward", is_off("algorithm.use_kl_in_reward"),
        "it takes another amount from every reward, so that no group is tied and the sign of an advantage, which "
        "decides conflicts, may be noise of the KL estimate",
        f"algorithm.use_kl_in_reward=False; {actor}.use_kl_loss=True leaves the advantages alone",
    )  # fmt: skip
    refuse(
        "algorithm.norm_adv_by_std_in_grpo", is_off("algorithm.norm_adv_by_std_in_grpo"),
        "GTPO's advantage is the reward minus its group's mean; it is not divided by a standard deviation",
        "algorithm.norm_adv_by_std_in_grpo=False (verl's default is True)",
    )  # fmt: skip
    refuse(
        f"{actor}.loss_agg_mode", _option(config, f"{actor}.loss_agg_mode") == "seq-mean-token-mean",
        "the formula takes the mean over a completion's tokens, then over completions; verl's default is another "
        "mean, so one that was forgotten cannot be told from one that was chosen",
        f"{actor}.loss_agg_mode=seq-mean-token-mean",
    )  # fmt: skip
    refuse(
        f"{actor}.policy_loss.loss_mode", _option(config, f"{actor}.policy_loss.loss_mode") in (None, "vanilla"),
        "it weighs a token by its own reading of the advantage or by the whole sequence, and no test shows that this "
        "still is GTPO", f"{actor}.policy_loss.loss_mode=vanilla",
    )  # fmt: skip
    refuse(
        f"{actor}.entropy_coeff", is_off(f"{actor}.entropy_coeff"),
        "a bonus that raises entropy works against GTPO's filter and penalty, which bound it from above",
        f"{actor}.entropy_coeff=0, or a lower algorithm.gtpo.entropy_penalty",
    )  # fmt: skip
    refuse(
        f"{rollout}.n", (_option(config, f"{rollout}.n") or 1) >= 2,
        "advantages are relative to the other completions of the same prompt, and there are none",
        f"{rollout}.n=8 or more (verl's default is 1)",
    )  # fmt: skip
    refuse(
        "critic.enable", is_off("critic.enable"),
        "GTPO has no critic, and nothing would read its values", "critic.enable=False",
    )  # fmt: skip
    refuse(
        "distillation.enabled", is_off("distillation.enabled"),
        "the teacher's loss takes the place of the policy's or is added to it, and no test shows that this still is "
        "GTPO", "distillation.enabled=False",
    )  # fmt: skip
