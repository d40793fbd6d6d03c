"""What a command asks for, resolved and checked, before anything is loaded or written."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.integrations.integration_utils import get_reporting_integration_callbacks
from trl.trainer.model_config import ModelConfig

from gtpo.errors import ConfigError
from gtpo.problems.loading import is_file_name
from gtpo.training.config.options import NAMES, RunOptions
from gtpo.training.config.parser import TrainingConfig, parse
from gtpo.training.config.recipe import Setting, Settings
from gtpo.training.config.settings import check_settings, read_settings

DEFAULTS = {"report_to": "none", "logging_steps": 1, "disable_tqdm": True}
GRPO_DEFAULTS = {"loss_type": "grpo", "scale_rewards": "none", "beta": 0.0}
"""Those of GTPOConfig: unless the recipe sets them, a GRPO run differs from a GTPO run in the method alone."""


@dataclass(frozen=True)
class Plan:
    options: RunOptions
    config: Any
    """A `TrainingConfig`; Any because each method reads options that the others do not have."""
    model_config: ModelConfig
    settings: dict[str, Any]
    """Everything that was set, as a recipe; paths are absolute, so that the run can be resumed from any folder."""


def make_plan(recipe: Path | None, overrides: Settings) -> Plan:
    return plan_from(read_settings(recipe, overrides))


def plan_from(settings: Settings) -> Plan:
    options, settings = check_settings(settings)
    others = {name: setting for name, setting in settings.items() if name not in NAMES}
    for name, value in _defaults(options, others).items():
        others.setdefault(name, Setting(value, "default"))
    config, model_config = parse(options.method, others)
    _require_trackers(config)
    weights = getattr(config, "reward_weights", None)
    if weights is not None and len(weights) != len(options.rewards):
        raise ConfigError(f"reward_weights has {len(weights)} numbers for {len(options.rewards)} rewards.")
    values = {name: setting.value for name, setting in {**settings, **others}.items()}
    return Plan(options, config, model_config, {"method": options.method, **values, **_absolute_paths(options)})


def _absolute_paths(options: RunOptions) -> dict[str, str]:
    """The options that name an existing file or folder, with its absolute path."""
    names = {name: getattr(options, name) for name in ("problems", "held_out", "data_dir", "model")}
    paths = {name: Path(value) for name, value in names.items() if value and _is_path(name, value)}
    return {name: str(path.absolute()) for name, path in paths.items() if path.exists()}


def _is_path(name: str, value: str) -> bool:
    return is_file_name(value) if name in ("problems", "held_out") else value != "lab"


def _require_trackers(config: TrainingConfig) -> None:
    """Refuse a tracker that is not installed. transformers would, but only after the evaluation before training."""
    try:
        for tracker in get_reporting_integration_callbacks(config.report_to):
            tracker()
    except (ImportError, RuntimeError, ValueError) as error:
        raise ConfigError(f"report_to: {error}") from error


def _defaults(options: RunOptions, settings: Settings) -> dict[str, Any]:
    seed = settings["seed"].value if "seed" in settings else 42
    name = f"{_last_part(options.model)}-{_last_part(options.problems)}-{options.method}-seed{seed}"
    defaults = {**DEFAULTS, "output_dir": _free_folder(f"runs/{name}"), "run_name": name}
    return {**defaults, **GRPO_DEFAULTS} if options.method == "grpo" else defaults


def _free_folder(path: str) -> str:
    """The path, with a number appended if it exists. Several processes could not agree on a number: no change."""
    number, free = 1, path
    while Path(free).exists() and os.environ.get("WORLD_SIZE", "1") == "1":
        number, free = number + 1, f"{path}-{number + 1}"
    return free


def _last_part(name: str) -> str:
    return Path(name.rstrip("/")).name.removesuffix(".jsonl").removesuffix(".parquet").lower()
