"""What a run measured on held-out problems, from the summary.json of its folder."""

import dataclasses
from pathlib import Path
from typing import Any

from gtpo.files import is_number, parse_json


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Accuracy and format before and after training; empty if they were not measured (yet)."""

    before: dict[str, float] = dataclasses.field(default_factory=dict[str, float])
    after: dict[str, float] = dataclasses.field(default_factory=dict[str, float])
    num_problems: float | None = None


def read_held_out(folder: Path) -> HeldOut:
    """The measurements of a run; empty ones if summary.json does not exist or is damaged."""
    try:
        return held_out_in(parse_json((folder / "summary.json").read_text()))
    except (OSError, ValueError):
        return HeldOut()


def held_out_in(summary: Any) -> HeldOut:
    """The measurements in the content of a summary.json, whatever it contains.

    >>> held_out_in({"before": {"accuracy": 0.5, "num_problems": 200, "problems": "lab"}})
    HeldOut(before={'accuracy': 0.5}, after={}, num_problems=200)
    """
    entries = [summary.get(name) if isinstance(summary, dict) else None for name in ("before", "after")]
    before, after = [_rates(entry) for entry in entries]
    counts: list[Any] = [entry.get("num_problems") for entry in entries if isinstance(entry, dict)]
    known = [count for count in counts if is_number(count) and count > 0]
    return HeldOut(before, after, known[-1] if known else None)


def _rates(entry: Any) -> dict[str, float]:
    values = entry if isinstance(entry, dict) else {}
    names = [name for name in ("accuracy", "format") if is_number(values.get(name)) and 0 <= values[name] <= 1]
    return {name: float(values[name]) for name in names}
