"""Makes folders with the files that a training run leaves."""

import json
from pathlib import Path
from typing import Any


def rows(count: int = 40, **columns: Any) -> list[dict[str, Any]]:
    """Rows of metrics; a column is a number or a function of the step."""
    return [
        {"step": step, **{name: value(step) if callable(value) else value for name, value in columns.items()}}
        for step in range(1, count + 1)
    ]


def make_run(
    folder: Path, metrics: list[dict[str, Any]], *, after: dict[str, float] | None = None, **about: Any
) -> Path:
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics))
    if about:
        (folder / "run.json").write_text(json.dumps(about))
    if after is not None:
        (folder / "summary.json").write_text(json.dumps({"before": {}, "after": after, "seconds": 1.0}))
    return folder
