"""The program of a worker: a process that receives calls of one function and replies with what it returned.

It is started by path, with a socket as standard input, and sends R when it is ready. A request is a line: a JSON list
of calls, each a list of positional arguments or an object of keyword arguments. The reply to each call is a line: a
JSON object with `value` or `error`. Memory is bounded. A worker that hangs ends by an alarm, or with its parent. What
the function starts gets the environment of the parent.
"""

import contextlib
import importlib
import inspect
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from typing import Any

bounded_functions: dict[str, Callable[..., Any]] = {}
"""The functions under @bounded by `module:function`. In the module, another decorator may have replaced them."""

is_worker = False
"""Whether this process is a worker, in which bounded functions are called directly."""

_TRIALS: dict[str, tuple[list[Any], Any]] = {
    "gtpo.rewards.equivalence:equivalent": ([r"(x+1)^2", r"x^2+2x+1"], True),
    "gtpo.rewards.harness:math_verify_score": ([[r"\boxed{\frac{1}{2}}"], ["0.5"]], [1.0]),
}
"""Arguments and results of a call that imports math-verify before the time limits apply."""


def main(target: str, gigabytes: float, alarm_seconds: float) -> None:
    """Answer requests until the parent closes the connection. An error before the first is printed to stderr."""
    global is_worker
    is_worker = True
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    logging.disable()
    with _one_thread():
        function = _import(target)
    _bound_memory(gigabytes)
    connection = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, sys.stderr.fileno())
    connection.sendall(b"R")
    for line in connection.makefile("rb"):
        for call in json.loads(line):
            signal.setitimer(signal.ITIMER_REAL, alarm_seconds)
            reply = _reply(function, call)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.sendall(reply)


def _import(target: str) -> Callable[..., Any]:
    module_name, _, name = target.partition(":")
    module = importlib.import_module(module_name)
    function = bounded_functions.get(target) or getattr(module, name)
    if target in _TRIALS:
        arguments, expected = _TRIALS[target]
        assert function(*arguments) == expected, "latex2sympy does not work"
    return function


@contextlib.contextmanager
def _one_thread() -> Generator[None]:
    """Libraries that are imported here compute in one thread."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    os.environ.pop("OMP_NUM_THREADS", None)
    if before is not None:
        os.environ["OMP_NUM_THREADS"] = before


def _reply(function: Any, call: Any) -> bytes:
    try:
        value = function(**call) if isinstance(call, dict) else function(*call)
        value = value.tolist() if hasattr(value, "tolist") else value
        return json.dumps({"value": value}, default=float).encode("ascii") + b"\n"
    except MemoryError:
        return b'{"failure": "crash"}\n'
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        code = getattr(inspect.unwrap(function), "__code__", None)
        own = [place for place in places if code is not None and place.filename == code.co_filename]
        place = (own or places)[-1]  # not a line of the library that the function calls
        text = f"{type(error).__name__}: {error!s:.500} ({os.path.basename(place.filename)}, line {place.lineno})"
        return json.dumps({"error": text}).encode("ascii") + b"\n"


def _bound_memory(gigabytes: float) -> None:
    """Allow this much memory in addition to what the imported modules take."""
    with contextlib.suppress(ValueError, OSError):
        with open("/proc/self/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        limit = taken + int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _end_with(parent: int) -> None:
    """Kill this process and those that it started when the parent has ended, whatever the function is doing."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    target, gigabytes, alarm_seconds, path = sys.argv[1:]
    sys.path[:] = json.loads(path)
    from gtpo.rewards.grading import worker  # the module that gtpo.rewards.bounded imports

    worker.main(target, float(gigabytes), float(alarm_seconds))
