"""Progress on stderr, with an estimate of the time left."""

import sys
from typing import Any


class ProgressBar:
    """One bar on stderr, with the time left, for whatever is being done at the moment."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` is done; the bar ends with the last of them."""
        from tqdm import tqdm

        if self._bar is None:
            seldom = 0.5 if sys.stderr.isatty() else 10.0
            self._bar = tqdm(desc=what, total=total, initial=done, file=sys.stderr, mininterval=seldom)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
