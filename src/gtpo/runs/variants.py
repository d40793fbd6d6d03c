"""Tells variants of a method apart: runs with different settings are not seeds of the same thing."""

import contextlib
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtpo.runs.reading import read_settings
from gtpo.runs.run import Run

_MOST_NAMED = 3
_MOST_ITEMS, _LONGEST = 100, 200
"""Entries of a list, and characters of a text, that tell settings apart."""
_IGNORED = re.compile(
    "bf16|data_dir|dataloader_.*|disable_tqdm|output_dir|report_to|run_name|use_cpu"  # where it runs
    "|data_seed|max_steps|method|num_train_epochs|seed"  # which run it is, and how long
    "|held_out.*|logging_.*|on_collapse|record_.*|save_.*"  # what it measures and records
)
"""Settings in which runs of one variant may differ."""


def name_variants(runs: Sequence[Run]) -> list[Run]:
    """The runs. If runs of one method have different settings, `method` names the settings that differ."""
    settings = [_settings(run.path) for run in runs]
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


def _settings(folder: Path) -> dict[str, str]:
    """The settings as text: numbers from the command line are text in config.yaml, those from a recipe are not."""
    settings = read_settings(folder)
    known = {name: value for name, value in settings.items() if value is not None and len(name) <= _LONGEST}
    return {name: _text(value) for name, value in known.items() if not _IGNORED.fullmatch(name)}


def _text(value: Any, depth: int = 2) -> str:
    """The same text whether a value was written in YAML or passed as a word. What is nested deeply is left out.

    >>> _text(1e-6) == _text("1e-06"), _text(True) == _text("true"), _text(["paper"]) == _text("paper")
    (True, True, True)
    >>> _text({"kappa": 2}) == _text('{"kappa": 2}')
    True
    """
    if isinstance(value, str) and value.startswith("{") and len(value) <= _LONGEST:
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, list | dict):
        if not depth:
            return "…"
        entries = (
            [(f"{name}=", item) for name, item in value.items()]
            if isinstance(value, dict)
            else [("", item) for item in value]
        )
        texts = [name + _text(item, depth - 1) for name, item in entries[:_MOST_ITEMS]]
        return " ".join(texts)[:_LONGEST]
    try:
        return str(value).lower() if isinstance(value, bool) else f"{float(value):g}"
    except (TypeError, ValueError, OverflowError):
        return str(value)[:_LONGEST]
