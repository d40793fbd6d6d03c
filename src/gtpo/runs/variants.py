"""Runs of one method that were set differently are not seeds of one thing: each kind gets a name of its own."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gtpo.runs.run import Run

_MOST_NAMED = 3
_NO_MATTER = {
    "method", "seed", "data_seed", "output_dir", "run_name", "report_to", "max_steps", "num_train_epochs",
    "logging_steps", "logging_dir", "disable_tqdm", "save_steps", "save_strategy", "save_total_limit", "record_every",
    "record_groups", "held_out", "held_out_problems", "held_out_samples", "held_out_temperature", "held_out_tokens",
    "data_dir", "on_collapse", "use_cpu", "bf16", "dataloader_pin_memory",
}  # fmt: skip
"""Options in which runs of one kind may differ: where they are, how long, and what is written down."""


def name_variants(runs: Sequence[Run]) -> list[Run]:
    """The runs; where those of one method differ in what was set, `method` says in what."""
    options = [_options(run.path / "config.yaml") for run in runs]
    found: list[Run] = []
    for run, own in zip(runs, options, strict=True):
        kinds = [each for one, each in zip(runs, options, strict=True) if one.method == run.method and each]
        kinds = [each for number, each in enumerate(kinds) if each not in kinds[:number]]
        special = [f"{name} {value}" for name, value in own.items() if value != _usual(name, kinds)]
        if len(special) > _MOST_NAMED:
            special = [f"settings {1 + kinds.index(own)}"]
        found.append(dataclasses.replace(run, method=", ".join([run.method, *special])))
    return found


def _usual(name: str, kinds: Sequence[Mapping[str, str]]) -> str | None:
    """The value that needs no words: none where some kind has none, else that of most kinds, if there is one."""
    values = [kind.get(name) for kind in kinds]
    value, count = Counter(values).most_common(1)[0]
    return None if None in values else value if 2 * count > len(kinds) else ""


def _options(path: Path) -> dict[str, str]:
    """What was set, as text: the command line's numbers are text there, a recipe's are not."""
    try:
        content: Any = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {str(name): _text(value) for name, value in content.items() if name not in _NO_MATTER and value is not None}


def _text(value: Any) -> str:
    """Alike whether it was written as YAML or given as a word.

    >>> _text(1e-6) == _text("1e-06"), _text(True) == _text("true"), _text(["paper"]) == _text("paper")
    (True, True, True)
    """
    if isinstance(value, list):
        return " ".join(map(_text, value))
    try:
        return str(value).lower() if isinstance(value, bool) else f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)
