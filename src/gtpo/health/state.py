"""The state of a run as the checks see it: a few numbers of each logged series."""

import collections
import math
import statistics

from gtpo.files import is_number
from gtpo.logged import MEANINGS, Row, logged_names, stands_for

WINDOW = 5
"""Rows that a value is averaged over, because one bad step does not mean trouble."""


class Track:
    """One series as means over `WINDOW` rows: the first, the best and the most recent one.

    All are NaN until there are enough rows. Every comparison with NaN is false, so no check finds anything before.
    """

    def __init__(self) -> None:
        self.first = self.best = self.recent = math.nan
        self._last: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self._earlier: collections.deque[float] = collections.deque(maxlen=10 * WINDOW)

    def add(self, value: float) -> None:
        if len(self._last) == WINDOW:
            self._earlier.append(self._last[0])
        self._last.append(value)
        if len(self._last) == WINDOW:
            self.recent = statistics.fmean(self._last)
            self.first = self.recent if math.isnan(self.first) else self.first
            self.best = self.recent if math.isnan(self.best) else max(self.best, self.recent)

    @property
    def usual(self) -> float:
        """The median of the rows before the last ones."""
        return statistics.median(self._earlier) if len(self._earlier) >= WINDOW else math.nan


class State:
    """The last row of a run, and a track of every series in the rows so far: `state["accuracy"].best`."""

    def __init__(self, entropy_threshold: float | None = None) -> None:
        self.entropy_threshold = entropy_threshold
        self.row: Row = {}
        self._tracks: dict[str, Track] = {meaning: Track() for meaning in MEANINGS}
        self._sources: dict[str, str] = {}  # the logged name that a meaning was last read from
        self._not_fractions: set[str] = set()

    def __getitem__(self, meaning: str) -> Track:
        return self._tracks[meaning]

    def add(self, row: Row) -> None:
        self.row = row
        self._drop_stand_ins(row)
        for meaning, track in self._tracks.items():
            for name in logged_names([row], meaning)[:1]:
                if name in MEANINGS[meaning] or name not in self._not_fractions:
                    track.add(float(row[name]))
                    self._sources[meaning] = name

    def _drop_stand_ins(self, row: Row) -> None:
        """Forget the track of a reward that stood in for a rate and has now left the range from 0 to 1."""
        outside = {name for name, value in row.items() if is_number(value) and not 0 <= value <= 1}
        for meaning, name in self._sources.items():
            if name in outside and stands_for(name, meaning):
                self._tracks[meaning] = Track()
        self._not_fractions |= outside
