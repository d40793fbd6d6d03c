"""Progress on stderr, with an estimate of the time left."""

import sys
from typing import Any


class ProgressBar:
    """One bar on stderr, with the time left, for whatever is being done at the moment."""

    def __init__(self) -> None:
        self._what: str | None = None
        self._bar: Any = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, what: str, done: int, total: int) -> None:
        from tqdm import tqdm

        if what != self._what or done < self._bar.n:
            self.__exit__()
            seldom = 0.5 if sys.stderr.isatty() else 10.0
            self._bar = tqdm(desc=what, total=total, initial=done, file=sys.stderr, mininterval=seldom, unit="sample")
            self._what = what
        self._bar.update(done - self._bar.n)
