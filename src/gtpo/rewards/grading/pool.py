"""Pools of worker processes that call a function: a worker that does not answer in time is killed and replaced.

Workers are started, not forked, and import the module of their function, for answers math-verify but not torch. They
are safe to use with CUDA, DDP, threads and servers. This process never parses or evaluates what a model wrote.
"""

import contextlib
import dataclasses
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from gtpo.errors import GradingError, require, require_package

Pair = tuple[str, str] | tuple[str, str, str]
"""An answer, the gold answer and, if it is known, the question."""

Verdict = Literal["right", "wrong", "timeout", "crash"]

_WORKER = Path(__file__).with_name("worker.py")
_START_SECONDS = 120.0
_ALARM_GRACE_SECONDS = 10.0
_CHUNK_CALLS = 64
_MAX_STARTS = 3
_ERROR_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class Reply:
    """What came of one call: the value that the function returned, the error that it raised, or how it failed."""

    value: Any = None
    error: str | None = None
    """The exception of the function: its type, message and place."""
    failure: Literal["timeout", "crash"] | None = None


class WorkerPool:
    """At most `num_workers` processes that call `target`, a `module:function`, for at most `timeout` seconds a call.

    A worker may take `gigabytes` of memory more than it has once its module is imported. Workers start when they are
    first needed. Any number of threads may call `call` at once.
    """

    def __init__(self, target: str, *, num_workers: int, timeout: float, gigabytes: float = 4.0) -> None:
        require(num_workers >= 1, "num_workers", num_workers, "at least 1")
        require(timeout > 0, "timeout", timeout, "a positive number of seconds")
        require(gigabytes > 0, "gigabytes", gigabytes, "above 0")
        self.num_workers = num_workers
        self.timeout = timeout
        self.is_closed = False
        self._workers = [_Worker(target, timeout, gigabytes) for _ in range(num_workers)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def call(self, calls: Sequence[Any]) -> list[Reply]:
        """One reply per call, in order. A call is a list of positional arguments or a dict of keyword arguments."""
        size = min(_CHUNK_CALLS, max(1, -(-len(calls) // self.num_workers)))
        chunks = [calls[start : start + size] for start in range(0, len(calls), size)]
        results: list[list[Reply] | BaseException] = [[] for _ in chunks]

        def work(number: int) -> None:
            try:
                results[number] = self._call_chunk(chunks[number])
            except BaseException as failure:
                results[number] = failure

        # Daemon threads: Python does not wait for them when it exits.
        helpers = [threading.Thread(target=work, args=[number], daemon=True) for number in range(1, len(chunks))]
        for helper in helpers:
            helper.start()
        replies = self._call_chunk(chunks[0]) if chunks else []
        for number, helper in enumerate(helpers, start=1):
            helper.join()
            result = results[number]
            if isinstance(result, BaseException):
                raise result
            replies += result
        return replies

    def process_ids(self) -> list[int]:
        """The ids of the workers that are running."""
        return [worker.process.pid for worker in self._workers if worker.process and worker.process.poll() is None]

    def close(self) -> None:
        """End the workers. `call` raises GradingError in threads that are still waiting for replies."""
        self.is_closed = True
        for worker in self._workers:
            worker.stop()

    def _call_chunk(self, calls: Sequence[Any]) -> list[Reply]:
        replies: list[Reply] = []
        worker = self._idle.get()
        try:
            while len(replies) < len(calls):
                if self.is_closed:
                    raise GradingError("The grading pool is closed. Call close() after the last grade().")
                replies += worker.call(calls[len(replies) :])
        except BaseException:
            worker.stop()
            raise
        finally:
            self._idle.put(worker)
        return replies


class GradingPool(WorkerPool):
    """Workers that compare answers with gold answers."""

    def __init__(self, *, num_workers: int = 2, timeout: float = 5.0) -> None:
        require_package("math_verify")
        super().__init__("gtpo.rewards.equivalence:equivalent", num_workers=num_workers, timeout=timeout)

    def grade(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """One verdict per pair, in order."""
        return [_verdict(reply) for reply in self.call(pairs)]


def _verdict(reply: Reply) -> Verdict:
    if reply.failure is not None:
        return reply.failure
    if reply.error is not None:  # an answer that is nested too deeply is wrong
        return "wrong" if reply.error.startswith("RecursionError") else "crash"
    return "right" if reply.value else "wrong"


class _Worker:
    """A worker process and the socket to it. Used by one thread at a time."""

    def __init__(self, target: str, timeout: float, gigabytes: float) -> None:
        self.target = target
        self.timeout = timeout
        self.gigabytes = gigabytes
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: socket.socket | None = None

    def call(self, calls: Sequence[Any]) -> list[Reply]:
        """Replies to the calls, up to and including the first one that hangs or kills the process."""
        connection = self.start()
        replies: list[Reply] = []
        try:
            connection.sendall(json.dumps(calls).encode("ascii") + b"\n")
            with connection.makefile("rb") as lines:
                while len(replies) < len(calls):
                    line = lines.readline()
                    if not line.endswith(b"\n"):
                        raise ConnectionError
                    replies.append(Reply(**json.loads(line)))
        except OSError as error:
            self.stop()
            replies.append(Reply(failure="timeout" if isinstance(error, TimeoutError) else "crash"))
        return replies

    def start(self) -> socket.socket:
        """The connection to a live worker; a new worker if the last one has ended.

        A worker that is killed while it starts is started again, at most twice.
        """
        if self.connection is not None and self.process is not None and self.process.poll() is None:
            return self.connection
        signal_number = 0
        for _ in range(_MAX_STARTS):
            started = self._start_once()
            if isinstance(started, socket.socket):
                return started
            signal_number = started
        raise GradingError(
            f"A grading worker was killed by signal {signal_number} while it started, {_MAX_STARTS} times in a row. "
            "The machine is probably out of memory: free some, or use fewer workers with "
            "configure_grading(num_workers=1)."
        )

    def _start_once(self) -> socket.socket | int:
        """The connection to a new worker, or the signal that killed it."""
        self.stop()
        connection, workers_end = socket.socketpair()
        self.connection = connection
        alarm_seconds = self.timeout + _ALARM_GRACE_SECONDS
        same_path = json.dumps([os.path.abspath(folder) for folder in sys.path])
        with tempfile.TemporaryFile() as errors:  # a pipe would be full if a module prints a lot
            with workers_end:
                self.process = process = subprocess.Popen(
                    [sys.executable, "-P", _WORKER, self.target, str(self.gigabytes), str(alarm_seconds), same_path],
                    stdin=workers_end.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
            connection.settimeout(_START_SECONDS)
            try:
                greeting = connection.recv(1)
            except TimeoutError:
                process.kill()
                raise GradingError(
                    f"A grading worker did not start within {_START_SECONDS:.0f} s. The machine may be overloaded: "
                    "wait, or use fewer workers with configure_grading(num_workers=1)."
                ) from None
            except ConnectionError:
                greeting = b""
            if greeting == b"R":
                connection.settimeout(self.timeout)
                return connection
            signal_number = -process.wait()
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _ERROR_BYTES))
            printed = errors.read().decode(errors="replace").strip()
        if signal_number > 0:
            return signal_number
        remedy = "Check that its module can be imported without the script that calls it."
        if self.target.startswith("gtpo."):
            remedy = "Install what it needs with: pip install math-verify antlr4-python3-runtime==4.13.2"
        raise GradingError(
            f"A grading worker did not start ({sys.executable}): {printed or 'it printed no error'}\n{remedy}"
        )

    def stop(self) -> None:
        """Kill the process and those that it started, and collect its exit status, which leaves no zombie behind."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            self.process = None
