"""A pool of worker processes: a worker that does not answer in time is killed and replaced.

Workers are started, not forked, and import math-verify but not torch. They are light, and safe to use with CUDA, DDP,
threads and servers. This process never parses or evaluates what a model wrote.
"""

import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Literal, cast

from gtpo.errors import GradingError, require, require_package

Pair = tuple[str, str] | tuple[str, str, str]
"""An answer, the gold answer and, if it is known, the question."""

Verdict = Literal["right", "wrong", "timeout", "crash"]

_WORKER = Path(__file__).with_name("worker.py")
_VERDICTS: dict[int, Verdict] = {ord("1"): "right", ord("0"): "wrong", ord("!"): "crash"}
_START_SECONDS = 120.0
_ALARM_GRACE_SECONDS = 10.0
_CHUNK_PAIRS = 64
_MAX_STARTS = 3


class GradingPool:
    """At most `num_workers` processes that compare answers with gold answers, each for at most `timeout` seconds.

    Workers start when they are first needed. Any number of threads may call `grade` at once.
    """

    def __init__(self, *, num_workers: int = 2, timeout: float = 5.0) -> None:
        require(num_workers >= 1, "num_workers", num_workers, "at least 1")
        require(timeout > 0, "timeout", timeout, "a positive number of seconds")
        require_package("math_verify")
        self.num_workers = num_workers
        self.timeout = timeout
        self.is_closed = False
        self._workers = [_Worker(timeout) for _ in range(num_workers)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def grade(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """One verdict per pair, in order."""
        size = min(_CHUNK_PAIRS, max(1, -(-len(pairs) // self.num_workers)))
        chunks = [pairs[start : start + size] for start in range(0, len(pairs), size)]
        graded: list[list[Verdict] | BaseException] = [[] for _ in chunks]

        def work(number: int) -> None:
            try:
                graded[number] = self._grade_chunk(chunks[number])
            except BaseException as failure:
                graded[number] = failure

        # Daemon threads: Python does not wait for them when it exits.
        helpers = [threading.Thread(target=work, args=[number], daemon=True) for number in range(1, len(chunks))]
        for helper in helpers:
            helper.start()
        verdicts = self._grade_chunk(chunks[0]) if chunks else []
        for number, helper in enumerate(helpers, start=1):
            helper.join()
            result = graded[number]
            if isinstance(result, BaseException):
                raise result
            verdicts += result
        return verdicts

    def process_ids(self) -> list[int]:
        """The ids of the workers that are running."""
        return [worker.process.pid for worker in self._workers if worker.process and worker.process.poll() is None]

    def close(self) -> None:
        """End the workers. `grade` raises GradingError in threads that are still grading."""
        self.is_closed = True
        for worker in self._workers:
            worker.stop()

    def _grade_chunk(self, pairs: Sequence[Pair]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        worker = self._idle.get()
        try:
            while len(verdicts) < len(pairs):
                if self.is_closed:
                    raise GradingError("The grading pool is closed. Call close() after the last grade().")
                verdicts += worker.grade(pairs[len(verdicts) :])
        except BaseException:
            worker.stop()
            raise
        finally:
            self._idle.put(worker)
        return verdicts


class _Worker:
    """A worker process and the socket to it. Used by one thread at a time."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: socket.socket | None = None

    def grade(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Verdicts for the pairs, up to and including the first pair that hangs or kills the process."""
        connection = self.start()
        verdicts: list[Verdict] = []
        try:
            connection.sendall(json.dumps(pairs).encode("ascii") + b"\n")
            while len(verdicts) < len(pairs):
                received = connection.recv(len(pairs) - len(verdicts))
                if not received:
                    raise ConnectionError
                verdicts.extend(_VERDICTS[byte] for byte in received)
        except OSError as error:
            self.stop()
            verdicts.append("timeout" if isinstance(error, TimeoutError) else "crash")
        return verdicts

    def start(self) -> socket.socket:
        """The connection to a live worker; a new worker if the last one has ended.

        A worker that is killed while it starts is started again, at most twice.
        """
        if self.connection is not None and self.process is not None and self.process.poll() is None:
            return self.connection
        for _ in range(_MAX_STARTS - 1):
            if connection := self._start_once(is_last=False):
                return connection
        return cast("socket.socket", self._start_once(is_last=True))

    def _start_once(self, *, is_last: bool) -> socket.socket | None:
        """The connection to a new worker. If the worker is killed: None, or GradingError for the last attempt."""
        self.stop()
        connection, workers_end = socket.socketpair()
        self.connection = connection
        same_path = os.pathsep.join(map(os.path.abspath, sys.path))
        with workers_end:
            self.process = process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER), str(self.timeout + _ALARM_GRACE_SECONDS)],
                stdin=workers_end.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": same_path, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        connection.settimeout(_START_SECONDS)
        with cast("IO[bytes]", process.stderr) as errors:
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
            printed = errors.read().decode(errors="replace").strip()
        signal_number = -process.wait()
        if signal_number > 0 and not is_last:
            return None
        if signal_number > 0:
            raise GradingError(
                f"A grading worker was killed by signal {signal_number} while it started, {_MAX_STARTS} times in a "
                "row. The machine is probably out of memory: free some, or use fewer workers with "
                "configure_grading(num_workers=1)."
            )
        raise GradingError(
            f"A grading worker did not start ({sys.executable}): {printed or 'it printed no error'}\n"
            "Install what it needs with: pip install math-verify antlr4-python3-runtime==4.13.2"
        )

    def stop(self) -> None:
        """Kill the process and collect its exit status, which leaves no zombie behind."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
