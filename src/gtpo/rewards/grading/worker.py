"""The program of a grading worker: a process that receives pairs of answers and replies whether they are equivalent.

It is started by path, with a socket as standard input. Its first byte is R (ready), or E followed by the error. A
request is a length (4 bytes) and a JSON list of [answer, gold]. The reply is one byte per pair: 1 equivalent, 0 not
equivalent (or nested too deeply), ! the grading failed. Memory is bounded, and an alarm ends a worker that hangs after
its parent has died.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable

_MEMORY_BYTES = 4 * 2**30


def serve(connection: socket.socket, equivalent: Callable[[str, str], bool], alarm_seconds: float) -> None:
    """Answer requests until the parent closes the connection."""
    connection.sendall(b"R")
    stream = connection.makefile("rb")
    while header := stream.read(4):
        for answer, gold in json.loads(stream.read(int.from_bytes(header, "big"))):
            signal.setitimer(signal.ITIMER_REAL, alarm_seconds)
            try:
                verdict = b"1" if equivalent(answer, gold) else b"0"
            except RecursionError:
                verdict = b"0"
            except Exception:
                verdict = b"!"
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.sendall(verdict)


def _bound_memory() -> None:
    import resource

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def main() -> None:
    """Run the worker on the socket that is standard input."""
    connection = socket.socket(fileno=os.dup(0))
    _bound_memory()
    logging.disable()
    try:
        from gtpo.rewards.equivalence import equivalent

        assert equivalent(r"(x+1)^2", r"x^2+2x+1"), "latex2sympy does not work"
    except Exception:
        connection.sendall(b"E" + traceback.format_exc().encode(errors="replace"))
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(connection, equivalent, float(sys.argv[1]))


if __name__ == "__main__":
    main()
