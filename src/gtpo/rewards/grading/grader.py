"""Verdicts on answers: worker processes behind a cache. Too many failures raise an error."""

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Collection, Sequence

from gtpo.errors import DataError, GradingError, require
from gtpo.rewards.grading.pool import GradingPool, Pair, Verdict

MAX_ANSWER_CHARS = 1000  # longer answers are wrong without being graded, unless the gold answer is as long
MAX_QUESTION_CHARS = 20_000  # of a longer question, such as a prompt with examples, the end counts
_CACHED_PAIRS = 2**15
_WINDOW = 1024
_MIN_FAILURES = 32
_CHECK_PAIRS = 128

logger = logging.getLogger(__name__)


class Grader:
    """Grades answers in a pool of workers, caches verdicts, and raises an error when grading breaks down.

    Timeouts and crashes count as wrong answers and are logged. `grade` raises GradingError if at least 32 of the last
    1,024 distinct pairs failed, and more than `max_failure_fraction` of them (of 256, if there were fewer): rewards
    from a broken grader are noise. The check runs every 128 pairs, before the batch is complete. A failed pair is not
    cached but graded again.
    """

    def __init__(self, *, num_workers: int = 2, timeout: float = 5.0, max_failure_fraction: float = 0.1) -> None:
        require(0 <= max_failure_fraction <= 1, "max_failure_fraction", max_failure_fraction, "between 0 and 1")
        self.pool = GradingPool(num_workers=num_workers, timeout=timeout)
        self.max_failure_fraction = max_failure_fraction
        self._recent: deque[Verdict] = deque(maxlen=_WINDOW)
        self._cache: dict[Pair, Verdict] = {}
        self._lock = threading.Lock()

    def grade(
        self, answers: Sequence[str], golds: Sequence[str], questions: Sequence[str | None] | None = None
    ) -> list[Verdict]:
        """One verdict per answer: right, wrong, timeout or crash. `questions` holds None where one is unknown."""
        pairs = _checked_pairs(answers, golds, questions)
        known: dict[Pair, Verdict] = {}
        with self._lock:
            for pair in pairs:
                if len(pair[0]) > max(MAX_ANSWER_CHARS, len(pair[1])):
                    known[pair] = "wrong"
                elif pair in self._cache:
                    known[pair] = self._cache[pair]
            self._recent.extend(known.values())
        new = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        for start in range(0, len(new), _CHECK_PAIRS):
            batch = new[start : start + _CHECK_PAIRS]
            graded = dict(zip(batch, self.pool.grade(batch), strict=True))
            known |= graded
            with self._lock:
                self._remember(graded)
        verdicts: list[Verdict] = [known[pair] for pair in pairs]
        failed = [pair for pair in pairs if known[pair] in ("timeout", "crash")]
        if failed:
            logger.warning(
                "%d of %d answers could not be graded (%d timeouts, %d crashes) and count as wrong: %.80r for %.80r.",
                *(len(failed), len(pairs), verdicts.count("timeout"), verdicts.count("crash"), *failed[0][:2]),
            )
        return verdicts

    def _remember(self, graded: dict[Pair, Verdict]) -> None:
        """Cache the verdicts; raise GradingError if too many of the last ones are failures."""
        failed = [pair for pair, verdict in graded.items() if verdict in ("timeout", "crash")]
        self._cache.update((pair, verdict) for pair, verdict in graded.items() if verdict in ("right", "wrong"))
        while len(self._cache) > _CACHED_PAIRS:
            del self._cache[next(iter(self._cache))]
        self._recent.extend(graded.values())
        num_timeouts, num_crashes = self._recent.count("timeout"), self._recent.count("crash")
        num_failures, num_recent = num_timeouts + num_crashes, len(self._recent)
        if not failed or not has_too_many_failures(self._recent, self.max_failure_fraction):
            return
        self._recent.clear()
        raise GradingError(
            f"{num_failures} of the last {num_recent} distinct answers could not be graded ({num_timeouts} took more "
            f"than {self.pool.timeout} s, {num_crashes} crashed): more than max_failure_fraction="
            f"{self.max_failure_fraction}. Their rewards would be noise. Look at the answers (such as "
            f"{failed[0][0][:80]!r}); if they are valid, raise timeout with configure_grading()."
        )


def has_too_many_failures(recent: Collection[str], max_fraction: float) -> bool:
    """Whether at least 32 of the recent calls failed, and more than this fraction of them (of 256 if fewer)."""
    num_failures = sum(verdict in ("timeout", "crash") for verdict in recent)
    return num_failures >= _MIN_FAILURES and num_failures > max_fraction * max(len(recent), _WINDOW // 4)


def configure_grading(*, num_workers: int = 2, timeout: float = 5.0, max_failure_fraction: float = 0.1) -> None:
    """Configure grading in this process: workers, seconds per answer, and the tolerated fraction of failures."""
    global _grader
    grader = Grader(num_workers=num_workers, timeout=timeout, max_failure_fraction=max_failure_fraction)
    _close_grader()
    _grader = grader


def default_grader() -> Grader:
    """The grader of this process, created when it is first needed."""
    global _grader
    with _lock:
        _grader = _grader or Grader()
        return _grader


def _close_grader() -> None:
    if _grader is not None:
        _grader.pool.close()


def _forget_grader() -> None:
    """In a forked child: the workers belong to the parent, so start new ones when needed."""
    global _grader, _lock
    _grader, _lock = None, threading.Lock()


def _checked_pairs(answers: Sequence[str], golds: Sequence[str], questions: Sequence[str | None] | None) -> list[Pair]:
    if isinstance(answers, str) or isinstance(golds, str) or len(answers) != len(golds):
        raise DataError(f"answers and golds must be two lists of equal length, got {len(answers)} and {len(golds)}.")
    questions = [None] * len(answers) if questions is None else questions
    if isinstance(questions, str) or len(questions) != len(answers):
        raise DataError(
            f"questions must hold one question per answer, or None, got {len(questions)} for {len(answers)}."
        )
    for text in (*answers, *golds, *(question for question in questions if question is not None)):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DataError(
                f"Each answer, gold answer and question must be text, got {text!r}. Convert the column with str()."
            )
    return [
        (answer, gold, question[-MAX_QUESTION_CHARS:]) if question else (answer, gold)
        for answer, gold, question in zip(answers, golds, questions, strict=True)
    ]


_grader: Grader | None = None
_lock = threading.Lock()
os.register_at_fork(after_in_child=_forget_grader)
atexit.register(_close_grader)
