"""Recipes: YAML files of options. A recipe may extend another one and have sections for some methods only.

    base: ../base.yaml            # loaded first; what follows overrides it
    model: Qwen/Qwen2.5-3B-Instruct
    learning_rate: 1e-6           # any option of gtpo, TRL or transformers
    rl:   {num_generations: 8}    # for gtpo and grpo
    gtpo: {entropy_penalty: 0.1}  # for one method
    sft:  {learning_rate: 2e-5}

Every setting remembers where it came from, for error messages.
"""

import json
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gtpo.errors import ConfigError, shortened
from gtpo.training.config.options import METHODS

COMMAND_LINE = "command line"
MAX_BYTES, MAX_DEPTH, MAX_ALIASES, MAX_BASES = 2**18, 20, 8, 10
"""Of a recipe. A larger file would take seconds to parse, and nested aliases multiply."""

SECTIONS = ("rl", *METHODS)
FALSE_AS_WORD = {
    "entropy_filter": "off",
    "save_strategy": "no",
    "eval_strategy": "no",
    "logging_strategy": "no",
    "scale_rewards": "none",
}
"""YAML parses an unquoted `off` or `no` as false; these options take a word instead."""


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
            origin, value = settings[name].origin, shortened(settings[name].value)
            return f"{origin}: {message}" if message.startswith(name) else f"{origin}: {name}={value}: {message}"
    return message


def load_recipe(path: Path, method: str | None = None, *, may_extend: bool = True) -> Settings:
    """The settings of a recipe for `method`, by default the method that the recipe names."""
    layers = _layers(path)
    if len(layers) > 1 and not may_extend:
        raise ConfigError(f"{path} has an option base, which gtpo does not write. Remove it.")
    method = method or next((layer["method"] for layer, _ in layers if layer.get("method")), "gtpo")
    settings: Settings = {}
    for layer, origin in reversed(layers):
        sections = {name: layer.pop(name, None) for name in SECTIONS}
        settings = merge(settings, _settings(layer, origin))
        for name in SECTIONS:
            if name == method or (name == "rl" and method != "sft"):
                place = f"{origin}, section {name}"
                settings = merge(settings, _settings(_mapping(sections[name], place), place))
    return {**settings, "method": Setting(method, str(path))}


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
    settings: Settings = {}
    for name, value in values.items():
        settings[str(name)] = Setting(FALSE_AS_WORD.get(name, value) if value is False else value, origin)
    return settings


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which refuses a mapping that has the same key twice, deep nesting and many aliases."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._num_aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        self._num_aliases += self.check_event(yaml.AliasEvent)
        if self._depth > MAX_DEPTH or self._num_aliases > MAX_ALIASES:
            problem = f"more than {MAX_DEPTH} nested levels or {MAX_ALIASES} aliases"
            raise yaml.MarkedYAMLError(None, None, problem, self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:str" and key.value in keys:
                raise yaml.MarkedYAMLError(None, None, f"duplicate key {key.value}", node.start_mark)
            keys.add(str(key.value))
        return node


def _parse(path: Path) -> Any:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("it is not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
        values = yaml.load(content.decode(), _Loader)
        json.dumps(values, default=str)  # raises for a value that contains itself, and for a number of 4,300 digits
        return values
    except Exception as error:  # PyYAML's constructors raise whatever a wrong value makes Python raise
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"Recipe {str(path)[:500]} cannot be read: {reason}.") from error


def _layers(path: Path) -> list[tuple[dict[str, Any], str]]:
    """The content and the origin of the recipe, of its base, of that one's base and so on."""
    layers: list[tuple[dict[str, Any], str]] = []
    files: list[Path] = []
    while True:
        content = _parse(path)
        is_circular = path.resolve() in files
        files.append(path.resolve())
        if is_circular:
            raise ConfigError(f"Circular `base` in {files[0].name}: {' → '.join(file.name for file in files)}.")
        layer = _mapping(content, str(path))
        base = layer.pop("base", None)
        layers.append((layer, str(path)))
        if not base:
            return layers
        if len(files) == MAX_BASES:
            raise ConfigError(f"{files[0].name} extends more than {MAX_BASES} recipes, one on top of the other.")
        path = path.parent / str(base)


def _mapping(content: Any, origin: str) -> dict[str, Any]:
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"{origin} must be a mapping of option: value, got {type(content).__name__}.")
    return content or {}
