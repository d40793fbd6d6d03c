"""TRL's own parser, with its errors as one sentence that names the file or the command line.

On its own it accepts abbreviations such as `--learning_rat` and prints 1,200 lines of usage for a mistake.
"""

import argparse
import functools
import json
from dataclasses import dataclass
from typing import Any

from trl.scripts.utils import TrlParser
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.model_config import ModelConfig
from trl.trainer.sft_config import SFTConfig

from gtpo.errors import ConfigError, require
from gtpo.training.config.option_names import check_names
from gtpo.training.config.recipe import Settings, located
from gtpo.trl.checks import check_training_options
from gtpo.trl.config import GTPOConfig, choose_precision

TrainingConfig = GTPOConfig | GRPOConfig | SFTConfig

_Parent: Any = object


class _Checked(_Parent):
    """Mixin: checks the options and chooses the precision before TRL computes with them, as GTPOConfig does."""

    def __post_init__(self) -> None:
        config: Any = self
        check_training_options(config)
        choose_precision(config)
        super().__post_init__()


@dataclass
class CheckedGRPOConfig(_Checked, GRPOConfig):
    """TRL's GRPOConfig with GTPOConfig's checks of option values."""


@dataclass
class CheckedSFTConfig(_Checked, SFTConfig):
    """TRL's SFTConfig with GTPOConfig's checks of option values."""


CLASSES: dict[str, Any] = {"gtpo": GTPOConfig, "grpo": CheckedGRPOConfig, "sft": CheckedSFTConfig}


class _Parser(TrlParser):
    def error(self, message: str) -> Any:
        raise ConfigError(message)


@functools.cache
def parser_for(method: str) -> TrlParser:
    """TRL's parser for the options of a method and of the model."""
    classes: Any = (CLASSES[method], ModelConfig)
    return _Parser(classes, allow_abbrev=False, add_help=False, prog="gtpo train")


@functools.cache
def parser_names(method: str) -> frozenset[str]:
    """The names of all options of `parser_for(method)`."""
    return frozenset(
        option.removeprefix("--") for option in _actions(method) if option.startswith("--") and "-" not in option[2:]
    )


def _actions(method: str) -> dict[str, argparse.Action]:
    return parser_for(method)._option_string_actions  # pyright: ignore[reportPrivateUsage]


def parse(method: str, settings: Settings) -> tuple[TrainingConfig, ModelConfig]:
    """The configurations of the trainer and of the model, from settings that are not gtpo's own."""
    check_names(settings, method, parser_names)
    arguments: list[str] = []
    for name, setting in settings.items():
        if isinstance(setting.value, list) and _actions(method)[f"--{name}"].nargs != "+":
            raise ConfigError(f"{setting.origin}: {name} takes one value, got {setting.value}.")
        arguments += _arguments(name, setting.value)
    try:
        config, model_config = parser_for(method).parse_args_into_dataclasses(arguments, look_for_args_file=False)
        require(not model_config.use_peft or model_config.lora_r >= 1, "lora_r", model_config.lora_r, "at least 1")
    except (ConfigError, ValueError, TypeError) as error:
        message = str(error)
        if "generation_batch_size" in message and "generation_batch_size" not in settings:
            raise ConfigError(
                f"{message.rstrip('.')}. It is per_device_train_batch_size × steps_per_generation (default: "
                "gradient_accumulation_steps) × processes. Set these to a multiple of num_generations."
            ) from error
        raise ConfigError(located(message, settings)) from error
    return config, model_config


def _arguments(name: str, value: Any) -> list[str]:
    """The value as a command line for TRL's parser; YAML's null means the default."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [f"--{name}", json.dumps(value)]
    if isinstance(value, list):
        return [f"--{name}", *map(str, value)]
    return [f"--{name}={str(value).lower() if isinstance(value, bool) else value}"]
