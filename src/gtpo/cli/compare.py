"""`gtpo compare`: did one set of runs do better than another, or does it only look so."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtpo.cli.console import show
from gtpo.cli.notes import write_notes
from gtpo.errors import ConfigError
from gtpo.text import printable

_EPILOG = """\
examples:
  gtpo compare runs/gtpo-seed* --vs runs/grpo-seed*
  gtpo compare runs/gtpo-seed* --vs runs/grpo-seed* --levels 0.5,0.8 --json
  gtpo compare runs/eval/gtpo/*.jsonl --vs runs/eval/grpo/*.jsonl

Runs are compared over seeds, files of samples of `gtpo eval` over problems.
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "compare",
        help="compare two sets of runs or evaluations",
        description="Compare two sets of runs, or of evaluations: differences, 95 % intervals and a plain verdict.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("first", metavar="A", nargs="+", type=Path, help="runs, or files of samples of `gtpo eval`")
    add("--vs", dest="second", metavar="B", nargs="+", type=Path, required=True, help="what they are compared with")
    add(
        "--levels",
        type=_fractions,
        default=[],
        metavar="LIST",
        help="with commas: accuracies and format rates whose first steps are compared, such as 0.5,0.8",
    )
    add("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    kinds = {_is_samples(path) for path in (*args.first, *args.second)}
    if len(kinds) > 1:
        raise ConfigError("Give runs on both sides, or files of samples on both sides, not some of each.")
    if kinds == {True}:
        if args.levels:
            raise ConfigError("--levels is about the steps of runs: leave it out for files of samples.")
        return _compare_evaluations(args)
    from gtpo.compare import compare_runs, held_out_sets, unpaired_seeds
    from gtpo.runs.run import load_runs
    from gtpo.runs.variants import name_variants

    runs = name_variants(load_runs([*args.first, *args.second]))  # none twice, not on two sides either
    first, second = runs[: len(args.first)], runs[len(args.first) :]
    for one in runs:
        write_notes(one)
    found = compare_runs(first, second, args.levels)
    for name in unpaired_seeds(first, second):
        sys.stderr.write(f"note: {printable(name)} is left out of paired differences: no run with its seed opposite\n")
    if len(sets := held_out_sets(runs)) > 1:
        shown = printable("; ".join(sets))
        sys.stderr.write(f"note: held-out numbers are not compared, they were measured differently ({shown})\n")
    if len(steps := sorted({one.num_steps for one in runs})) > 1:
        sys.stderr.write(
            f"note: the runs went {' and '.join(map(str, steps))} steps; their ends are not the same step\n"
        )
    labels = _labels(*([(one.method, one.name) for one in side] for side in (first, second)))
    _show(args.json, labels, found, "run", _how(found))
    return 0


def _compare_evaluations(args: argparse.Namespace) -> int:
    from gtpo.cli.progress import ProgressBar
    from gtpo.compare import compare_evaluations
    from gtpo.evaluation.metrics import measure
    from gtpo.evaluation.samples import read_samples
    from gtpo.evaluation.tables import sampling_difference, sampling_lines

    paths = [path.resolve() for path in (*args.first, *args.second)]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise ConfigError(f"{twice} is given twice. Leave one out.")
    with ProgressBar() as progress:
        first, second = ([measure(read_samples(path), None, progress) for path in side] for side in
                         (args.first, args.second))  # fmt: skip
    found = compare_evaluations(first, second)
    if difference := sampling_difference(first, second):
        sys.stderr.write(
            f"note: the two sides were not sampled alike ({difference}); that alone may make a difference\n"
        )
    labels = _labels(
        *(
            [(one.model, str(path)) for one, path in zip(side, given, strict=True)]
            for side, given in ((first, args.first), (second, args.second))
        )
    )
    how = "intervals: bootstrap over problems; they say nothing about other training seeds"
    _show(args.json, labels, found, "problem", "\n".join([*sampling_lines([*first, *second]), how]))
    return 0


def _is_samples(path: Path) -> bool:
    """A file whose first line is the header of samples; a run's metrics are JSON lines too."""
    if not path.is_file() or path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        return b'"gtpo_samples"' in file.readline(4096)


def _row(one: Any) -> list[str]:
    is_fine = one.name == "reward, end of training" or one.name.endswith("entropy")
    is_count = one.name.startswith("steps") or one.name.endswith(("length", "answers", "completions"))
    scale, unit = (1, "") if is_fine or is_count else (100, " %")
    digits = 3 if is_fine else 1
    first, second = (f"{scale * value:z.{digits}f}" for value in (one.first, one.second))
    interval = "–" if one.low is None else f"[{scale * one.low:+z.{digits}f}, {scale * one.high:+z.{digits}f}]"
    more = "" if one.more_seeds is None else f"{one.more_seeds}"
    return [
        printable(one.name),
        first + unit,
        second + unit,
        f"{scale * one.difference:+z.{digits}f}",
        interval,
        one.verdict,
        more,
    ]


def _how(found: Sequence[Any]) -> str:
    paired = any(one.is_paired for one in found)
    few = any(one.low is None for one in found)
    more = any(one.more_seeds is not None for one in found)
    lines = [
        ("paired by seed" if paired else "not paired: the sets do not share two seeds or more")
        + "; intervals: bootstrap over seeds, widened to Student's for few",
        *["more seeds: for each set, so that the interval excludes zero 4 times in 5 if difference and spread stay"]
        * more,
        *["no interval: one run on a side, or no spread; collapsed runs are judged by Fisher's exact test"] * few,
    ]
    return "\n".join(lines)


def _show(as_json: bool, labels: tuple[str, str], found: Sequence[Any], unit: str, how: str) -> None:
    if as_json:
        document = {"first": labels[0], "second": labels[1], "level": 0.95, "unit": unit}
        document |= {"comparisons": [dataclasses.asdict(one) for one in found]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _print(labels, [_row(one) for one in found], how)


def _print(labels: tuple[str, str], rows: list[list[str]], caption: str) -> None:
    from rich.table import Table
    from rich.text import Text

    title = Text(printable(f"{labels[0]} against {labels[1]}"))
    table = Table(title=title, caption=Text(caption), title_justify="left", caption_justify="left")
    headings = ["", printable(labels[0]), printable(labels[1]), "difference", "95 % interval", "verdict", "more seeds"]
    has_more = any(row[-1] for row in rows)
    for number, heading in enumerate(headings[: None if has_more else -1]):
        table.add_column(Text(heading), justify="right" if number else "left", no_wrap=number not in (1, 2))
    for row in rows:
        style = {"better": "green", "worse": "red"}.get(row[5], "")
        cells = [Text(cell) for cell in row[: None if has_more else -1]]
        cells[5].stylize(style)
        table.add_row(*cells)
    show(table, width=150)


def _labels(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> tuple[str, str]:
    """What the sides are called: by method or model, and where both would be called the same by their own names."""
    called = [" + ".join(dict.fromkeys(kind for kind, _ in side)) for side in (first, second)]
    if called[0] == called[1]:
        called = [", ".join(name for _, name in side) for side in (first, second)]
    return called[0], called[1]


def _fractions(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected numbers with commas, such as 0.5,0.8; got {text!r}") from error
