"""The health of a run: healthy, warning or collapsing, why in one sentence, and what to try.

`Health.add` takes the rows of metrics one by one and keeps a few numbers of each series, so that a callback can ask at
every logging step; `health_of` is the same for rows that are all there. The checks are in `gtpo.health.checks`.
"""

import collections
import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from gtpo.files import is_number
from gtpo.health.checks import CHECKS, Finding, Level
from gtpo.logged import MEANINGS, Row, logged_names, stands_for

WINDOW = 5
"""Rows that a value is averaged over: one bad step is no news."""
NAMES = ("healthy", "warning", "collapsing")


class Track:
    """One series as the checks see it: where it began, where it is, the best it was."""

    def __init__(self) -> None:
        self.recent_values: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self.earlier: collections.deque[float] = collections.deque(maxlen=10 * WINDOW)
        self.first: float | None = None
        self.best: float | None = None

    def add(self, value: float) -> None:
        if len(self.recent_values) == WINDOW:
            self.earlier.append(self.recent_values[0])
        self.recent_values.append(value)
        if len(self.recent_values) == WINDOW:
            mean = statistics.fmean(self.recent_values)
            self.first = mean if self.first is None else self.first
            self.best = mean if self.best is None else max(self.best, mean)

    @property
    def recent(self) -> float | None:
        """The mean of the last rows, once there are enough of them."""
        return statistics.fmean(self.recent_values) if len(self.recent_values) == WINDOW else None

    @property
    def usual(self) -> float | None:
        """The median before the last rows, once there are as many again."""
        return statistics.median(self.earlier) if len(self.earlier) >= WINDOW else None

    @property
    def drop(self) -> float:
        """How far it is below its best."""
        return 0.0 if self.best is None or self.recent is None else self.best - self.recent


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What can be said at one step; the gravest finding first."""

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
        return self.findings[0].reason if self.findings else "nothing is out of the ordinary"

    @property
    def remedy(self) -> str:
        return self.findings[0].remedy if self.findings else ""


class Health:
    """Watches a run: give it each row of metrics in turn."""

    def __init__(self, *, entropy_threshold: float | None = None) -> None:
        self.entropy_threshold = entropy_threshold
        self.tracks: dict[str, Track] = {meaning: Track() for meaning in MEANINGS}
        self.row: Row = {}
        self._sources: dict[str, str] = {}  # the logged name that a meaning was last read from
        self._not_fractions: set[str] = set()

    def add(self, row: Row) -> Verdict:
        self.row = row
        self._drop_stand_ins(row)
        for meaning, track in self.tracks.items():
            for name in logged_names([row], meaning)[:1]:
                if name in MEANINGS[meaning] or name not in self._not_fractions:
                    track.add(float(row[name]))
                    self._sources[meaning] = name
        found = [finding for check in CHECKS for finding in check(self)]
        return Verdict(row.get("step", 0), tuple(sorted(found, key=lambda finding: -finding.level)))

    def _drop_stand_ins(self, row: Row) -> None:
        """A reward that stood in for an accuracy and leaves 0 to 1 never was one: forget what it said."""
        outside = {name for name, value in row.items() if is_number(value) and not 0 <= value <= 1}
        for meaning, name in self._sources.items():
            if name in outside and stands_for(name, meaning):
                self.tracks[meaning] = Track()
        self._not_fractions |= outside

    def __getitem__(self, meaning: str) -> Track:
        return self.tracks[meaning]


def health_of(rows: Iterable[Row], **options: Any) -> list[Verdict]:
    """A verdict after each row.

    >>> broken = [{"step": step, "format": 0.9 if step < 8 else 0.2} for step in range(16)]
    >>> verdicts = health_of(broken)
    >>> [verdict.level for verdict in verdicts]
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2]
    >>> verdicts[-1].reason
    'format fell from 90 % at its best to 20 %'
    """
    health = Health(**options)
    return [health.add(row) for row in rows]


def first_alarms(verdicts: Sequence[Verdict]) -> dict[tuple[str, Level], Verdict]:
    """For each kind of finding and each level, the first verdict that had it."""
    alarms: dict[tuple[str, Level], Verdict] = {}
    for verdict in verdicts:
        for finding in verdict.findings:
            alarms.setdefault((finding.kind, finding.level), verdict)
    return alarms
