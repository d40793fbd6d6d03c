"""Verdicts on answers: the workers behind a cache, with every failure counted and too many of them an error."""

import atexit
import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

from gtpo.errors import DataError, GradingError, require
from gtpo.rewards.isolation import GradingPool, Pair, Verdict

MAX_ANSWER_CHARS = 1000
"""A longer answer is wrong, unread, unless the gold answer is longer still."""

_CACHED_PAIRS = 2**15
_WINDOW = 1024
_MIN_FAILURES = 32

logger = logging.getLogger(__name__)


class Grader:
    """Grades answers in a pool of workers, remembers equal pairs, and refuses to go on when grading breaks down.

    Timeouts and crashes are wrong answers, counted in `num_timeouts` and `num_crashes`. When they are more than
    `max_failure_fraction` of the last 1,024 verdicts, and at least 32, `grade` raises GradingError: zeros that come
    from a broken grader must not be trained on. A failed pair is not remembered: it is tried again.
    """

    def __init__(self, *, num_workers: int = 2, timeout: float = 5.0, max_failure_fraction: float = 0.1) -> None:
        require(0 <= max_failure_fraction <= 1, "max_failure_fraction", max_failure_fraction, "between 0 and 1")
        self.pool = GradingPool(num_workers=num_workers, timeout=timeout)
        self.max_failure_fraction = max_failure_fraction
        self.num_graded = self.num_timeouts = self.num_crashes = 0
        self._recent: deque[bool] = deque(maxlen=_WINDOW)
        self._cache: OrderedDict[Pair, Verdict] = OrderedDict()
        self._lock = threading.Lock()

    def grade(self, answers: Sequence[str], golds: Sequence[str]) -> list[Verdict]:
        """One verdict an answer: right, wrong, timeout or crash."""
        pairs = _checked_pairs(answers, golds)
        known: dict[Pair, Verdict] = {pair: "wrong" for pair in pairs if _is_too_long(pair)}
        with self._lock:
            known |= {pair: self._cache[pair] for pair in pairs if pair in self._cache}
        new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        known |= dict(zip(new, self.pool.grade(new), strict=True))
        verdicts: list[Verdict] = [known[pair] for pair in pairs]
        with self._lock:
            self._remember(known, new)
            self._count(pairs, verdicts)
        return verdicts

    def _remember(self, known: dict[Pair, Verdict], new: list[Pair]) -> None:
        for pair in new:
            if known[pair] in ("right", "wrong"):
                self._cache[pair] = known[pair]
        while len(self._cache) > _CACHED_PAIRS:
            self._cache.popitem(last=False)

    def _count(self, pairs: list[Pair], verdicts: list[Verdict]) -> None:
        failed = [verdict in ("timeout", "crash") for verdict in verdicts]
        self.num_graded += len(verdicts)
        self.num_timeouts += verdicts.count("timeout")
        self.num_crashes += verdicts.count("crash")
        self._recent.extend(failed)
        if not any(failed):
            return
        example = pairs[failed.index(True)]
        logger.warning(
            "%d of %d answers could not be graded (%d timeouts, %d crashes) and count as wrong: %.80r for %.80r.",
            *(sum(failed), len(failed), verdicts.count("timeout"), verdicts.count("crash"), *example),
        )
        num_failures, num_recent = sum(self._recent), len(self._recent)
        if num_failures >= _MIN_FAILURES and num_failures > self.max_failure_fraction * num_recent:
            self._recent.clear()
            raise GradingError(
                f"{num_failures} of the last {num_recent} answers could not be graded within {self.pool.timeout} s, "
                f"more than max_failure_fraction={self.max_failure_fraction}. Their zeros would be noise, not signal. "
                f"Look at the answers (such as {example[0][:80]!r}); if they are sound, raise timeout with "
                "configure_grading()."
            )


def configure_grading(*, num_workers: int = 2, timeout: float = 5.0, max_failure_fraction: float = 0.1) -> None:
    """Set how this process grades: workers, seconds an answer may take, the share of failures that is too much."""
    global _grader
    grader = Grader(num_workers=num_workers, timeout=timeout, max_failure_fraction=max_failure_fraction)
    with _grader_lock:
        if _grader is not None:
            _grader.pool.close()
        _grader = grader


def default_grader() -> Grader:
    """The grader of this process, made when it is first needed."""
    global _grader
    with _grader_lock:
        if _grader is None:
            _grader = Grader()
        return _grader


def _is_too_long(pair: Pair) -> bool:
    return len(pair[0]) > max(MAX_ANSWER_CHARS, len(pair[1]))


def _checked_pairs(answers: Sequence[str], golds: Sequence[str]) -> list[Pair]:
    if isinstance(answers, str) or isinstance(golds, str) or len(answers) != len(golds):
        raise DataError(f"answers and golds must be two lists of equal length, got {len(answers)} and {len(golds)}.")
    for name, texts in (("answer", answers), ("gold answer", golds)):
        for text in texts:
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DataError(f"An {name} must be text, got {text!r}: convert the column with str() first.")
    return list(zip(answers, golds, strict=True))


def _forget_grader() -> None:
    """In a forked child: the workers are the parent's, so make new ones when needed."""
    global _grader, _grader_lock
    _grader, _grader_lock = None, threading.Lock()


def _close_grader() -> None:
    if _grader is not None:
        _grader.pool.close()


_grader: Grader | None = None
_grader_lock = threading.Lock()
os.register_at_fork(after_in_child=_forget_grader)
atexit.register(_close_grader)
