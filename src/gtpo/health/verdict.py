"""The health of a run: healthy, warning or collapsing, the reason in one sentence, and what to try."""

import dataclasses
from collections.abc import Iterable, Sequence

from gtpo.health.checks import CHECKS, Finding, Level
from gtpo.health.state import State
from gtpo.logged import Row

NAMES = ("healthy", "warning", "collapsing")
"""The verdicts, by level."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The findings at one step, the most severe first."""

    step: float
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        return self.findings[0].level if self.findings else 0

    @property
    def name(self) -> str:
        return NAMES[self.level]

    @property
    def reason(self) -> str:
        return self.findings[0].reason if self.findings else "no check found a problem"


class Health:
    """Watches a run: pass each row of metrics to `add` in turn, as a callback does at every logging step."""

    def __init__(self, *, entropy_threshold: float | None = None) -> None:
        self.state = State(entropy_threshold)

    def add(self, row: Row) -> Verdict:
        self.state.add(row)
        findings = [finding for check in CHECKS for finding in check(self.state)]
        return Verdict(row.get("step", 0), tuple(sorted(findings, key=lambda finding: -finding.level)))


def health_of(rows: Iterable[Row], *, entropy_threshold: float | None = None) -> list[Verdict]:
    """A verdict after each row of a finished run.

    >>> broken = [{"step": step, "format": 0.9 if step < 8 else 0.2} for step in range(16)]
    >>> verdicts = health_of(broken)
    >>> [verdict.level for verdict in verdicts]
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2]
    >>> verdicts[-1].reason
    'format fell from 90 % at its best to 20 %'
    """
    health = Health(entropy_threshold=entropy_threshold)
    return [health.add(row) for row in rows]


def first_alarms(verdicts: Sequence[Verdict]) -> dict[tuple[str, Level], Verdict]:
    """For each kind of finding and each level, the first verdict that has it."""
    alarms: dict[tuple[str, Level], Verdict] = {}
    for verdict in verdicts:
        for finding in verdict.findings:
            alarms.setdefault((finding.kind, finding.level), verdict)
    return alarms
