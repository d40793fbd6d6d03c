"""What a run measured on held-out problems: in the summary.json of its folder, and in rows while it trained."""

import dataclasses
import math
from pathlib import Path
from typing import Any

from gtpo.files import is_number, parse_json
from gtpo.logged import Row


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Accuracy and format before and after training; empty if they were not measured (yet).

    While a run trains, `after` holds the last measurement, and `step` is its step.
    """

    before: dict[str, float] = dataclasses.field(default_factory=dict[str, float])
    after: dict[str, float] = dataclasses.field(default_factory=dict[str, float])
    num_problems: float | None = None
    step: float | None = None

    def at(self, row: Row) -> "HeldOut":
        """This with the measurement in a logged row, if it has one.

        >>> HeldOut({"accuracy": 0.5}).at({"step": 20, "held_out/pass@1": 0.25, "held_out/format": 1.0})
        HeldOut(before={'accuracy': 0.5}, after={'accuracy': 0.25, 'format': 1.0}, num_problems=None, step=20)
        """
        after = _rates({"accuracy": row.get("held_out/pass@1"), "format": row.get("held_out/format")})
        step = row.get("step")
        return dataclasses.replace(self, after=after, step=step if is_number(step) else 0.0) if after else self

    def worse(self) -> list[str]:
        """The rates that are clearly lower after training than before.

        A measurement while the run trains must be further below: one of many is low by chance.

        >>> HeldOut({"accuracy": 0.3, "format": 0.95}, {"accuracy": 0.6, "format": 0.8}, num_problems=200).worse()
        ['format']
        """
        num_errors, names = 2 if self.step is None else 3, []
        for name in [name for name in self.before if name in self.after]:
            before, after = self.before[name], self.after[name]
            error = math.sqrt((before * (1 - before) + after * (1 - after)) / (self.num_problems or 100))
            if before - after > max(0.02, num_errors * error):
                names.append(name)
        return names


def read_held_out(folder: Path) -> HeldOut:
    """The measurements of a run; empty ones if summary.json does not exist or is damaged."""
    try:
        return held_out_in(parse_json((folder / "summary.json").read_text()))
    except (OSError, ValueError):
        return HeldOut()


def held_out_in(summary: Any) -> HeldOut:
    """The measurements in the content of a summary.json, whatever it contains.

    >>> held_out_in({"before": {"accuracy": 0.5, "num_problems": 200, "problems": "lab"}})
    HeldOut(before={'accuracy': 0.5}, after={}, num_problems=200, step=None)
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
