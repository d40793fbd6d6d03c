"""What the commands write to the terminal: tables on stdout, notes and progress on stderr."""

import contextlib
import logging
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.files import write_atomic, writing
from gtpo.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gtpo.runs.run import Run

LEVEL_COLORS = ("green", "yellow", "red")
"""The colours of a healthy, a warned and a collapsing run."""

FEWEST_ITEMS = 20
"""A task with fewer items has no progress line."""
PLAIN_SECONDS = 10.0
"""Between two progress lines in a log file."""

_BARS = "▁▂▃▄▅▆▇█"


def show(*contents: "RenderableType", width: int) -> None:
    """Print with rich on stdout. Output that is not a terminal is `width` columns wide."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else width)
    for content in contents:
        console.print(content)


def note(text: str) -> None:
    """Print a note on stderr."""
    sys.stderr.write(f"note: {printable(text)}\n")


class PrintableFormatter(logging.Formatter):
    """Formats log records without control characters: they may quote a file that somebody else wrote."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(printable, super().format(record).split("\n")))


def hide_loading_bars() -> None:
    """Turn off the progress bars of transformers. On a terminal, downloads from the hub keep theirs."""
    import transformers
    from huggingface_hub.utils import are_progress_bars_disabled, enable_progress_bars

    keeps_downloads = sys.stderr.isatty() and not are_progress_bars_disabled()
    transformers.utils.logging.disable_progress_bar()  # turns those of huggingface_hub off as well
    if keeps_downloads:
        enable_progress_bars()


def write_page(out: Path, page: str) -> None:
    """Write a page and print where. A link in the folder of a run is replaced, not followed."""
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        if Path("/dev") in out.parents or (out.exists() and not out.is_file()):  # a pipe, or /dev/stdout
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


class WarningHandler(logging.StreamHandler[Any]):
    """Prints log records to stderr, each on a line of its own, also while a progress line is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        with above_progress():
            super().emit(record)


@contextlib.contextmanager
def above_progress() -> Generator[None]:
    """Clear the progress line while the block prints, and show it again below."""
    if "tqdm" not in sys.modules:
        yield
        return
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        yield


class ProgressLine:
    """A line on stderr that is renewed. In a log file or a pipe, a new line every ten seconds, and one at the end."""

    def __init__(self, total: int, done: int, line_format: str, *, task: str = "", delay: float = 0.0) -> None:
        self._total, self._first, self._done, self._shown = total, done, done, done
        self._format, self._task, self._delay = line_format, task, delay
        self._start = self._printed = time.monotonic()
        self._postfix = ""
        self._bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=task or None,
                total=total,
                initial=done,
                file=sys.stderr,
                mininterval=0.1,
                bar_format=line_format,
                dynamic_ncols=True,
                delay=delay,
            )

    def update(self, done: int, postfix: str = "") -> None:
        """Show that `done` of the total is done."""
        num_new, self._done, self._postfix = done - self._done, done, postfix
        if self._bar is not None:
            self._bar.set_postfix_str(postfix, refresh=False)
            self._bar.update(num_new)
        elif time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._print()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._done > self._shown and time.monotonic() - self._start >= self._delay:
            self._print()

    def _print(self) -> None:
        from tqdm import tqdm

        self._printed, self._shown = time.monotonic(), self._done
        text = tqdm.format_meter(
            self._done,
            self._total,
            self._printed - self._start,
            prefix=self._task,
            initial=self._first,
            bar_format=self._format,
            postfix=self._postfix,
        )
        sys.stderr.write(f"{text.strip()}\n")


class ProgressBar(contextlib.ExitStack):
    """Progress of one task at a time, with the time left. Few items, or two seconds, show nothing."""

    _line: ProgressLine | None = None

    def __call__(self, task: str, done: int, total: int) -> None:
        """Show that `done` of `total` is done. The line closes when all is done."""
        if total < FEWEST_ITEMS:
            return
        if self._line is None:
            line_format = "{desc}: {n_fmt}/{total_fmt} {elapsed}<{remaining}"
            self._line = ProgressLine(total, done, line_format, task=task, delay=2.0)
            self.callback(self._line.close)
        self._line.update(done)
        if done >= total:
            self.close()
            self._line = None
