"""Verdicts on answers: worker processes behind a cache. Failures are counted, and too many raise an error."""

import atexit
import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence

from gtpo.errors import DataError, GradingError, require
from gtpo.rewards.grading.pool import GradingPool, Pair, Verdict

MAX_ANSWER_CHARS = 1000
"""Longer answers are wrong without being graded, unless the gold answer is at least as long."""

_CACHED_PAIRS = 2**15
_WINDOW = 1024
_MIN_FAILURES = 32
_CHECK_PAIRS = 128

logger = logging.getLogger(__name__)


class Grader:
    """Grades answers in a pool of workers, caches verdicts, and raises an error when grading breaks down.

    Timeouts and crashes count as wrong answers, and `num_timeouts` and `num_crashes` count them. `grade` raises
    GradingError if at least 32 of the last 1,024 distinct pairs failed, and more than `max_failure_fraction` of them
    (of 256, if there were fewer): rewards from a broken grader are noise. The check runs every 128 pairs, before the
    batch is complete. A failed pair is not cached but graded again.
    """

    def __init__(self, *, num_workers: int = 2, timeout: float = 5.0, max_failure_fraction: float = 0.1) -> None:
        require(0 <= max_failure_fraction <= 1, "max_failure_fraction", max_failure_fraction, "between 0 and 1")
        self.pool = GradingPool(num_workers=num_workers, timeout=timeout)
        self.max_failure_fraction = max_failure_fraction
        self.num_graded = self.num_timeouts = self.num_crashes = 0
        self._recent: deque[Verdict] = deque(maxlen=_WINDOW)
        self._cache: OrderedDict[Pair, Verdict] = OrderedDict()
        self._lock = threading.Lock()

    def grade(self, answers: Sequence[str], golds: Sequence[str]) -> list[Verdict]:
        """One verdict per answer: right, wrong, timeout or crash."""
        pairs = _checked_pairs(answers, golds)
        known: dict[Pair, Verdict] = {pair: "wrong" for pair in pairs if _is_too_long(pair)}
        with self._lock:
            known |= {pair: self._cache[pair] for pair in pairs if pair in self._cache}
        new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        with self._lock:
            self._recent.extend(known.values())
        for start in range(0, len(new), _CHECK_PAIRS):
            batch = new[start : start + _CHECK_PAIRS]
            graded = dict(zip(batch, self.pool.grade(batch), strict=True))
            known |= graded
            with self._lock:
                self._remember(graded)
                self._check(graded)
        verdicts: list[Verdict] = [known[pair] for pair in pairs]
        with self._lock:
            self._count(pairs, verdicts)
        return verdicts

    def _remember(self, graded: dict[Pair, Verdict]) -> None:
        self._cache.update((pair, verdict) for pair, verdict in graded.items() if verdict in ("right", "wrong"))
        while len(self._cache) > _CACHED_PAIRS:
            self._cache.popitem(last=False)

    def _check(self, graded: dict[Pair, Verdict]) -> None:
        self._recent.extend(graded.values())
        example = next((pair for pair, verdict in graded.items() if verdict in ("timeout", "crash")), None)
        num_timeouts, num_crashes = self._recent.count("timeout"), self._recent.count("crash")
        num_failures, num_recent = num_timeouts + num_crashes, len(self._recent)
        allowed = self.max_failure_fraction * max(num_recent, _WINDOW // 4)
        if example is None or num_failures < _MIN_FAILURES or num_failures <= allowed:
            return
        self._recent.clear()
        raise GradingError(
            f"{num_failures} of the last {num_recent} distinct answers could not be graded ({num_timeouts} took more "
            f"than {self.pool.timeout} s, {num_crashes} crashed): more than max_failure_fraction="
            f"{self.max_failure_fraction}. Their rewards would be noise. Look at the answers (such as "
            f"{example[0][:80]!r}); if they are valid, raise timeout with configure_grading()."
        )

    def _count(self, pairs: list[Pair], verdicts: list[Verdict]) -> None:
        failed = [verdict in ("timeout", "crash") for verdict in verdicts]
        self.num_graded += len(verdicts)
        self.num_timeouts += verdicts.count("timeout")
        self.num_crashes += verdicts.count("crash")
        if not any(failed):
            return
        example = pairs[failed.index(True)]
        logger.warning(
            "%d of %d answers could not be graded (%d timeouts, %d crashes) and count as wrong: %.80r for %.80r.",
            *(sum(failed), len(failed), verdicts.count("timeout"), verdicts.count("crash"), *example),
        )


def configure_grading(*, num_workers: int = 2, timeout: float = 5.0, max_failure_fraction: float = 0.1) -> None:
    """Configure grading in this process: workers, seconds per answer, and the tolerated fraction of failures."""
    global _grader
    grader = Grader(num_workers=num_workers, timeout=timeout, max_failure_fraction=max_failure_fraction)
    with _grader_lock:
        if _grader is not None:
            _grader.pool.close()
        _grader = grader


def default_grader() -> Grader:
    """The grader of this process, created on first use."""
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
                raise DataError(f"Each {name} must be text, got {text!r}. Convert the column with str().")
    return list(zip(answers, golds, strict=True))


def _forget_grader() -> None:
    """In a forked child: the workers belong to the parent, so start new ones when needed."""
    global _grader, _grader_lock
    _grader, _grader_lock = None, threading.Lock()


def _close_grader() -> None:
    if _grader is not None:
        _grader.pool.close()


_grader: Grader | None = None
_grader_lock = threading.Lock()
os.register_at_fork(after_in_child=_forget_grader)
atexit.register(_close_grader)
