"""Tells variants of a method apart: runs with different settings are not seeds of the same thing."""

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gtpo.runs.run import Run

_MOST_NAMED = 3
_IGNORED = re.compile(
    "bf16|data_dir|dataloader_.*|disable_tqdm|output_dir|report_to|run_name|use_cpu"  # where it runs
    "|data_seed|max_steps|method|num_train_epochs|seed"  # which run it is, and how long
    "|held_out.*|logging_.*|on_collapse|record_.*|save_.*"  # what it measures and records
)
"""Settings in which runs of one variant may differ."""


def name_variants(runs: Sequence[Run]) -> list[Run]:
    """The runs. If runs of one method have different settings, `method` names the settings that differ."""
    settings = [_settings(run.path / "config.yaml") for run in runs]
    runs = [_with_credit(run, own) for run, own in zip(runs, settings, strict=True)]
    variants: dict[str, list[dict[str, str]]] = {}
    for run, own in zip(runs, settings, strict=True):
        known = variants.setdefault(run.method, [])
        if own and own not in known:
            known.append(own)
    return [
        dataclasses.replace(run, method=", ".join([run.method, *_special(own, variants[run.method])]))
        for run, own in zip(runs, settings, strict=True)
    ]


def _with_credit(run: Run, own: dict[str, str]) -> Run:
    """A run of GTPOTrainer with another credit scheme is named after the scheme. Takes it out of the settings."""
    scheme = own.pop("credit", "gtpo")
    return run if scheme == "gtpo" else dataclasses.replace(run, method=scheme)


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
    set_values = {str(name): _text(value) for name, value in content.items() if value is not None}
    return {name: text for name, text in set_values.items() if not _IGNORED.fullmatch(name)}


def _text(value: Any) -> str:
    """The same text whether a value was written in YAML or passed as a word.

    >>> _text(1e-6) == _text("1e-06"), _text(True) == _text("true"), _text(["paper"]) == _text("paper")
    (True, True, True)
    >>> _text({"kappa": 2}) == _text('{"kappa": 2}')
    True
    """
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, dict):
        return json.dumps(value)
    try:
        return str(value).lower() if isinstance(value, bool) else f"{float(value):g}"
    except (TypeError, ValueError, OverflowError):
        return str(value)
