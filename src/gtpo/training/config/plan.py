"""What a command asks for, resolved and checked by TRL's own parser, before anything is loaded or written."""

import functools
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.integrations.integration_utils import get_reporting_integration_callbacks
from trl.scripts.utils import TrlParser
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.model_config import ModelConfig
from trl.trainer.sft_config import SFTConfig

from gtpo.errors import ConfigError, require, shortened
from gtpo.files import free_path
from gtpo.problems.loading import is_own, short_name
from gtpo.training.config.options import NAMES, RunOptions
from gtpo.training.config.recipe import Setting, Settings, located
from gtpo.training.config.settings import check_settings, read_settings
from gtpo.trl.checks import check_training_options
from gtpo.trl.config import GTPOConfig, choose_precision

CLASSES: dict[str, Any] = {"gtpo": GTPOConfig, "grpo": GRPOConfig, "sft": SFTConfig}
DEFAULTS = {"report_to": "none", "logging_steps": 1, "disable_tqdm": True}
GRPO_DEFAULTS = {"loss_type": "grpo", "scale_rewards": "none", "beta": 0.0}
"""Those of GTPOConfig: unless the recipe sets them, a GRPO run differs from a GTPO run in the method alone."""


@dataclass(frozen=True)
class Plan:
    options: RunOptions
    config: Any
    """A GTPOConfig, GRPOConfig or SFTConfig; Any because each method reads options that the others do not have."""
    model_config: ModelConfig
    settings: dict[str, Any]
    """Everything that was set, as a recipe; paths are absolute, so that the run can be resumed from any folder."""


def make_plan(recipe: Path | None, overrides: Settings) -> Plan:
    return plan_from(read_settings(recipe, overrides))


def plan_from(settings: Settings) -> Plan:
    options = check_settings(settings)
    others = {name: setting for name, setting in settings.items() if name not in NAMES}
    for name, value in _defaults(options, others).items():
        others.setdefault(name, Setting(value, "default"))
    config, model_config = _parse(options.method, others)
    try:  # transformers notices a tracker that is not installed only after the evaluation before training
        for tracker in get_reporting_integration_callbacks(config.report_to):
            tracker()
    except (ImportError, RuntimeError, ValueError) as error:
        raise ConfigError(f"report_to: {error}") from error
    weights = getattr(config, "reward_weights", None)
    if weights is not None and len(weights) != len(options.rewards):
        raise ConfigError(f"reward_weights has {len(weights)} numbers for {len(options.rewards)} rewards.")
    values = {name: setting.value for name, setting in {**settings, **others}.items()}
    return Plan(options, config, model_config, {"method": options.method, **values, **_absolute_paths(options)})


class _Parser(TrlParser):
    """TRL's parser, with errors instead of 1,200 lines of usage, and with GTPOConfig's checks for every method."""

    def error(self, message: str) -> Any:
        raise ConfigError(message)

    def parse_known_args(self, args: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        options: Any
        options, rest = super().parse_known_args(args)
        check_training_options(options)  # before TRL computes with them
        choose_precision(options)
        return options, rest


@functools.cache
def parser_for(method: str) -> TrlParser:
    """The parser for the options of a method and of the model."""
    classes: Any = (CLASSES[method], ModelConfig)
    return _Parser(classes, allow_abbrev=False, add_help=False, prog="gtpo train")


def _parse(method: str, settings: Settings) -> tuple[Any, ModelConfig]:
    """The configurations of the trainer and of the model, from settings that are not gtpo's own."""
    parser = parser_for(method)
    lists = {action.dest for action in parser._actions if action.nargs == "+"}  # pyright: ignore[reportPrivateUsage]
    arguments: list[str] = []
    for name, setting in settings.items():
        value = setting.value
        if isinstance(value, list) and name not in lists:
            raise ConfigError(f"{setting.origin}: {name} takes one value, got {shortened(value)}.")
        if isinstance(value, list):
            for item in value:
                if str(item).startswith("--"):  # argparse would take it for another option
                    raise ConfigError(f"{setting.origin}: {name} has a value that is an option, {shortened(item)}.")
            arguments += [f"--{name}", *map(str, value)]
        elif value is not None:  # YAML's null means the default
            arguments.append(f"--{name}={json.dumps(value) if isinstance(value, bool | dict) else value}")
    try:
        config, model_config = parser.parse_args_into_dataclasses(arguments, look_for_args_file=False)
        require(not model_config.use_peft or model_config.lora_r >= 1, "lora_r", model_config.lora_r, "at least 1")
    except (ConfigError, ValueError, TypeError) as error:
        message = located(str(error), settings)
        if "generation_batch_size" in message and "generation_batch_size" not in settings:
            factors = "per_device_train_batch_size × steps_per_generation (gradient_accumulation_steps) × processes"
            message = f"{error} It is {factors}. Set these to a multiple of num_generations."
        raise ConfigError(message) from error
    return config, model_config


def _absolute_paths(options: RunOptions) -> dict[str, str]:
    """The options that name an existing file or folder, with its absolute path."""
    paths = {"data_dir": options.data_dir}
    if options.model != "lab":
        paths["model"] = options.model
    for name in ("problems", "held_out"):
        if is_own(getattr(options, name) or "lab"):
            paths[name] = getattr(options, name)
    return {name: str(Path(path).absolute()) for name, path in paths.items() if path and Path(path).exists()}


def _defaults(options: RunOptions, settings: Settings) -> dict[str, Any]:
    seed = settings["seed"].value if "seed" in settings else 42
    problems = re.split("[:@]", short_name(options.problems))[0].lower()
    name = f"{Path(options.model.rstrip('/')).name.lower()}-{problems}-{options.method}-seed{seed}"
    defaults = {**DEFAULTS, "output_dir": _free_folder(f"runs/{name}"), "run_name": name}
    return {**defaults, **GRPO_DEFAULTS} if options.method == "grpo" else defaults


def _free_folder(path: str) -> str:
    """The path, with a number appended if it exists. Several processes could not agree on a number: no change."""
    return str(free_path(Path(path))) if os.environ.get("WORLD_SIZE", "1") == "1" else path
