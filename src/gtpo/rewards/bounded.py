"""Bounded calls of a user's reward or grader: a completion on which it hangs or dies costs one row, not the run."""

import atexit
import functools
import inspect
import json
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from gtpo.errors import ConfigError, DataError, GradingError
from gtpo.rewards.grading.grader import has_too_many_failures
from gtpo.rewards.grading.pool import Reply, WorkerPool
from gtpo.rewards.grading.worker import IN_WORKER

Scores = list[float | None]
Function = Callable[..., Any]

MAX_FAILURE_FRACTION = 0.1

logger = logging.getLogger(__name__)
_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def bounded(seconds: float = 10.0, *, num_workers: int = 2, gigabytes: float = 4.0) -> Callable[[Function], Function]:
    """Decorate a reward or grader: it is called in worker processes, for one completion at a time.

    ```python
    @bounded(seconds=10)
    def runs_tests(completions, tests, **columns):
        return [float(passes(completion, tests)) for completion, tests in zip(completions, tests)]
    ```

    A completion for which it takes more than `seconds`, takes more than `gigabytes` of memory, or ends its process
    gets None, with a warning that counts them. An exception stops the run, as without the decorator. If more than a
    tenth of the last completions failed, and at least 32, GradingError is raised. The function must be at the top
    level of a module, because workers import it, and gets `prompts`, `completions`, `completion_ids` and the columns
    of the data set as lists of one entry; all of them must fit into JSON.
    """

    def decorate(function: Function) -> Function:
        name = getattr(function, "__name__", repr(function))
        if inspect.iscoroutinefunction(function) or "<" in getattr(function, "__qualname__", "<"):
            raise ConfigError(
                f"bounded() takes a plain function at the top level of a module, got {name}. Move it there."
            )
        calls = _BoundedCalls(function, name, seconds, num_workers, gigabytes)

        @functools.wraps(function)
        def score(completions: Sequence[Any], **columns: Any) -> Scores:
            return calls.score(completions, columns)

        setattr(score, IN_WORKER, function)
        return score

    return decorate


class _BoundedCalls:
    """The workers of one function, and how many of its last calls failed."""

    def __init__(self, function: Function, name: str, seconds: float, num_workers: int, gigabytes: float) -> None:
        self.name = name
        self.module = function.__module__
        self.new_pool = functools.partial(
            WorkerPool, f"{self.module}:{name}", num_workers=num_workers, timeout=seconds, gigabytes=gigabytes
        )
        self.pool: WorkerPool | None = None
        self.process = 0
        self.lock = threading.Lock()
        self.recent: deque[str] = deque(maxlen=1024)

    def score(self, completions: Sequence[Any], columns: dict[str, Any]) -> Scores:
        log_metric: Any = columns.get("log_metric")
        replies = self._pool().call(self._calls(completions, columns))
        errors = [reply.error for reply in replies if reply.error is not None]
        if errors:
            remedy = "Fix it and start again; a run with a checkpoint can be resumed."
            raise DataError(f"{self.name} raised {errors[0]}. {remedy}")
        scores = [self._score(row, reply) for row, reply in enumerate(replies)]
        kinds = [reply.failure or "scored" for reply in replies]
        if log_metric is not None:
            log_metric("rewards/timeouts", float(kinds.count("timeout")))
            log_metric("rewards/crashes", float(kinds.count("crash")))
        self._check(kinds)
        return scores

    def _calls(self, completions: Sequence[Any], columns: dict[str, Any]) -> list[dict[str, list[Any]]]:
        """The arguments of one call for each completion: of each list with one entry per completion."""
        size = len(completions)
        lists = {name: value for name, value in columns.items() if isinstance(value, list) and len(value) == size}
        calls = [
            {"completions": [completion], **{name: [value[row]] for name, value in lists.items()}}
            for row, completion in enumerate(completions)
        ]
        try:
            json.dumps(calls)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{self.name} is called in a worker process, and a column does not fit into JSON: {error}. "
                "Convert the column, or remove it from the data."
            ) from error
        return calls

    def _score(self, row: int, reply: Reply) -> float | None:
        if reply.failure is not None:
            return None
        if not isinstance(reply.value, list) or len(reply.value) != 1:
            remedy = "It is called for one completion at a time: return a list with one score."
            raise DataError(f"{self.name} returned {reply.value!r:.80} for completion {row}. {remedy}")
        return reply.value[0]

    def _check(self, kinds: list[str]) -> None:
        """Report failures. Raise GradingError if too many of the last calls failed."""
        num_failed = len(kinds) - kinds.count("scored")
        with self.lock:
            self.recent.extend(kinds)
            is_broken = num_failed > 0 and has_too_many_failures(self.recent, MAX_FAILURE_FRACTION)
            num_recent = len(self.recent)
        if num_failed:
            counts = f"{kinds.count('timeout')} timeouts, {kinds.count('crash')} crashes"
            logger.warning("%s failed for %d of %d completions (%s).", self.name, num_failed, len(kinds), counts)
        if is_broken:
            self.recent.clear()
            raise GradingError(
                f"{self.name} timed out or crashed for more than {MAX_FAILURE_FRACTION:.0%} of the last "
                f"{num_recent} completions. Fix it, or raise the limits of @bounded(seconds=…, gigabytes=…)."
            )

    def _pool(self) -> WorkerPool:
        """The pool of this process. A forked child starts its own."""
        if self.module == "__main__":
            raise ConfigError(
                f"{self.name} is defined in the script itself, which a worker process would run again. Move it into a "
                "module, and import it from there."
            )
        with self.lock:
            if self.pool is None or self.process != os.getpid():
                self.pool, self.process = self.new_pool(), os.getpid()
                _pools.add(self.pool)
            return self.pool


@atexit.register
def _close_pools() -> None:
    for pool in list(_pools):
        pool.close()


os.register_at_fork(after_in_child=_pools.clear)
