"""The program of a grading worker: a process that receives pairs of answers and replies whether they are equivalent.

It is started by path, with a socket as standard input, and sends R when it is ready. A request is a line: a JSON list
of [answer, gold] or [answer, gold, question]. The reply is one byte per pair: 1 equivalent, 0 not equivalent
(or nested too deeply), ! the grading failed. Memory is bounded. An alarm ends a worker that hangs without a parent.
"""

import contextlib
import json
import logging
import os
import resource
import signal
import socket
import sys

_MEMORY_BYTES = 4 * 2**30


def main(alarm_seconds: float) -> None:
    """Answer requests until the parent closes the connection. An error before the first is printed to stderr."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    logging.disable()
    from gtpo.rewards.equivalence import equivalent

    assert equivalent(r"(x+1)^2", r"x^2+2x+1"), "latex2sympy does not work"
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    connection = socket.socket(fileno=os.dup(0))
    connection.sendall(b"R")
    for line in connection.makefile("rb"):
        for pair in json.loads(line):
            signal.setitimer(signal.ITIMER_REAL, alarm_seconds)
            try:
                verdict = b"1" if equivalent(*pair) else b"0"
            except RecursionError:
                verdict = b"0"
            except Exception:
                verdict = b"!"
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.sendall(verdict)


if __name__ == "__main__":
    main(float(sys.argv[1]))
