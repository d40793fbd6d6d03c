"""Recipe and command line as one set of checked settings, before TRL or torch is imported.

Importing TRL takes ten seconds. The names of its options are therefore read from its source files.
"""

import ast
import difflib
import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

import msgspec

from gtpo.errors import ConfigError, require_package, shortened
from gtpo.training.config.options import METHODS, NAMES, RunOptions
from gtpo.training.config.recipe import COMMAND_LINE, Setting, Settings, load_recipe, located, merge

LAB_RECIPE = Path(__file__).with_name("lab.yaml")
NO_RECIPE: Settings = {"save_total_limit": Setting(2, "default")}
"""TRL keeps every checkpoint with its optimizer state by default, which fills the disk."""

_COMMON = ("transformers/training_args.py", "trl/trainer/base_config.py", "trl/trainer/model_config.py")
SOURCES = {
    "gtpo": (*_COMMON, "trl/trainer/grpo_config.py", "gtpo/trl/config.py"),
    "grpo": (*_COMMON, "trl/trainer/grpo_config.py"),
    "sft": (*_COMMON, "trl/trainer/sft_config.py"),
}
"""The files that define the options of each method and of the model."""

REFUSED = {
    "model_name_or_path": "It is called model here.",
    "dataset_name": "It is called problems here.",
    "reward_funcs": "It is called rewards here.",
    "resume_from_checkpoint": "Use `gtpo train --resume RUN`.",
    "save_only_model": "A run cannot be resumed without its optimizer state. Leave it out.",
    "hub_token": "Every option is written to config.yaml. Log in with `hf auth login`, or set HF_TOKEN.",
    "hub_always_push": "Only the final model is uploaded, once. Leave it out.",
    "eval_strategy": "Use held_out and held_out_every to evaluate while training, and `gtpo eval` for the rest.",
}

_KINDS = {"int": "a whole number", "float": "a number", "str": "text"}
"""What the types of our options are called in errors."""


def read_settings(recipe: Path | None, overrides: Settings) -> Settings:
    """The recipe with the overrides merged on top, checked.

    Without a recipe the lab's is used, but not for another model: the lab's learning rate would ruin a real model.
    """
    method = overrides["method"].value if "method" in overrides else None
    is_lab = "model" not in overrides or overrides["model"].value == "lab"
    path = recipe or (LAB_RECIPE if is_lab else None)
    settings = merge(NO_RECIPE if path is None else load_recipe(path, method), overrides)
    if "use_vllm" in overrides and not is_true(overrides, "use_vllm"):  # the recipe's options of vLLM go with it
        unused = [name for name in settings if name.startswith("vllm_") and name not in overrides]
        settings = {name: setting for name, setting in settings.items() if name not in unused}
    check_settings(settings)
    _require_on_command_line(settings)
    return settings


def settings_of_run(folder: Path) -> Settings:
    """The settings that a run started with, to continue it in the same folder."""
    settings = {
        **load_recipe(folder / "config.yaml", may_extend=False),
        "output_dir": Setting(str(folder), COMMAND_LINE),
    }
    check_settings(settings)
    return settings


def check_settings(settings: Settings) -> RunOptions:
    """Our own options. Refuses names that do not exist, and options that have no effect or break a promise."""
    options = _own_options(settings)
    names = option_names(options.method)
    for name, setting in settings.items():
        if name in REFUSED and str(setting.value).lower() not in ("false", "no", "none"):
            raise ConfigError(f"{setting.origin}: {name} is not supported. {REFUSED[name]}")
        if names and name not in names and name not in NAMES:  # without names, TRL's parser refuses unknown options
            raise ConfigError(f"{setting.origin}: {options.method} has no option {name[:200]}. {_hint(name, names)}")
        for prefix, switch in (("lora_", "use_peft"), ("vllm_", "use_vllm"), ("hub_model_id", "push_to_hub")):
            if name.startswith(prefix) and not is_true(settings, switch):
                raise ConfigError(f"{setting.origin}: {name} has no effect without {switch}: true.")
    return options


def _require_on_command_line(settings: Settings) -> None:
    """Refuse a recipe that runs code of a model or of the hub: whether to trust it is not for the recipe to say."""
    for name, runs_code in {
        "trust_remote_code": is_true(settings, "trust_remote_code"),
        "attn_implementation": "attn_implementation" in settings and "/" in str(settings["attn_implementation"].value),
    }.items():
        if runs_code and settings[name].origin != COMMAND_LINE:
            value = "true" if name == "trust_remote_code" else settings[name].value
            remedy = f"If you trust it, add --{name} {value} to the command"
            raise ConfigError(f"{settings[name].origin}: {name} runs code that is not part of the recipe. {remedy}.")


def is_true(settings: Settings, name: str) -> bool:
    return name in settings and str(settings[name].value).lower() in ("true", "yes", "t", "y", "1")


def _own_options(settings: Settings) -> RunOptions:
    values: dict[str, Any] = {name: settings[name].value for name in NAMES if name in settings}
    if rewards := values.get("rewards"):
        words = rewards if isinstance(rewards, list) else [rewards]
        values["rewards"] = ",".join(map(str, words)).split(",")
    if isinstance(columns := values.get("columns"), dict):
        names = {ours: theirs for ours, theirs in columns.items() if theirs is not None}
        if not all(isinstance(name, str) and not set(name) & set(",=") for pair in names.items() for name in pair):
            raise ConfigError(
                f"{settings['columns'].origin}: columns must map names to names, such as question: task; got "
                f"{shortened(columns)}."
            )
        values["columns"] = ",".join(f"{ours}={theirs}" for ours, theirs in names.items()) or None
    set_values = {name: value for name, value in values.items() if value is not None}  # YAML's null means the default
    try:
        return msgspec.convert(set_values, RunOptions, strict=False)
    except msgspec.ValidationError as error:
        message = str(error)
        if mistyped := re.fullmatch(r"Expected `(int|float|str)(?: \| null)?`, got .* - at `\$\.(\w+)`", message):
            kind, name = mistyped.groups()
            message = f"{name} must be {_KINDS[kind]}, got {shortened(values[name])}."
        message, _, _ = located(message, settings).partition(" - at ")
        raise ConfigError(message) from error


def _hint(name: str, names: frozenset[str]) -> str:
    others = [method for method in METHODS if name in option_names(method)]
    if others:
        return f"It is one of {' and '.join(others)}: leave it out, or put it into a section of the recipe."
    near = difflib.get_close_matches(name, [*names, *NAMES], n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else "`gtpo train --help-all` lists all options."


@functools.cache
def option_names(method: str) -> frozenset[str]:
    """The dataclass fields in the source files of a method; none if another version has moved a file."""
    names: set[str] = set()
    for source in SOURCES[method]:
        package, _, file = source.partition("/")
        require_package(package)
        spec: Any = importlib.util.find_spec(package)  # of a top-level package: imports nothing
        path = Path(spec.origin).parent / file
        if not path.is_file():
            return frozenset()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            fields = node.body if isinstance(node, ast.ClassDef) else []
            names |= {ast.unparse(field.target) for field in fields if isinstance(field, ast.AnnAssign)}
    return frozenset(names)
