"""What a command asks for, resolved and checked, before anything is written."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.integrations.integration_utils import get_reporting_integration_callbacks
from transformers.utils.import_utils import is_torch_bf16_gpu_available
from trl.trainer.model_config import ModelConfig

from gtpo.errors import ConfigError
from gtpo.training.config.options import NAMES, RunOptions, read_options
from gtpo.training.config.parser import parse
from gtpo.training.config.recipe import COMMAND_LINE, Setting, Settings, lay_over, load_recipe
from gtpo.training.rewards import find_reward

LAB_RECIPE = Path(__file__).with_name("lab.yaml")
DEFAULTS = {"report_to": "none", "logging_steps": 1, "disable_tqdm": True}
NO_RECIPE: Settings = {"save_total_limit": Setting(2, "default")}
"""TRL keeps every checkpoint, with its optimizer: a disk full of them."""
GRPO_DEFAULTS = {"loss_type": "grpo", "scale_rewards": "none", "beta": 0.0}
"""GRPO beside GTPO differs from it in GTPO alone, unless the recipe says otherwise."""


WORDS_FOR_FALSE = {
    "entropy_filter": "off",
    "save_strategy": "no",
    "eval_strategy": "no",
    "logging_strategy": "no",
    "scale_rewards": "none",
}
"""Words that YAML, unquoted, reads as false, or that TRL takes false for."""

Bound = tuple[Callable[[float], bool], str]
_COUNT: Bound = (lambda value: value >= 1, "at least 1")
_SHARE: Bound = (lambda value: 0 <= value < 1, "at least 0 and below 1")
_SIZE: Bound = (lambda value: 0 <= value < math.inf, "a finite number, at least 0")
BOUNDS: dict[str, Bound] = {
    "per_device_train_batch_size": _COUNT,
    "gradient_accumulation_steps": _COUNT,
    "num_generations": (lambda value: value >= 2, "at least 2: completions are compared with others of their group"),
    "num_iterations": _COUNT,
    "steps_per_generation": _COUNT,
    "max_completion_length": _COUNT,
    "adam_beta1": _SHARE,
    "adam_beta2": _SHARE,
    "learning_rate": _SIZE,
    "beta": _SIZE,
    "weight_decay": _SIZE,
    "dataloader_num_workers": _SIZE,
    "temperature": (lambda value: 0 < value < math.inf, "a finite number above 0"),
    "num_train_epochs": (lambda value: value > 0, "above 0"),
    "max_steps": (lambda value: value >= 1 or value == -1, "at least 1, or -1 for as many as num_train_epochs take"),
    "lora_r": _COUNT,
    "seed": _SIZE,
}
"""By option: what a value must be, and how to say it."""


@dataclass(frozen=True)
class Plan:
    options: RunOptions
    config: Any  # GTPOConfig, GRPOConfig or SFTConfig
    model_config: ModelConfig
    settings: dict[str, Any]  # everything that was set, as a recipe would have it


def make_plan(recipe: Path | None, overrides: Settings) -> Plan:
    """Read the recipe, lay the overrides over it, and check every option.

    Without a recipe the lab's is taken, but not for a model of one's own: TRL's defaults are gentler than what the
    lab's tiny model needs.
    """
    method = overrides["method"].value if "method" in overrides else None
    is_lab = "model" not in overrides or overrides["model"].value == "lab"
    path = recipe or (LAB_RECIPE if is_lab else None)
    return plan_from(lay_over(NO_RECIPE if path is None else load_recipe(path, method), overrides))


def plan_from(settings: Settings) -> Plan:
    settings = _without_vllm(settings) if _is_switched_off(settings, "use_vllm") else settings
    options = read_options({name: settings[name].value for name in NAMES if name in settings})
    _refuse_ignored(options, settings)
    settings = {name: _as_word(name, setting) for name, setting in settings.items()}
    theirs = {name: setting for name, setting in settings.items() if name not in NAMES}
    for name, value in _defaults(options, theirs).items():
        theirs.setdefault(name, Setting(value, "default"))
    _require_in_bounds(theirs)
    if options.method != "sft":
        for name in options.rewards:
            find_reward(name)
    config, model_config = parse(options.method, theirs)
    _require_trackers(config.report_to)
    weights = getattr(config, "reward_weights", None)
    if weights is not None and len(weights) != len(options.rewards):
        raise ConfigError(f"reward_weights has {len(weights)} numbers for {len(options.rewards)} rewards.")
    if not all(map(math.isfinite, weights or [])):
        raise ConfigError(
            f"{settings['reward_weights'].origin}: reward_weights must be finite numbers, got {weights}."
        )
    resolved = {name: setting.value for name, setting in {**settings, **theirs}.items()}
    return Plan(options, config, model_config, {"method": options.method, **resolved})


def _as_word(name: str, setting: Setting) -> Setting:
    return Setting(WORDS_FOR_FALSE.get(name, False), setting.origin) if setting.value is False else setting


def _refuse_ignored(options: RunOptions, settings: Settings) -> None:
    """Options that would be taken and do nothing, or undo what we promise."""
    refused = {
        "resume_from_checkpoint": "Use `gtpo train --resume RUN`.",
        "save_only_model": "Without the optimizer's state a run cannot be resumed as it was: leave it out.",
        "eval_strategy": "Use held_out for numbers before and after, and `gtpo eval` for the rest.",
    }
    for name, remedy in refused.items():
        if name in settings and str(settings[name].value).lower() not in ("false", "no", "none"):
            raise ConfigError(f"{settings[name].origin}: {name} is not taken here. {remedy}")
    for prefix, switch in (("lora_", "use_peft"), ("vllm_", "use_vllm")):
        idle = [name for name in settings if name.startswith(prefix)]
        if idle and not _is_true(settings, switch) and not (options.method == "sft" and prefix == "vllm_"):
            raise ConfigError(f"{settings[idle[0]].origin}: {idle[0]} does nothing without {switch}: true.")
    if options.method == "sft" and options.on_collapse == "stop":
        raise ConfigError("on_collapse=stop is for gtpo and grpo: nothing in an SFT run tells of a collapse.")


def _require_trackers(names: list[str]) -> None:
    """Refuse a tracker that is not installed; transformers does so too, but in the middle of the start."""
    try:
        for tracker in get_reporting_integration_callbacks(names):
            tracker()
    except (ImportError, RuntimeError, ValueError) as error:
        raise ConfigError(f"report_to: {error}") from error


def _require_in_bounds(settings: Settings) -> None:
    """Numbers that TRL and transformers take, and fail on in the middle of a step or train nothing with."""
    for name, (is_in_bounds, words) in BOUNDS.items():
        value = settings[name].value if name in settings else None
        if value is None or isinstance(value, bool) or (name == "num_train_epochs" and "max_steps" in settings):
            continue
        try:
            is_right = is_in_bounds(float(value))
        except (TypeError, ValueError):
            is_right = not isinstance(value, list | dict)  # words are the parser's matter
        if not is_right:
            raise ConfigError(f"{settings[name].origin}: {name} must be {words}, got {value!r}.")


def _is_true(settings: Settings, name: str) -> bool:
    return name in settings and str(settings[name].value).lower() in ("true", "yes", "t", "y", "1")


def _is_switched_off(settings: Settings, name: str) -> bool:
    return name in settings and settings[name].origin == COMMAND_LINE and not _is_true(settings, name)


def _without_vllm(settings: Settings) -> Settings:
    """A recipe's options of vLLM are for its use_vllm: true; `--use_vllm false` takes them away with it."""
    return {
        name: setting
        for name, setting in settings.items()
        if not name.startswith("vllm_") or setting.origin == COMMAND_LINE
    }


def _defaults(options: RunOptions, theirs: Settings) -> dict[str, Any]:
    seed = theirs["seed"].value if "seed" in theirs else 42
    name = f"{_last_part(options.model)}-{_last_part(options.problems)}-{options.method}-seed{seed}"
    defaults: dict[str, Any] = {**DEFAULTS, "output_dir": _free_folder(f"runs/{name}"), "run_name": name}
    has_accelerator = torch.accelerator.is_available() and not _is_true(theirs, "use_cpu")
    if not _is_true(theirs, "fp16"):
        defaults["bf16"] = has_accelerator and is_torch_bf16_gpu_available()
    defaults["dataloader_pin_memory"] = has_accelerator
    return {**defaults, **GRPO_DEFAULTS} if options.method == "grpo" else defaults


def _free_folder(path: str) -> str:
    """The path, or with a number behind it if there is something there already; many processes must agree on it."""
    number, free = 1, path
    while Path(free).exists() and os.environ.get("WORLD_SIZE", "1") == "1":
        number, free = number + 1, f"{path}-{number + 1}"
    return free


def _last_part(name: str) -> str:
    return Path(name.rstrip("/")).name.removesuffix(".gguf").removesuffix(".jsonl").removesuffix(".parquet").lower()
