"""`gtpo report`: one page about one or many runs, figures for papers, and a summary in the terminal."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtpo.cli.console import show
from gtpo.cli.notes import sparkline, write_notes, write_skipped
from gtpo.files import writing
from gtpo.text import printable

_EPILOG = """\
examples:
  gtpo report runs/my-run
  gtpo report runs/gtpo-seed* runs/grpo-seed* --out report.html
  gtpo report runs/gtpo-seed* --png figures --svg figures

Runs with the same method in their run.json (else: the same folder name but for the seed) are drawn as one line.
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="one page about one or many runs",
        description="Write one self-contained HTML page about one or many runs, and print a summary.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", type=Path, help="a run's folder, metrics.jsonl, trainer_state.json or CSV")
    add(
        "--out",
        type=Path,
        default=None,
        metavar="FILE",
        help="the page (default: report.html in the folder of the run, or here for several)",
    )
    add("--png", type=Path, default=None, metavar="DIR", help="also write the paper's figures as PNG")
    add("--svg", type=Path, default=None, metavar="DIR", help="also write the paper's figures as SVG")
    return parser


def run(args: argparse.Namespace) -> int:
    from gtpo.report.page import evaluations_of, report_page
    from gtpo.runs.run import load_runs, runs_among
    from gtpo.runs.variants import name_variants

    runs = name_variants(load_runs(runs_among(args.runs, write_skipped)))
    for one in runs:
        write_notes(one)
    _print(runs)
    out = args.out or ((runs[0].path if len(runs) == 1 else Path()) / "report.html")
    page = report_page(runs)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{out}\n")
    for folder, ending in ((args.png, "png"), (args.svg, "svg")):
        if folder is not None:
            _draw(runs, evaluations_of(runs)[0], folder, ending)
    return 0


def _draw(runs: Sequence[Any], curves: Sequence[Any], folder: Path, ending: str) -> None:
    from gtpo.report.figure import draw_evaluations, draw_training

    training, evaluation = folder / f"training.{ending}", folder / f"evaluation.{ending}"
    if draw_training(runs, training):
        sys.stdout.write(f"{training}\n")
    if draw_evaluations(curves, evaluation):
        sys.stdout.write(f"{evaluation}\n")


def _print(runs: Sequence[Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from gtpo.runs.measures import final
    from gtpo.runs.run import health_of_run

    table = Table(box=None, pad_edge=False)
    headings = ("run", "steps", "accuracy", "", "format", "", "entropy", "", "health")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number in (0, 3, 5, 7, 8) else "right", no_wrap=True)
    for one in runs:
        cells = [Text(printable(one.name)), Text(str(one.num_steps))]
        for meaning, scale, digits in (("accuracy", 100, 1), ("format", 100, 1), ("entropy", 1, 3)):
            series = one.series(meaning)
            end = final(series)
            unit = " %" if scale == 100 else ""
            cells.append(Text("–" if end is None else f"{scale * end:.{digits}f}{unit}"))
            cells.append(Text(sparkline(series.values, 16), style="cyan"))
        verdict = health_of_run(one)[-1]
        cells.append(Text(verdict.name, style=("green", "yellow", "red")[verdict.level]))
        table.add_row(*cells)
    show(table, width=150)
