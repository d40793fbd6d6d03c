"""The state of a run as the checks see it: every logged series, with means over a few rows of it."""

import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gtpo.files import is_number
from gtpo.health.held_out import HeldOut
from gtpo.logged import MEANINGS, VOCAB_SIZE, Row, reward_function, stands_for

WINDOW = 5
"""Rows that a value is averaged over once a run has twice as many, because one bad step does not mean trouble."""
FEWEST_ROWS, FEWEST_STEPS = 4, 10
"""What a run must have logged before it can be judged."""
_WINDOWS = {2: 4.0, WINDOW: 3.5, 20: 3.0, 80: 3.0}
"""Rows whose mean is compared with the best one, and how many standard errors below it are a drop.

Two rows count only until there are two times `WINDOW`: over a long run, some pair of rows is always far below another.
"""


class Drop(NamedTuple):
    """A mean that is clearly below the best one. Half a standard error more makes it sure enough to stop a run."""

    best: float
    now: float
    is_sure: bool


class Track:
    """One logged series. `first` and `recent` are means over up to `WINDOW` rows, over fewer if there are few."""

    def __init__(self, values: Sequence[float] = ()) -> None:
        self.values = list(values)
        self.low, self.high = min(values, default=math.inf), max(values, default=-math.inf)
        self._sums = [0.0, *itertools.accumulate(values)]
        self._squared_changes = 0.0
        self._best = dict.fromkeys(_WINDOWS, -math.inf)
        if self.values:
            self._measure()

    def _measure(self) -> None:
        """What `add` computes value by value, for all values at once."""
        import numpy as np

        self._squared_changes = float(np.cumsum([0.0, *np.diff(self.values) ** 2])[-1])
        sums = np.array(self._sums)
        for window in _WINDOWS:
            means = (sums[window:-window] - sums[: -2 * window]) / window
            self._best[window] = float(means.max(initial=-math.inf))

    def add(self, value: float) -> None:
        if self.values:
            self._squared_changes += (value - self.values[-1]) ** 2
        self.values.append(value)
        self.low, self.high = min(self.low, value), max(self.high, value)
        self._sums.append(self._sums[-1] + value)
        for window in _WINDOWS:  # the best of the windows that do not overlap with the last one
            if len(self) >= 2 * window:
                self._best[window] = max(self._best[window], self.mean(len(self) - 2 * window, window))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def window(self) -> int:
        return max(1, min(WINDOW, len(self) // 2))

    @property
    def first(self) -> float:
        return self.mean(0, self.window)

    @property
    def recent(self) -> float:
        return self.last(self.window)

    @property
    def best(self) -> float:
        """The best mean over `WINDOW` rows before the last ones; the first mean as long as there is no other."""
        return max(self.first, self._best[WINDOW])

    @property
    def usual(self) -> float:
        """The median of the positive values before the last ones; NaN if there are fewer than `WINDOW`."""
        earlier = [value for value in self.values[-11 * WINDOW : -WINDOW] if value > 0]
        return statistics.median(earlier) if len(earlier) >= WINDOW else math.nan

    @property
    def noise(self) -> float:
        """The standard deviation of a row, from the changes between rows, in which a slow trend cancels."""
        return math.sqrt(self._squared_changes / 2 / (len(self) - 1)) if len(self) > 1 else math.inf

    @property
    def error(self) -> float:
        """The standard error of the difference between `first` and `recent`."""
        return self.noise * math.sqrt(2 / self.window)

    def last(self, rows: int) -> float:
        """The mean of the last rows."""
        return self.mean(len(self) - rows, rows)

    def drops(self) -> Iterator[Drop]:
        """The last mean compared with the best one, for each number of rows over which it is clearly lower."""
        for window, fewest_errors in _WINDOWS.items():
            if len(self) < 2 * window or (window < WINDOW and len(self) >= 2 * WINDOW):
                continue
            best, now, error = self._best[window], self.last(window), self.noise * math.sqrt(2 / window)
            luckiest = 1 + 1.5 * math.sqrt(math.log(len(self) / window))  # the best of many means is high by chance
            errors = max(fewest_errors, luckiest)
            if best - now > errors * error + 1e-9 * abs(best):
                yield Drop(best, now, is_sure=best - now > (errors + 0.5) * error)

    def drop_after_first(self) -> Drop | None:
        """The last mean compared with the first value alone, by the noise of the values after it."""
        if len(self) < FEWEST_ROWS + 2:
            return None
        best, now = self.values[0], self.recent
        squared_changes = max(0.0, self._squared_changes - (self.values[1] - best) ** 2)
        error = math.sqrt(squared_changes / 2 / (len(self) - 2)) * math.sqrt(1 + 1 / self.window)
        is_drop = best - now > 4 * error + 1e-9 * abs(best)
        return Drop(best, now, is_sure=best - now > 6 * error) if is_drop else None

    def lost(self, best: float, now: float) -> float:
        """The part of a level that is gone: from `best` to 0, or to the lowest value if that is negative."""
        scale = max(abs(best), best - min(0.0, self.low))
        return (best - now) / scale if scale > 0 else 0.0

    def mean(self, start: int, rows: int) -> float:
        """The mean of `rows` rows from `start` on."""
        return (self._sums[start + rows] - self._sums[start]) / rows


class State:
    """The last row of a run, and a track of every series in the rows so far: `state["accuracy"].best`."""

    def __init__(self, entropy_threshold: float | None = None, held_out: HeldOut | None = None) -> None:
        self.entropy_threshold = entropy_threshold
        self.held_out = held_out or HeldOut()
        self.row: Row = {}
        self.steps: list[float] = []
        self.vocab_size: float | None = None
        self.is_gtpo = False
        self.components: dict[str, Track] = {}
        """The reward functions by name, if there are several of them."""
        self._rewards: dict[str, Track] = {}
        self._tracks: dict[str, Track] = {meaning: Track() for meaning in MEANINGS}
        self._sources: dict[str, str] = {}  # the logged name that a meaning was last read from
        self._not_fractions: set[str] = set()

    def __getitem__(self, meaning: str) -> Track:
        return self._tracks[meaning]

    def extend(self, rows: Iterable[Row]) -> None:
        """Add rows. Many rows at once take a fraction of the time that they take one by one."""
        added: dict[str, list[float]] = {meaning: [] for meaning in MEANINGS}
        rewards: dict[str, list[float]] = {}
        for row in rows:
            self._read(row, added, rewards)
        for meaning, values in added.items():
            self._tracks[meaning] = _extended(self._tracks[meaning], values)
        for function, values in rewards.items():
            self._rewards[function] = _extended(self._rewards.get(function, Track()), values)
        self.components = self._rewards if len(self._rewards) > 1 else {}

    def _read(self, row: Row, added: dict[str, list[float]], rewards: dict[str, list[float]]) -> None:
        """Add the values of a row to those that are to be added to the tracks."""
        self.row = row
        step: Any = row.get("step")
        self.steps.append(float(step) if is_number(step) else len(self.steps) + 1.0)
        if is_number(row.get(VOCAB_SIZE)) and row[VOCAB_SIZE] > 1:
            self.vocab_size = float(row[VOCAB_SIZE])
        self.held_out = self.held_out.at(row)
        plan = _plan(tuple(row))
        self.is_gtpo |= plan.is_gtpo
        for meaning in self._left(row, plan) if plan.stand_ins else ():
            self._tracks[meaning], added[meaning] = Track(), []
        sources = {meaning: _first_number(row, names) for meaning, names in plan.own.items()}
        sources |= {meaning: self._stand_in(row, meaning, names) for meaning, names in plan.stand_ins.items()}
        for meaning, name in sources.items():
            if name is not None:
                added[meaning].append(float(row[name]))
                self._sources[meaning] = name
        for name, function in plan.rewards.items():
            if is_number(row[name]):
                rewards.setdefault(function, []).append(float(row[name]))

    @property
    def num_rows(self) -> int:
        return len(self.steps)

    @property
    def first_steps(self) -> float:
        """The number of steps that the first row covers: as many as the next row, because a log may begin late."""
        return min(self.steps[0], self.steps[1] - self.steps[0]) if self.num_rows > 1 else self.steps[0]

    def rows_of(self, steps: int) -> int | None:
        """How many of the last rows cover this many steps; None if all of them do not."""
        for rows in range(1, self.num_rows + 1):
            before = self.steps[-1 - rows] if rows < self.num_rows else self.steps[0] - self.first_steps
            if self.steps[-1] - before >= steps:
                return rows
        return None

    def stands_in(self, component: str) -> bool:
        """Whether the mean of a reward function is judged as the accuracy or the format already."""
        return f"rewards/{component}/mean" in self._sources.values()

    def is_below_start(self) -> bool:
        """Whether the reward is below its first rows by more than one standard error."""
        reward = self["reward"]
        return len(reward) > 1 and reward.first - reward.recent > reward.error

    def _stand_in(self, row: Row, meaning: str, names: tuple[str, ...]) -> str | None:
        """The rate itself if the row has it, otherwise the reward that stands in for it."""
        own = _first_number(row, tuple(name for name in MEANINGS[meaning] if name in row))
        if own is not None:
            return own
        name = next((name for name in names if is_number(row[name]) and 0 <= row[name] <= 1), None)
        return None if name in self._not_fractions else name

    def _left(self, row: Row, plan: "_Plan") -> list[str]:
        """The meanings whose reward stood in for a rate and has now left the range from 0 to 1."""
        names = {name for names in plan.stand_ins.values() for name in names}
        outside = {name for name in names if is_number(row[name]) and not 0 <= row[name] <= 1}
        left = [meaning for meaning, name in self._sources.items() if name in outside and stands_for(name, meaning)]
        for meaning in left:
            del self._sources[meaning]
        self._not_fractions |= outside
        return left


class _Plan(NamedTuple):
    """What to read from a row with certain names. Rows of a run have few different sets of them."""

    own: dict[str, tuple[str, ...]]  # by meaning: its own names
    stand_ins: dict[str, tuple[str, ...]]  # by meaning: rewards that may stand in for it
    rewards: dict[str, str]  # logged names of reward functions
    is_gtpo: bool


@functools.lru_cache(maxsize=64)
def _plan(logged: tuple[str, ...]) -> _Plan:
    own = {meaning: tuple(name for name in names if name in logged) for meaning, names in MEANINGS.items()}
    stand_ins = {meaning: tuple(name for name in logged if stands_for(name, meaning)) for meaning in MEANINGS}
    functions = {name: function for name in logged if (function := reward_function(name)) is not None}
    return _Plan(
        {meaning: names for meaning, names in own.items() if names},
        {meaning: names for meaning, names in stand_ins.items() if names},
        functions,
        any(name.startswith("gtpo/") for name in logged),
    )


def _first_number(row: Row, names: tuple[str, ...]) -> str | None:
    """The first of these names that has a number in the row."""
    for name in names:
        if is_number(row[name]):
            return name
    return None


def _extended(track: Track, values: list[float]) -> Track:
    if not track.values:
        return Track(values)
    for value in values:
        track.add(value)
    return track
