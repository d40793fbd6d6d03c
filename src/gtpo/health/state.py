"""The state of a run as the checks see it: a few numbers of each logged series."""

import collections
import statistics

from gtpo.files import is_number
from gtpo.logged import MEANINGS, Row, logged_names, stands_for

WINDOW = 5
"""Rows that a value is averaged over, because one bad step does not mean trouble."""


class Track:
    """One series: where it started, where it is, and its best value."""

    def __init__(self) -> None:
        self.recent_values: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self.earlier: collections.deque[float] = collections.deque(maxlen=10 * WINDOW)
        self.first: float | None = None
        self.best: float | None = None

    def add(self, value: float) -> None:
        if len(self.recent_values) == WINDOW:
            self.earlier.append(self.recent_values[0])
        self.recent_values.append(value)
        mean = self.recent
        if mean is not None:
            self.first = mean if self.first is None else self.first
            self.best = mean if self.best is None else max(self.best, mean)

    @property
    def recent(self) -> float | None:
        """The mean of the last rows, once there are enough of them."""
        return statistics.fmean(self.recent_values) if len(self.recent_values) == WINDOW else None

    @property
    def usual(self) -> float | None:
        """The median of the rows before the last ones, once there are enough of them too."""
        return statistics.median(self.earlier) if len(self.earlier) >= WINDOW else None

    @property
    def drop(self) -> float:
        """How far the series is below its best value."""
        return 0.0 if self.best is None or self.recent is None else self.best - self.recent


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
