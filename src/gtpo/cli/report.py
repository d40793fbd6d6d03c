"""`gtpo report`: one page about one or many runs, figures for papers, and a summary in the terminal."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtpo.cli.console import LEVEL_COLORS, load_noted, show, sparkline, write_page
from gtpo.files import writing
from gtpo.text import printable

if TYPE_CHECKING:
    from gtpo.runs.run import Run

HELP = "write one page about one or many runs"
DESCRIPTION = "Write one self-contained HTML page about one or many runs, and print a summary."
EPILOG = """\
examples:
  gtpo report runs/my-run
  gtpo report runs/gtpo-seed* runs/grpo-seed* --out report.html
  gtpo report runs/gtpo-seed* --png figures --svg figures

Runs of the same method are drawn as one line. The method is that of run.json, or else the folder's name without its
seed.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", type=Path, help="a run's folder, metrics.jsonl, trainer_state.json or CSV")
    out_help = "the page (default: report.html in the run's folder, or here for several runs)"
    add("--out", type=Path, metavar="FILE", help=out_help)
    add("--png", type=Path, metavar="DIR", help="also write figures for papers as PNG")
    add("--svg", type=Path, metavar="DIR", help="also write figures for papers as SVG")


def run(args: argparse.Namespace) -> int:
    from gtpo.report.page import report_page
    from gtpo.runs.variants import name_variants

    runs = name_variants(load_noted(args.runs))
    _print(runs)
    out = args.out or ((runs[0].path if len(runs) == 1 else Path()) / "report.html")
    _hint(runs)
    write_page(out, report_page(runs, out.parent))
    if args.png or args.svg:
        _draw(runs, args.png, args.svg)
    return 0


def _hint(runs: "Sequence[Run]") -> None:
    """Print how to make the token views that curves lead to."""
    unseen = [run for run in runs if run.has_groups and not run.token_page.is_file()]
    if unseen:
        command = f"gtpo inspect {shlex.quote(str(unseen[0].path))}"
        others = f" (and for {len(unseen) - 1} more)" if unseen[1:] else ""
        hint = f"To link the curves to the recorded groups, run {command}{others}, then this command again."
        sys.stdout.write(printable(hint) + "\n")


def _draw(runs: "Sequence[Run]", png: Path | None, svg: Path | None) -> None:
    from gtpo.report.evaluations import evaluations_of
    from gtpo.report.figure import draw_evaluations, draw_training

    panels, _ = evaluations_of(runs)
    for folder, suffix in ((png, "png"), (svg, "svg")):
        if folder is None:
            continue
        training, evaluation = folder / f"training.{suffix}", folder / f"evaluation.{suffix}"
        with writing(folder, "Choose another folder with --png or --svg."):
            if draw_training(runs, [training]):
                sys.stdout.write(f"{training}\n")
            if draw_evaluations(panels, [evaluation]):
                sys.stdout.write(f"{evaluation}\n")


def _print(runs: "Sequence[Run]") -> None:
    from rich.table import Table
    from rich.text import Text

    from gtpo.health.verdict import UNKNOWN
    from gtpo.report.page import end_of_training, shown_ends

    ends = shown_ends(runs)

    table = Table("run", box=None, pad_edge=False)
    table.add_column("steps", justify="right")
    for meaning in ends:
        table.add_column(meaning, justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
    table.add_column("health", no_wrap=True)
    for run in runs:
        cells = [Text(printable(run.name)), Text(run.steps_text)]
        for meaning in ends:
            cells.append(Text(end_of_training([run], meaning)[0]))
            cells.append(Text(sparkline(run.series(meaning).values, 16), style="cyan"))
        verdict = run.verdict
        color = LEVEL_COLORS[verdict.level] if verdict.name != UNKNOWN else "default"
        table.add_row(*cells, Text(verdict.name, style=color))
    show(table, width=150)
