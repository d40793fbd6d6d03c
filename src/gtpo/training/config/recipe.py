"""Recipes: YAML files of options. A recipe may extend another one and have sections for some methods only.

    base: ../base.yaml            # loaded first; what follows overrides it
    model: Qwen/Qwen2.5-3B-Instruct
    learning_rate: 1e-6           # any option of gtpo, TRL or transformers
    rl:   {num_generations: 8}    # for gtpo and grpo
    gtpo: {entropy_penalty: 0.1}  # for one method
    sft:  {learning_rate: 2e-5}

Every setting remembers where it came from, for error messages.
"""

import re
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
    origin: str
    """A file, or the command line."""


Settings = dict[str, Setting]


def merge(lower: Settings, upper: Settings) -> Settings:
    """Merge two layers; the upper one wins.

    Drops a lower `max_steps` when the upper layer sets `num_train_epochs`, because TRL ignores epochs when `max_steps`
    is set.
    """
    merged = {**lower, **upper}
    if "num_train_epochs" in upper and "max_steps" not in upper:
        merged.pop("max_steps", None)
    return merged


def located(message: str, settings: Settings) -> str:
    """The message, preceded by the origin of the first option that it names."""
    for name in re.findall(r"\w+", message):
        if name in settings:
            origin, value = settings[name].origin, settings[name].value
            return f"{origin}: {message}" if message.startswith(name) else f"{origin}: {name}={value!r}: {message}"
    return message


def load_recipe(path: Path, method: str | None = None) -> Settings:
    """The settings of a recipe for `method`, by default the method that the recipe names."""
    layers = _layers(path, ())
    for layer, origin in layers:
        method_here = layer.get("method")
        if method_here is not None:
            require_choice(f"{origin}: method", method_here, METHODS)
            method = method or method_here
    method = method or "gtpo"
    require_choice("method", method, METHODS)
    settings: Settings = {}
    for layer, origin in reversed(layers):
        sections = {name: layer.pop(name) for name in list(layer) if name in SECTIONS}
        layer.pop("base", None)
        settings = merge(settings, _settings(layer, origin))
        for section in ("rl", method):
            if method in SECTIONS[section] and section in sections:
                place = f"{origin}, section {section}"
                settings = merge(settings, _settings(_mapping(sections[section], place), place))
    origin = settings["method"].origin if "method" in settings else str(path)
    return {**settings, "method": Setting(method, origin)}


def parse_overrides(arguments: list[str]) -> Settings:
    """Settings from `--name value`, `--name=value`, `--name a b` (a list) and `--name` alone (true)."""
    words: dict[str, list[str]] = {}
    name = None
    for argument in arguments:
        if argument.startswith("--"):
            name, has_value, value = argument[2:].partition("=")
            name = name.replace("-", "_")
            words[name] = [value] if has_value else []
        elif name is None:
            raise ConfigError(f"{argument!r} is not an option. Give one recipe first, then options as --name value.")
        else:
            words[name].append(argument)
    values = {name: values[0] if len(values) == 1 else values or True for name, values in words.items()}
    return _settings(values, COMMAND_LINE)


def _settings(values: dict[str, Any], origin: str) -> Settings:
    return {name: Setting(value, origin) for name, value in values.items()}


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which refuses a mapping that has the same key twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = [key.value for key, _ in node.value if key.tag == "tag:yaml.org,2002:str"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(None, None, f"duplicate key {key}", node.start_mark)
        return node


def _layers(path: Path, above: tuple[Path, ...]) -> list[tuple[dict[str, Any], str]]:
    """The content and the origin of the recipe, of its base, of that one's base and so on."""
    if path.resolve() in above:
        names = [file.name for file in (*above, path)]
        raise ConfigError(f"Circular `base` in {above[0].name}: {' → '.join(names)}.")
    try:
        content = yaml.load(path.read_text(), _Loader)
    except OSError as error:
        raise ConfigError(f"Recipe {path} cannot be read: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"Recipe {path} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"Recipe {path} is not valid YAML: {error}") from error
    layer = _mapping(content if content is not None else {}, str(path))
    base = layer.get("base")
    if not base:
        return [(layer, str(path))]
    if not isinstance(base, str):
        raise ConfigError(f"{path}: base must be the path of one file, got {base!r}.")
    return [(layer, str(path)), *_layers(path.parent / base, (*above, path.resolve()))]


def _mapping(content: Any, origin: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ConfigError(f"{origin} must be a mapping of option: value, got {type(content).__name__}.")
    for key in content:
        if not isinstance(key, str):
            raise ConfigError(
                f"{origin}: {key!r} is not an option name; YAML parsed it as {type(key).__name__}. Quote it."
            )
    return dict(content)
