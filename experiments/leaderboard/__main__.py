"""Draws the leaderboard from its committed data: `python -m experiments.leaderboard`.

docs/leaderboard.md              what each place shows, and one table per place
docs/figures/leaderboard.svg     pass@8 and pass@1 of every method against its baseline in every place

The committed runs must be those of the protocol. With --data, for a page of your own, a note says where runs differ.
"""

import argparse
import sys
from pathlib import Path

import matplotlib as mpl

from experiments.leaderboard.figure import draw, drawn_arms
from experiments.leaderboard.page import FIGURE, page
from experiments.leaderboard.places import departures, read_places
from experiments.present.lab_figures import STYLE
from gtpo.errors import DataError

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).with_name("data")
PAGE = ROOT / "docs/leaderboard.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.leaderboard", description="Draw the leaderboard.")
    parser.add_argument("--data", type=Path, default=DATA, help="default: %(default)s")
    parser.add_argument("--page", type=Path, default=PAGE, help="default: %(default)s")
    options = parser.parse_args(arguments)
    places = read_places(options.data)
    notes = departures(places)
    if notes and (options.data.resolve() == DATA or options.page.resolve() == PAGE):
        remedy = "Repeat some of these runs, or pass a copy of the data as --data and another --page."
        raise DataError(f"{' '.join(notes)} {remedy}")
    drawn = [place for place in places if drawn_arms(place)]
    if not drawn:
        remedy = "experiments/leaderboard/protocol.md has the commands."
        raise DataError(f"{options.data} has no two runs of the leaderboard to compare. {remedy}")
    figure = options.page.parent / FIGURE
    with mpl.rc_context(STYLE):
        draw(drawn, figure)
    options.page.write_text(page(places, notes))
    sys.stdout.write("".join(f"{line}\n" for line in [*(f"note: {note}" for note in notes), options.page, figure]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
