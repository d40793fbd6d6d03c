"""What the commands write to the terminal: tables on stdout, notes and progress on stderr."""

import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.files import write_atomic, writing
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

    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else width)
    for content in contents:
        console.print(content)


def note(text: str) -> None:
    """Print a note on stderr."""
    sys.stderr.write(f"note: {printable(text)}\n")


class PrintableFormatter(logging.Formatter):
    """Formats log records without control characters: they may quote a file that somebody else made."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


def write_page(out: Path, page: str) -> None:
    """Write a page and print where. A link in the folder of a run is replaced, not followed."""
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists() and not out.is_file():  # a pipe, or /dev/stdout
            out.write_text(page, encoding="utf-8")
        else:
            write_atomic(out, page)
    sys.stdout.write(f"{out}\n")


def load_noted(paths: Sequence[Path], *, skip: bool = True) -> "list[Run]":
    """Load runs, and print notes on what could not be used. Folders that are not runs are left out if `skip`."""
    from gtpo.runs.run import load_runs

    runs = load_runs(paths, on_skip=(lambda reason: note(f"left out: {reason}")) if skip else None)
    for run in runs:
        for text in run.notes:
            note(f"{run.name}: {text}")
    return runs


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line of text, from its lowest to its highest value. Each bar is a mean over its part.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7])
    '▁▂▃▄▅▆▇█'
    """
    import numpy as np

    if not values:
        return ""
    means = [part.mean() for part in np.array_split(values, min(width, len(values)))]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)


class ProgressBar(contextlib.ExitStack):
    """A progress bar on stderr with the time left. It shows one task at a time.

    tqdm rather than rich, because it also prints lines into a log file now and then.
    """

    _bar: Any = None

    def __call__(self, task: str, done: int, total: int) -> None:
        """Show that `done` of `total` is done. The bar closes when all is done."""
        from tqdm import tqdm

        if self._bar is None:
            interval = 0.5 if sys.stderr.isatty() else 10.0
            bar = tqdm(desc=task, total=total, initial=done, file=sys.stderr, mininterval=interval)
            self._bar = self.enter_context(bar)
        self._bar.update(done - self._bar.n)
        if done >= total:
            self.close()
            self._bar = None
