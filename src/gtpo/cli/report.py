"""`gtpo report`: one page about one or many runs, figures for papers, and a summary in the terminal."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.cli.console import LEVEL_COLORS, note_run, note_skipped, show, sparkline
from gtpo.files import writing
from gtpo.text import MISSING, printable

if TYPE_CHECKING:
    from gtpo.runs.run import Run

_EPILOG = """\
examples:
  gtpo report runs/my-run
  gtpo report runs/gtpo-seed* runs/grpo-seed* --out report.html
  gtpo report runs/gtpo-seed* --png figures --svg figures

Runs of the same method are drawn as one line. The method is that of run.json, or else the folder's name without its
seed.
"""

_QUANTITIES = (("accuracy", 100, 1, " %"), ("format", 100, 1, " %"), ("entropy", 1, 3, ""))
"""What the summary shows of the end of training: meaning, scale, decimals and unit."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "report",
        help="write one page about one or many runs",
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
        help="the page (default: report.html in the run's folder, or here for several runs)",
    )
    add("--png", type=Path, default=None, metavar="DIR", help="also write figures for papers as PNG")
    add("--svg", type=Path, default=None, metavar="DIR", help="also write figures for papers as SVG")
    return parser


def run(args: argparse.Namespace) -> int:
    from gtpo.report.page import report_page
    from gtpo.runs.run import load_runs, runs_among
    from gtpo.runs.variants import name_variants

    runs = name_variants(load_runs(runs_among(args.runs, note_skipped)))
    for run in runs:
        note_run(run)
    _print(runs)
    out = args.out or ((runs[0].path if len(runs) == 1 else Path()) / "report.html")
    page = report_page(runs)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{out}\n")
    if args.png or args.svg:
        _draw(runs, args.png, args.svg)
    return 0


def _draw(runs: "Sequence[Run]", png: Path | None, svg: Path | None) -> None:
    from gtpo.report.evaluations import evaluations_of
    from gtpo.report.figure import draw_evaluations, draw_training

    curves, _ = evaluations_of(runs)
    for folder, suffix in ((png, "png"), (svg, "svg")):
        if folder is None:
            continue
        training, evaluation = folder / f"training.{suffix}", folder / f"evaluation.{suffix}"
        with writing(folder, "Choose another folder with --png or --svg."):
            if draw_training(runs, [training]):
                sys.stdout.write(f"{training}\n")
            if draw_evaluations(curves, [evaluation]):
                sys.stdout.write(f"{evaluation}\n")


def _print(runs: "Sequence[Run]") -> None:
    from rich.table import Table
    from rich.text import Text

    from gtpo.runs.measures import final
    from gtpo.runs.run import health_of_run

    table = Table(box=None, pad_edge=False)
    headings = ("run", "steps", "accuracy", "", "format", "", "entropy", "", "health")
    for heading in headings:
        justify = "right" if heading in ("steps", "accuracy", "format", "entropy") else "left"
        table.add_column(heading, justify=justify, no_wrap=True)
    for run in runs:
        cells = [Text(printable(run.name)), Text(str(run.num_steps))]
        for meaning, scale, digits, unit in _QUANTITIES:
            series = run.series(meaning)
            end = final(series)
            cells.append(Text(MISSING if end is None else f"{scale * end:.{digits}f}{unit}"))
            cells.append(Text(sparkline(series.values, 16), style="cyan"))
        verdict = health_of_run(run)[-1]
        cells.append(Text(verdict.name, style=LEVEL_COLORS[verdict.level]))
        table.add_row(*cells)
    show(table, width=150)
