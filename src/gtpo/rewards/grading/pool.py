"""A pool of worker processes: a worker that does not answer in time is killed and replaced.

Workers are started, not forked, and import math-verify but not torch. They are light, and safe to use with CUDA, DDP,
threads and servers. Each calling thread talks to a worker directly, so a single answer needs no extra thread. This
process never parses or evaluates what a model wrote.
"""

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from gtpo.errors import GradingError, require, require_package

Pair = tuple[str, str]
Verdict = Literal["right", "wrong", "timeout", "crash"]

_WORKER = Path(__file__).with_name("worker.py")
_VERDICTS: dict[int, Verdict] = {ord("1"): "right", ord("0"): "wrong", ord("!"): "crash"}
_START_SECONDS = 120.0
_ALARM_GRACE_SECONDS = 10.0
_CHUNK_PAIRS = 64


class GradingPool:
    """At most `num_workers` processes that grade pairs (answer, gold), each pair for at most `timeout` seconds.

    Workers start when they are first needed. Any number of threads may call `grade` at once.
    """

    def __init__(self, *, num_workers: int = 2, timeout: float = 5.0) -> None:
        require(num_workers >= 1, "num_workers", num_workers, "at least 1")
        require(timeout > 0, "timeout", timeout, "a positive number of seconds")
        require_package("math_verify")
        self.num_workers = num_workers
        self.timeout = timeout
        self.is_closed = False
        self._slots: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._workers = [_Worker(timeout) for _ in range(num_workers)]
        for worker in reversed(self._workers):
            self._slots.put(worker)

    def grade(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """One verdict per pair, in order."""
        verdicts: list[Verdict] = ["crash"] * len(pairs)
        size = min(_CHUNK_PAIRS, max(1, -(-len(pairs) // self.num_workers)))
        starts: queue.SimpleQueue[int] = queue.SimpleQueue()
        for start in range(0, len(pairs), size):
            starts.put(start)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                while not failures:
                    start = starts.get_nowait()
                    verdicts[start : start + size] = self._grade_chunk(pairs[start : start + size])
            except queue.Empty:
                pass
            except BaseException as failure:
                failures.append(failure)

        num_helpers = min(self.num_workers, starts.qsize()) - 1
        helpers = [threading.Thread(target=work, daemon=True, name="gtpo-grading") for _ in range(num_helpers)]
        for helper in helpers:
            helper.start()
        work()
        for helper in helpers:
            if not failures:
                helper.join()
        if failures:
            raise failures[0]
        return verdicts

    def warm_up(self) -> None:
        """Start every worker now instead of with the first answers."""
        taken = [self._slots.get() for _ in self._workers]
        try:
            for worker in taken:
                worker.start()
        finally:
            for worker in taken:
                self._slots.put(worker)

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
        worker = self._slots.get()
        try:
            while len(verdicts) < len(pairs):
                if self.is_closed:
                    raise GradingError(
                        "The grading pool is closed. Call close() only after every grade() has returned."
                    )
                verdicts += worker.grade(pairs[len(verdicts) :])
        except BaseException:
            worker.stop()
            raise
        finally:
            self._slots.put(worker)
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
        message = json.dumps(pairs).encode("ascii")
        verdicts: list[Verdict] = []
        failure: Verdict
        try:
            connection.sendall(len(message).to_bytes(4, "big") + message)
            while len(verdicts) < len(pairs):
                received = connection.recv(len(pairs) - len(verdicts))
                if not received:
                    raise ConnectionError
                verdicts.extend(_VERDICTS[byte] for byte in received)
            return verdicts
        except TimeoutError:
            failure = "timeout"
        except OSError:
            failure = "crash"
        self.stop()
        verdicts.append(failure)
        return verdicts

    def start(self) -> socket.socket:
        """The connection to a live worker; a new worker if the last one has ended."""
        if self.connection is not None and self.process is not None and self.process.poll() is None:
            return self.connection
        self.stop()
        connection, workers_end = socket.socketpair()
        same_path = os.pathsep.join(map(os.path.abspath, sys.path))
        environment = os.environ | {"PYTHONPATH": same_path, "OMP_NUM_THREADS": "1"}
        with workers_end:
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER), str(self.timeout + _ALARM_GRACE_SECONDS)],
                stdin=workers_end.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        self.connection = connection
        connection.settimeout(_START_SECONDS)
        try:
            greeting = connection.recv(1)
            if greeting != b"R":
                raise GradingError(_start_error(connection, greeting))
        except TimeoutError as error:
            raise GradingError(
                f"A grading worker did not start within {_START_SECONDS:.0f} s. Check that there is free memory."
            ) from error
        connection.settimeout(self.timeout)
        return connection

    def stop(self) -> None:
        """Kill the process and collect its exit status, which leaves no zombie behind."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _start_error(connection: socket.socket, greeting: bytes) -> str:
    trace = b""
    with contextlib.suppress(OSError):
        while greeting == b"E" and (more := connection.recv(65536)):
            trace += more
    reason = trace.decode(errors="replace").strip() or "it ended without an error message"
    remedy = "Install what it needs with: pip install math-verify antlr4-python3-runtime==4.13.2"
    return f"A grading worker could not start ({sys.executable}): {reason}\n{remedy}"
