"""Tells variants of a method apart: runs with different settings are not seeds of the same thing."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gtpo.runs.run import Run

_MOST_NAMED = 3
_IGNORED = {
    "bf16",
    "data_dir",
    "data_seed",
    "dataloader_pin_memory",
    "disable_tqdm",
    "held_out",
    "held_out_problems",
    "held_out_samples",
    "held_out_temperature",
    "held_out_tokens",
    "logging_dir",
    "logging_steps",
    "max_steps",
    "method",
    "num_train_epochs",
    "on_collapse",
    "output_dir",
    "record_every",
    "record_groups",
    "report_to",
    "run_name",
    "save_steps",
    "save_strategy",
    "save_total_limit",
    "seed",
    "use_cpu",
}
"""Settings in which runs of one variant may differ: where they are, how long they train, and what they record."""


def name_variants(runs: Sequence[Run]) -> list[Run]:
    """The runs. If runs of one method have different settings, `method` names the settings that differ."""
    settings = [_settings(run.path / "config.yaml") for run in runs]
    variants: dict[str, list[dict[str, str]]] = {}
    for run, own in zip(runs, settings, strict=True):
        known = variants.setdefault(run.method, [])
        if own and own not in known:
            known.append(own)
    return [
        dataclasses.replace(run, method=", ".join([run.method, *_special(own, variants[run.method])]))
        for run, own in zip(runs, settings, strict=True)
    ]


def _special(own: dict[str, str], variants: Sequence[dict[str, str]]) -> list[str]:
    """The settings that tell this variant from the others; only its number if there are many of them."""
    special = [f"{name} {value}" for name, value in own.items() if value != _usual(name, variants)]
    return [f"settings {1 + variants.index(own)}"] if len(special) > _MOST_NAMED else special


def _usual(name: str, variants: Sequence[Mapping[str, str]]) -> str | None:
    """The value that is not worth naming: that of most variants. None, no value, if some variant does not set it."""
    values = [variant.get(name) for variant in variants]
    if None in values:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else ""


def _settings(path: Path) -> dict[str, str]:
    """The settings as text: numbers from the command line are text in config.yaml, those from a recipe are not."""
    try:
        content: Any = yaml.safe_load(path.read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {str(name): _text(value) for name, value in content.items() if name not in _IGNORED and value is not None}


def _text(value: Any) -> str:
    """The same text whether a value was written in YAML or passed as a word.

    >>> _text(1e-6) == _text("1e-06"), _text(True) == _text("true"), _text(["paper"]) == _text("paper")
    (True, True, True)
    """
    if isinstance(value, list):
        return " ".join(map(_text, value))
    try:
        return str(value).lower() if isinstance(value, bool) else f"{float(value):g}"
    except (TypeError, ValueError, OverflowError):
        return str(value)
