"""Recipe and command line as one set of checked settings, before TRL or torch is imported."""

from pathlib import Path

from gtpo.errors import ConfigError
from gtpo.training.config.option_names import check_names, names_in_source
from gtpo.training.config.options import NAMES, RunOptions, read_options
from gtpo.training.config.recipe import COMMAND_LINE, Setting, Settings, load_recipe, located, merge

LAB_RECIPE = Path(__file__).with_name("lab.yaml")
NO_RECIPE: Settings = {"save_total_limit": Setting(2, "default")}
"""TRL keeps every checkpoint with its optimizer state by default, which fills the disk."""

REFUSED = {
    "resume_from_checkpoint": "Use `gtpo train --resume RUN`.",
    "save_only_model": "A run cannot be resumed without its optimizer state. Leave it out.",
    "eval_strategy": "Use held_out to evaluate before and after training, and `gtpo eval` for the rest.",
}
FALSE_AS_WORD = {
    "entropy_filter": "off",
    "save_strategy": "no",
    "eval_strategy": "no",
    "logging_strategy": "no",
    "scale_rewards": "none",
}
"""YAML parses an unquoted `off` or `no` as false; these options take a word instead."""


def read_settings(recipe: Path | None, overrides: Settings) -> Settings:
    """The recipe with the overrides merged on top, checked.

    Without a recipe the lab's is used, but not for another model: the lab's learning rate would ruin a real model.
    """
    method = overrides["method"].value if "method" in overrides else None
    is_lab = "model" not in overrides or overrides["model"].value == "lab"
    path = recipe or (LAB_RECIPE if is_lab else None)
    settings = merge(NO_RECIPE if path is None else load_recipe(path, method), overrides)
    return check_settings(settings)[1]


def check_settings(settings: Settings) -> tuple[RunOptions, Settings]:
    """Our own options, and the settings with YAML's false translated and switched-off vLLM options removed."""
    if "use_vllm" in settings and settings["use_vllm"].origin == COMMAND_LINE and not is_true(settings, "use_vllm"):
        settings = _without_vllm(settings)
    settings = {name: _as_word(name, setting) for name, setting in settings.items()}
    try:
        options = read_options({name: settings[name].value for name in NAMES if name in settings})
    except ConfigError as error:
        raise ConfigError(located(str(error), settings)) from error
    check_names(settings, options.method, names_in_source)
    _refuse_ignored(options, settings)
    return options, settings


def is_true(settings: Settings, name: str) -> bool:
    return name in settings and str(settings[name].value).lower() in ("true", "yes", "t", "y", "1")


def _as_word(name: str, setting: Setting) -> Setting:
    is_false = setting.value is False
    return Setting(FALSE_AS_WORD[name], setting.origin) if is_false and name in FALSE_AS_WORD else setting


def _without_vllm(settings: Settings) -> Settings:
    """Drop the vLLM options of a recipe: they belong to its `use_vllm: true`, which the command line switched off."""
    return {
        name: setting
        for name, setting in settings.items()
        if not name.startswith("vllm_") or setting.origin == COMMAND_LINE
    }


def _refuse_ignored(options: RunOptions, settings: Settings) -> None:
    """Refuse options that would have no effect or break what `gtpo train` promises."""
    for name, remedy in REFUSED.items():
        if name in settings and str(settings[name].value).lower() not in ("false", "no", "none"):
            raise ConfigError(f"{settings[name].origin}: {name} is not supported. {remedy}")
    for prefix, switch in (("lora_", "use_peft"), ("vllm_", "use_vllm")):
        unused = [name for name in settings if name.startswith(prefix)]
        if unused and not is_true(settings, switch):
            raise ConfigError(f"{settings[unused[0]].origin}: {unused[0]} has no effect without {switch}: true.")
    if options.method == "sft" and options.on_collapse == "stop":
        raise ConfigError("on_collapse=stop is for gtpo and grpo: an SFT run has no health check.")
