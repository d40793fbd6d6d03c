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
from gtpo.rewards.grading import worker
from gtpo.rewards.grading.grader import has_too_many_failures
from gtpo.rewards.grading.pool import Reply, WorkerPool

Scores = list[float | None]
Function = Callable[..., Any]

MAX_FAILURE_FRACTION = 0.1
_CHECK_CALLS = 128

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
    of the data set as lists of one entry; all of them must fit into JSON. A bounded function that calls another one
    runs it in its own worker, within its own limits.
    """

    def decorate(function: Function) -> Function:
        name = getattr(function, "__name__", repr(function))
        is_top_level = name.isidentifier() and getattr(function, "__qualname__", None) == name
        if inspect.iscoroutinefunction(function) or not is_top_level:
            raise ConfigError(
                f"bounded() takes a plain function at the top level of a module, got {name}. Move it there."
            )
        if function.__module__ == "__main__":
            raise ConfigError(
                f"{name} is defined in the script or notebook itself, from which a worker process cannot import it. "
                "Move it into a module, such as a file my_rewards.py in the same folder, and import it from there."
            )
        worker.bounded_functions[f"{function.__module__}:{name}"] = function
        calls = _BoundedCalls(function, name, seconds, num_workers, gigabytes)

        @functools.wraps(function)
        def score(completions: Sequence[Any], **columns: Any) -> Scores:
            return function(completions, **columns) if worker.is_worker else calls.score(completions, columns)

        return score

    return decorate


class _BoundedCalls:
    """The workers of one function, and how many of its last calls failed."""

    def __init__(self, function: Function, name: str, seconds: float, num_workers: int, gigabytes: float) -> None:
        self.name = name
        self.new_pool = functools.partial(
            WorkerPool, f"{function.__module__}:{name}", num_workers=num_workers, timeout=seconds, gigabytes=gigabytes
        )
        self.pool: WorkerPool | None = None
        self.process = 0
        self.lock = threading.Lock()
        self.recent: deque[str] = deque(maxlen=1024)

    def score(self, completions: Sequence[Any], columns: dict[str, Any]) -> Scores:
        calls, pool = self._calls(completions, columns), self._pool()
        scores: Scores = []
        kinds: list[str] = []
        for start in range(0, len(calls), _CHECK_CALLS):
            replies = pool.call(calls[start : start + _CHECK_CALLS])
            scores += [self._score(row, reply) for row, reply in enumerate(replies, start)]
            kinds += [reply.failure or "scored" for reply in replies]
            self._check(kinds[start:])
        num_timeouts, num_crashes = kinds.count("timeout"), kinds.count("crash")
        log_metric: Any = columns.get("log_metric")
        if log_metric is not None:
            log_metric("rewards/timeouts", float(num_timeouts))
            log_metric("rewards/crashes", float(num_crashes))
        if num_failed := num_timeouts + num_crashes:
            counts = f"{num_timeouts} timeouts, {num_crashes} crashes"
            logger.warning("%s failed for %d of %d completions (%s).", self.name, num_failed, len(kinds), counts)
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
        if reply.error is not None:
            remedy = "Fix it and start again; a run with a checkpoint can be resumed."
            raise DataError(f"{self.name} raised {reply.error}. {remedy}")
        if not isinstance(reply.value, list) or len(reply.value) != 1:
            remedy = "It is called for one completion at a time: return a list with one score."
            raise DataError(f"{self.name} returned {reply.value!r:.80} for completion {row}. {remedy}")
        return reply.value[0]

    def _check(self, kinds: list[str]) -> None:
        """Raise GradingError if too many of the last calls failed, and some of these."""
        with self.lock:
            self.recent.extend(kinds)
            num_recent = len(self.recent)
            is_broken = set(kinds) != {"scored"} and has_too_many_failures(self.recent, MAX_FAILURE_FRACTION)
            if is_broken:
                self.recent.clear()
        if is_broken:
            raise GradingError(
                f"{self.name} timed out or crashed for more than {MAX_FAILURE_FRACTION:.0%} of the last "
                f"{num_recent} completions. Fix it, or raise the limits of @bounded(seconds=…, gigabytes=…)."
            )

    def _pool(self) -> WorkerPool:
        """The pool of this process. A forked child starts its own."""
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
