"""A recipe: a YAML file of options, which may rest on another one, with parts for some methods only.

    base: ../base.yaml            # read first; what follows overrides it
    model: Qwen/Qwen2.5-3B-Instruct
    learning_rate: 1e-6           # any option of ours, TRL's or transformers'
    rl:   {num_generations: 8}    # for gtpo and grpo
    gtpo: {entropy_penalty: 0.1}  # for one method
    sft:  {learning_rate: 2e-5}

Every setting remembers where it came from, so that an error can name the place.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gtpo.errors import ConfigError, require_choice
from gtpo.training.config.options import METHODS

SECTIONS = {"gtpo": ("gtpo",), "grpo": ("grpo",), "sft": ("sft",), "rl": ("gtpo", "grpo")}
COMMAND_LINE = "command line"


@dataclass(frozen=True)
class Setting:
    value: Any
    origin: str  # a file, or the command line


Settings = dict[str, Setting]


def lay_over(lower: Settings, upper: Settings) -> Settings:
    """Both, the upper ones counting. A `max_steps` from below would make `num_train_epochs` do nothing: it goes."""
    drops = {"max_steps"} if "num_train_epochs" in upper and "max_steps" not in upper else set[str]()
    return {**{name: setting for name, setting in lower.items() if name not in drops}, **upper}


def load_recipe(path: Path, method: str | None = None) -> Settings:
    """The settings of a recipe for one method: the given one, or the one that the recipe names."""
    layers = _layers(path, ())
    for layer, origin in layers:
        method_here = layer.get("method")
        method = method or (str(method_here) if method_here else None)
        if method_here is not None:
            require_choice(f"{origin}: method", method_here, METHODS)
    method = method or "gtpo"
    require_choice("method", method, METHODS)
    settings: Settings = {}
    for layer, origin in reversed(layers):
        parts = {name: layer.pop(name) for name in list(layer) if name in SECTIONS}
        own = {name: Setting(value, origin) for name, value in layer.items() if name != "base"}
        settings = lay_over(settings, own)
        for section in ("rl", method):
            if method in SECTIONS[section] and section in parts:
                part = _mapping(parts[section], f"{origin}, section {section}")
                own = {name: Setting(value, f"{origin}, section {section}") for name, value in part.items()}
                settings = lay_over(settings, own)
    settings["method"] = Setting(method, settings["method"].origin if "method" in settings else str(path))
    return settings


def parse_overrides(arguments: list[str]) -> Settings:
    """Settings from `--name value`, `--name=value`, `--name a b` (a list) and `--name` alone (true)."""
    found: dict[str, list[str]] = {}
    name = None
    for argument in arguments:
        if argument.startswith("--"):
            name, has_value, value = argument[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = [value] if has_value else []
        elif name is None:
            raise ConfigError(f"{argument!r} is not an option. Give one recipe first, then options as --name value.")
        else:
            found[name].append(argument)
    values = {name: given[0] if len(given) == 1 else given or True for name, given in found.items()}
    return {name: Setting(value, COMMAND_LINE) for name, value in values.items()}


class _Loader(yaml.SafeLoader):
    """Safe, and without YAML's habit of taking the last of two equal keys."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = [key.value for key, _ in node.value if key.tag == "tag:yaml.org,2002:str"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(None, None, f"{key} stands there twice", node.start_mark)
        return node


def _layers(path: Path, seen: tuple[Path, ...]) -> list[tuple[dict[str, Any], str]]:
    """The recipe and what it rests on, the recipe itself first."""
    if path.resolve() in seen:
        raise ConfigError(f"{path} rests on itself: follow its `base` entries and break the circle.")
    try:
        content = yaml.load(path.read_text(), _Loader)
    except OSError as error:
        raise ConfigError(f"Recipe {path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"Recipe {path} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"Recipe {path} is not valid YAML: {error}") from error
    layer = _mapping(content if content is not None else {}, str(path))
    layers = [(layer, str(path))]
    base = layer.get("base")
    if not base:
        return layers
    if not isinstance(base, str):
        raise ConfigError(f"{path}: base must be the name of a file, got {base!r}.")
    return layers + _layers(path.parent / base, (*seen, path.resolve()))


def _mapping(content: Any, origin: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ConfigError(f"{origin} must be a mapping of option: value, got {type(content).__name__}.")
    for key in content:
        if not isinstance(key, str):
            raise ConfigError(f"{origin}: {key!r} is no option: YAML reads it as {type(key).__name__}. Quote it.")
    return dict(content)
