"""Guard: an instrument that fails is turned off with one warning, and training continues."""

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


class Guard:
    """Runs the actions of one instrument until one of them raises.

    >>> guard = Guard("Recording")
    >>> guard.run(len, "abc")
    3
    """

    def __init__(self, instrument: str) -> None:
        self.instrument = instrument
        self.error: Exception | None = None

    def run(self, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What `action` returns; None if it fails or if an action has failed before."""
        if self.error is not None:
            return None
        try:
            return action(*args, **kwargs)
        except Exception as error:
            self.fail(error)
            return None

    def fail(self, error: Exception) -> None:
        """Turn the instrument off and log why. The traceback is dropped: it would keep tensors alive."""
        self.error = error.with_traceback(None)
        self.error.__cause__ = self.error.__context__ = None
        reason = f"{type(error).__name__}: {error}"
        logger.warning("%s is off for the rest of this run: %s. Training continues.", self.instrument, reason)
