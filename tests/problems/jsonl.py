"""Writing the files that the tests of this folder load."""

import json
from pathlib import Path
from typing import Any


def write_jsonl(path: Path, *rows: dict[str, Any] | str) -> Path:
    """One row per line; a text is written as it is."""
    path.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n", encoding="utf-8"
    )
    return path
