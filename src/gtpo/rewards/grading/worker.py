"""The grading worker: a process of its own that says, byte by byte, whether pairs of answers are equivalent.

Started by path with a socket as standard input. A request is a length (4 bytes) and a JSON list of [answer, gold];
the reply is one byte a pair: 1 equivalent, 0 not (or nested too deeply to be read), ! the grading failed. The first
byte of all is R (ready) or E with the error. The alarm ends a worker that hangs after its parent has died;
memory is bounded.
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
from pathlib import Path
from types import ModuleType

_MEMORY_BYTES = 4 * 2**30


def serve(connection: socket.socket, equivalent: Callable[[str, str], bool], alarm_seconds: float) -> None:
    """Answer requests until the other side hangs up."""
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


def _stand_in_for_packages() -> None:
    """Make gtpo.rewards.* importable without running gtpo/__init__.py, which loads torch."""
    rewards = Path(__file__).resolve().parents[1]
    for name, folder in (("gtpo", rewards.parent), ("gtpo.rewards", rewards)):
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def main() -> None:
    """Entry point of the process."""
    connection = socket.socket(fileno=os.dup(0))
    _bound_memory()
    _stand_in_for_packages()
    logging.disable()
    try:
        from gtpo.rewards.equivalence.equivalent import equivalent

        assert equivalent(r"(x+1)^2", r"x^2+2x+1"), "the parser does not work"
    except Exception:
        connection.sendall(b"E" + traceback.format_exc().encode(errors="replace"))
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(connection, equivalent, float(sys.argv[1]))


if __name__ == "__main__":
    main()
