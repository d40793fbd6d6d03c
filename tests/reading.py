"""Reads the records of a run for tests."""

from pathlib import Path
from typing import Any

from gtpo.files import JsonLines
from gtpo.records import GROUPS_FILE, METRICS_FILE, GroupRecord, group_from_row


def read_metrics(run: Path | str) -> list[dict[str, Any]]:
    return list(JsonLines(Path(run) / METRICS_FILE).rows())


def read_groups(run: Path | str) -> list[GroupRecord]:
    return [group_from_row(row) for row in JsonLines(Path(run) / GROUPS_FILE).rows()]
