"""TRL's own parser, behind a check: no abbreviations, every name known, every value of its type.

TRL's lets `loss_type: nonsense` pass until the first loss, takes `--learning_rat` for `--learning_rate`, and answers
a mistake with 1,200 lines of usage.
"""

import difflib
import functools
import json
import re
from typing import Any

from trl.scripts.utils import TrlParser
from trl.trainer.model_config import ModelConfig

from gtpo.errors import ConfigError
from gtpo.training.config.options import METHODS, NAMES
from gtpo.training.config.recipe import Settings

CHOICES = {
    "loss_type": ("grpo", "dapo", "dr_grpo", "bnpo", "cispo", "luspo", "sapo", "vespo"),
    "scale_rewards": ("group", "batch", "none"),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}
OURS_INSTEAD = {"model_name_or_path": "model", "dataset_name": "problems", "reward_funcs": "rewards"}


class _Parser(TrlParser):
    def error(self, message: str) -> Any:
        raise ConfigError(message)


@functools.cache
def parser_for(method: str) -> TrlParser:
    """TRL's parser for the options of a method and of the model."""
    classes: Any = (_config_class(method), ModelConfig)
    return _Parser(classes, allow_abbrev=False, add_help=False, prog="gtpo train")


def parse(method: str, settings: Settings) -> tuple[Any, ModelConfig]:
    """The configuration of the trainer and of the model, from settings that are not ours."""
    check_names(method, settings)
    arguments: list[str] = []
    for name, setting in settings.items():
        _check_choice(name, setting.value, setting.origin, method)
        arguments += _arguments(name, setting.value)
    try:
        config, model_config = parser_for(method).parse_args_into_dataclasses(arguments, look_for_args_file=False)
    except (ConfigError, ValueError, TypeError) as error:
        raise ConfigError(_located(str(error), settings)) from error
    return config, model_config


def check_names(method: str, settings: Settings) -> None:
    """Refuse names that nobody knows, with the nearest one that somebody does."""
    known = _names(method)
    for name, setting in settings.items():
        if name in OURS_INSTEAD:
            raise ConfigError(f"{setting.origin}: {name} is called {OURS_INSTEAD[name]} here.")
        if name in known:
            continue
        others = [other for other in METHODS if other != method and name in _names(other)]
        if others:
            raise ConfigError(
                f"{setting.origin}: {name} is an option of {' and '.join(others)}, not of {method}. Leave it out, or "
                f"put it under `{'rl' if len(others) > 1 else others[0]}:` in the recipe."
            )
        near = difflib.get_close_matches(name, [*known, *NAMES], n=1, cutoff=0.6)
        hint = f"Did you mean {near[0]}?" if near else "`gtpo train --help-all` lists them all."
        raise ConfigError(f"{setting.origin}: there is no option {name}. {hint}")


@functools.cache
def _names(method: str) -> frozenset[str]:
    options = parser_for(method)._option_string_actions  # pyright: ignore[reportPrivateUsage]
    return frozenset(
        option.removeprefix("--") for option in options if option.startswith("--") and "-" not in option[2:]
    )


def _config_class(method: str) -> Any:
    if method == "sft":
        from trl.trainer.sft_config import SFTConfig

        return SFTConfig
    if method == "grpo":
        from trl.trainer.grpo_config import GRPOConfig

        return GRPOConfig
    from gtpo.trl import GTPOConfig

    return GTPOConfig


def _check_choice(name: str, value: Any, origin: str, method: str) -> None:
    if method == "sft" or name not in CHOICES or isinstance(value, bool):
        return
    if value not in CHOICES[name]:
        raise ConfigError(f"{origin}: {name} must be one of {', '.join(CHOICES[name])}, got {value!r}.")


def _arguments(name: str, value: Any) -> list[str]:
    """The value as TRL's parser reads it from a command line; YAML's null leaves the default."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    if isinstance(value, list):
        return [f"--{name}", *map(str, value)]
    return [f"--{name}={str(value).lower() if isinstance(value, bool) else value}"]


def _located(message: str, settings: Settings) -> str:
    """The message, with the place that the option it is about came from."""
    if "generation_batch_size" in message and "generation_batch_size" not in settings:
        return (
            f"{message.rstrip('.')}. It is per_device_train_batch_size × steps_per_generation (if not given: "
            "gradient_accumulation_steps) × processes: set these so that whole groups of num_generations fit."
        )
    names = re.findall(r"--(\w+)|\b(\w+)\b", message)
    for name in (first or second for first, second in names):
        if name in settings:
            return f"{settings[name].origin}: {name}: {settings[name].value!r}: {message}"
    return message
