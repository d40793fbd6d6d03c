"""What the commands write to the terminal: tables on stdout, notes and progress on stderr."""

import itertools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gtpo.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gtpo.runs.run import Run

LEVEL_COLORS = ("green", "yellow", "red")
"""The colours of a healthy, a warned and a collapsing run."""

_BARS = "▁▂▃▄▅▆▇█"


def show(*contents: "RenderableType", width: int) -> None:
    """Print with rich on stdout. A file or a pipe has no width of its own and gets `width`."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=width)
    for content in contents:
        console.print(content)


def note(text: str) -> None:
    """Print a note on stderr."""
    sys.stderr.write(f"note: {printable(text)}\n")


def note_run(run: "Run") -> None:
    """Print what could not be used of a run's files."""
    for text in run.notes:
        note(f"{run.name}: {text}")


def note_skipped(reason: str) -> None:
    """Print why a path was left out."""
    note(f"left out: {reason}")


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line of text, from its lowest to its highest value. Each bar is a mean over its part.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7])
    '▁▂▃▄▅▆▇█'
    """
    if not values:
        return ""
    width = min(width, len(values))
    edges = [round(part * len(values) / width) for part in range(width + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)


class ProgressBar:
    """A progress bar on stderr with the time left. It shows one task at a time.

    tqdm rather than rich, because it also prints lines into a log file now and then.
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __call__(self, task: str, done: int, total: int) -> None:
        """Show that `done` of `total` is done. The bar closes when all is done."""
        from tqdm import tqdm

        if self._bar is None:
            interval = 0.5 if sys.stderr.isatty() else 10.0
            self._bar = tqdm(desc=task, total=total, initial=done, file=sys.stderr, mininterval=interval)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
