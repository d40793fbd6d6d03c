"""The program of a worker: a process that receives calls of one function and replies with what it returned.

It is started by path, with a socket as standard input, and sends R when it is ready. A request is a line: a JSON list
of calls, each a list of positional arguments or an object of keyword arguments. The reply to each call is a line: a
JSON object with `value` or `error`. Memory is bounded. A worker that hangs ends by an alarm, or with its parent.
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
from typing import Any

IN_WORKER = "gtpo_in_worker"
"""The attribute of a bounded function that holds the function itself, which does not send its calls to a worker."""


def main(target: str, gigabytes: float, alarm_seconds: float) -> None:
    """Answer requests until the parent closes the connection. An error before the first is printed to stderr."""
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    logging.disable()
    module, _, name = target.partition(":")
    function: Any = getattr(importlib.import_module(module), name)
    function = getattr(function, IN_WORKER, function)
    if name == "equivalent":
        assert function(r"(x+1)^2", r"x^2+2x+1"), "latex2sympy does not work"
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
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
