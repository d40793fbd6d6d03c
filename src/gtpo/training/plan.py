"""What a command asks for, resolved and checked, before anything is written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.utils.import_utils import is_torch_bf16_gpu_available
from trl.trainer.model_config import ModelConfig

from gtpo.training.options import NAMES, RunOptions, read_options
from gtpo.training.parser import parse
from gtpo.training.recipe import Setting, Settings, load_recipe

LAB_RECIPE = Path(__file__).with_name("lab.yaml")
DEFAULTS = {"report_to": "none", "logging_steps": 1, "disable_tqdm": True, "save_only_model": False}
GRPO_DEFAULTS = {"loss_type": "grpo", "scale_rewards": "none", "beta": 0.0}
"""GRPO beside GTPO differs from it in GTPO alone, unless the recipe says otherwise."""


@dataclass(frozen=True)
class Plan:
    options: RunOptions
    config: Any  # GTPOConfig, GRPOConfig or SFTConfig
    model_config: ModelConfig
    settings: dict[str, Any]  # everything that was set, as a recipe would have it


def make_plan(recipe: Path | None, overrides: Settings) -> Plan:
    """Read the recipe (the lab's, without one), lay the overrides over it, and check every option."""
    method = overrides["method"].value if "method" in overrides else None
    return plan_from({**load_recipe(recipe or LAB_RECIPE, method), **overrides})


def plan_from(settings: Settings) -> Plan:
    options = read_options({name: settings[name].value for name in NAMES if name in settings})
    theirs = {name: setting for name, setting in settings.items() if name not in NAMES}
    for name, value in _defaults(options, theirs).items():
        theirs.setdefault(name, Setting(value, "default"))
    config, model_config = parse(options.method, theirs)
    resolved = {name: setting.value for name, setting in {**settings, **theirs}.items()}
    return Plan(options, config, model_config, {"method": options.method, **resolved})


def _defaults(options: RunOptions, theirs: Settings) -> dict[str, Any]:
    seed = theirs["seed"].value if "seed" in theirs else 42
    name = f"{_last_part(options.model)}-{_last_part(options.problems)}-{options.method}-seed{seed}"
    defaults: dict[str, Any] = {**DEFAULTS, "output_dir": f"runs/{name}", "run_name": name}
    use_cpu = "use_cpu" in theirs and str(theirs["use_cpu"].value).lower() == "true"
    has_accelerator = torch.accelerator.is_available() and not use_cpu
    if "fp16" not in theirs:
        defaults["bf16"] = has_accelerator and is_torch_bf16_gpu_available()
    defaults["dataloader_pin_memory"] = has_accelerator
    return {**defaults, **GRPO_DEFAULTS} if options.method == "grpo" else defaults


def _last_part(name: str) -> str:
    return Path(name.rstrip("/")).name.removesuffix(".gguf").removesuffix(".jsonl").removesuffix(".parquet").lower()
