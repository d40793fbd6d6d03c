"""Links from the curves of a report to the groups of completions that a run recorded."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from gtpo.files import is_integer
from gtpo.records import GROUPS_FILE, step_of
from gtpo.runs.reading import LONGEST_RECORD
from gtpo.runs.run import Run

MOST_RUNS = 12
"""The curves of more runs have no marks: they could not be told apart."""
MOST_MARKS = 60
"""Recorded steps of all runs that a curve has marks for, evenly spread."""


@dataclasses.dataclass(frozen=True)
class GroupLinks:
    """The recorded steps of the run `name`, and the address of its token view."""

    name: str
    page: str
    steps: list[int]

    def address(self, step: int) -> str:
        return f"{self.page}#step-{step}"


def page_address(run: Run, report: Path) -> str | None:
    """The address of the run's token view, relative to the folder of the report; None if there is no such page."""
    if not run.token_page.is_file():
        return None
    return quote(os.path.relpath(run.token_page.resolve(), report.resolve()))


def group_links(runs: Sequence[Run], report: Path) -> dict[Path, GroupLinks]:
    """The links of the runs that have recorded groups and a token view, by their folders."""
    links: dict[Path, GroupLinks] = {}
    for run in runs if len(runs) <= MOST_RUNS else ():
        if (page := page_address(run, report)) and (steps := _recorded_steps(run.path / GROUPS_FILE)):
            every = -(-len(steps) * len(runs) // MOST_MARKS)
            links[run.path] = GroupLinks(run.name, page, steps[::every])
    return links


def _recorded_steps(path: Path) -> list[int]:
    steps: set[int] = set()
    try:
        with path.open("rb") as file:
            while line := file.readline(LONGEST_RECORD):
                if (step := step_of(line)) is not None and is_integer(step):
                    steps.add(step)
    except OSError:
        return []
    return sorted(steps)
