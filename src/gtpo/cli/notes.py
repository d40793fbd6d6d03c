"""What the commands that read runs have in common: notes on stderr, sparklines."""

import itertools
import sys
from collections.abc import Sequence

from gtpo.runs.run import Run
from gtpo.text import printable

_BARS = "▁▂▃▄▅▆▇█"


def write_notes(run: Run) -> None:
    """Say on stderr what of a run could not be used."""
    for note in run.notes:
        sys.stderr.write(f"note: {printable(run.name)}: {printable(note)}\n")


def write_skipped(reason: str) -> None:
    """Say on stderr why something that was named is left out."""
    sys.stderr.write(f"note: left out: {printable(reason)}\n")


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line of text, from its lowest to its highest value; each bar is the mean of its part.

    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7])
    '▁▂▃▄▅▆▇█'
    """
    if not values:
        return ""
    width = min(width, len(values))
    edges = [round(part * len(values) / width) for part in range(width + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)
