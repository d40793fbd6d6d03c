"""The names of TRL's and transformers' options, read from their source files: importing TRL takes ten seconds.

A name that no option has is refused before anything is imported. `gtpo.training.config.parser` has the same names from
TRL's own parser.
"""

import ast
import difflib
import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path

from gtpo.errors import ConfigError
from gtpo.training.config.options import METHODS, NAMES
from gtpo.training.config.recipe import Settings

CONFIG_CLASSES = {"gtpo": "GTPOConfig", "grpo": "GRPOConfig", "sft": "SFTConfig"}
SOURCES = (
    ("transformers", "training_args.py"),
    ("trl", "trainer/base_config.py"),
    ("trl", "trainer/grpo_config.py"),
    ("trl", "trainer/sft_config.py"),
    ("trl", "trainer/model_config.py"),
    ("gtpo", "trl/config.py"),
)
"""The files that define the configuration classes and their bases."""

RENAMED = {"model_name_or_path": "model", "dataset_name": "problems", "reward_funcs": "rewards"}

NamesOf = Callable[[str], frozenset[str] | None]
"""The option names of a method, those of gtpo itself excluded; None if they are not known."""


def check_names(settings: Settings, method: str, names_of: NamesOf) -> None:
    """Refuse a setting that is not an option of the method, and suggest the nearest name."""
    names = names_of(method)
    if names is None:
        return
    for name, setting in settings.items():
        if name in RENAMED:
            raise ConfigError(f"{setting.origin}: {name} is called {RENAMED[name]} here.")
        if name in names or name in NAMES:
            continue
        others = [other for other in METHODS if name in (names_of(other) or ())]
        if others:
            section = "rl" if len(others) > 1 else others[0]
            raise ConfigError(
                f"{setting.origin}: {name} is an option of {' and '.join(others)}, not of {method}. Leave it out, or "
                f"put it under `{section}:` in the recipe."
            )
        near = difflib.get_close_matches(name, [*names, *NAMES], n=1, cutoff=0.6)
        hint = f"Did you mean {near[0]}?" if near else "`gtpo train --help-all` lists all options."
        raise ConfigError(f"{setting.origin}: there is no option {name}. {hint}")


@functools.cache
def names_in_source(method: str) -> frozenset[str] | None:
    """The option names of a method, found without an import; None if a source file or a base class is missing."""
    try:
        classes = _classes()
        fields = {**_fields("ModelConfig", classes), **_fields(CONFIG_CLASSES[method], classes)}
    except (OSError, LookupError, SyntaxError):
        return None
    switches = {f"no_{name}" for name, is_on in fields.items() if is_on}  # transformers adds --no_x to --x
    return frozenset(fields) | switches


@functools.cache
def _classes() -> dict[str, ast.ClassDef]:
    """The classes of all source files by name."""
    classes: dict[str, ast.ClassDef] = {}
    for package, file in SOURCES:
        spec = importlib.util.find_spec(package)  # of a top-level package: imports nothing
        if spec is None or spec.origin is None:
            raise LookupError(package)
        tree = ast.parse((Path(spec.origin).parent / file).read_text(encoding="utf-8"))
        classes |= {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return classes


def _fields(name: str, classes: dict[str, ast.ClassDef]) -> dict[str, bool]:
    """The dataclass fields of a class and its bases: name, and whether it is a flag that is on by default."""
    fields: dict[str, bool] = {}
    for base in reversed(classes[name].bases):
        fields |= _fields(ast.unparse(base), classes)
    for node in classes[name].body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_flag = ast.unparse(node.annotation) in ("bool", "bool | None")
            fields[node.target.id] = is_flag and _is_true(node.value)
    return fields


def _is_true(value: ast.expr | None) -> bool:
    """Whether the default is True, written as `True`, `field(default=True)` or `knob(True)`."""
    if isinstance(value, ast.Call):
        value = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None) or next(
            iter(value.args), None
        )
    return isinstance(value, ast.Constant) and value.value is True
