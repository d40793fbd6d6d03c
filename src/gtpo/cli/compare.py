"""`gtpo compare`: whether one set of runs, or of evaluations, did better than another."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtpo.cli.console import ProgressBar, load_noted, note, show
from gtpo.errors import ConfigError
from gtpo.text import MISSING, printable

if TYPE_CHECKING:
    from gtpo.compare import Comparison

    Compared = tuple[tuple[str, str], Sequence[Comparison], Sequence[str]]
    """The names of both sides, the comparisons, and the lines of the caption."""

HELP = "compare two sets of runs or evaluations"
DESCRIPTION = "Compare two sets of runs, or of evaluations: differences, 95 % intervals and a plain verdict."
EPILOG = """\
examples:
  gtpo compare runs/gtpo-seed* --vs runs/grpo-seed*
  gtpo compare runs/gtpo-seed* --vs runs/grpo-seed* --levels 0.5,0.8 --json
  gtpo compare runs/eval/gtpo-on-gsm8k/*/*.jsonl --vs runs/eval/grpo-on-gsm8k/*/*.jsonl

Runs are compared over seeds, sample files of `gtpo eval` over problems.
"""

_FORMATS = {"fraction": (100, 1, " %"), "count": (1, 1, ""), "value": (1, 3, "")}
"""Scale, decimals and unit of each kind of quantity."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("first", metavar="A", nargs="+", type=Path, help="runs, or sample files of `gtpo eval`")
    add("--vs", dest="second", metavar="B", nargs="+", type=Path, required=True, help="what A is compared with")
    levels_help = "also compare the steps to these accuracies and format rates, such as 0.5,0.8"
    add("--levels", type=_fractions, default=[], metavar="LIST", help=levels_help)
    add("--grader", metavar="NAME", help="of sample files, as for `gtpo eval` (default: answer)")
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    are_samples = {_is_sample_file(path) for path in (*args.first, *args.second)}
    if len(are_samples) > 1:
        raise ConfigError("Cannot compare runs with sample files. Pass runs on both sides, or sample files on both.")
    if args.grader is not None and True not in are_samples:
        raise ConfigError("--grader only applies to sample files. A run is compared by what it measured itself.")
    unit = "problem" if True in are_samples else "run"
    labels, comparisons, caption = (_compare_evaluations if True in are_samples else _compare_runs)(args)
    if args.json:
        rows = [dataclasses.asdict(comparison) for comparison in comparisons]
        document = {"first": labels[0], "second": labels[1], "level": 0.95, "unit": unit, "comparisons": rows}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _print(labels, comparisons, caption)
    return 0


def _compare_runs(args: argparse.Namespace) -> "Compared":
    from gtpo.compare import compare_runs, held_out_sets, unpaired_seeds
    from gtpo.runs.variants import name_variants

    runs = name_variants(load_noted([*args.first, *args.second], skip=False))  # together: no run is on both sides
    first, second = runs[: len(args.first)], runs[len(args.first) :]
    comparisons = compare_runs(first, second, args.levels)
    if names := unpaired_seeds(first, second):
        are = "is" if len(names) == 1 else "are"
        note(f"{_listed(names)} {are} left out of paired differences: the other side has no run with the same seed")
    if len(sets := held_out_sets(runs)) > 1:
        note(f"held-out results are not compared, because they were measured differently ({'; '.join(sets)})")
    if len(rewards := {frozenset(run.reward_functions) for run in runs} - {frozenset()}) > 1:
        names = "; ".join(sorted(", ".join(sorted(functions)) for functions in rewards))
        note(f"the rewards come from different functions ({names}), so their values may not be comparable")
    if len(steps := list(dict.fromkeys(run.num_steps for run in runs))) > 1:
        number = " and ".join(map(str, steps)) if len(steps) < 4 else f"{min(steps)} to {max(steps)}"
        note(f"the runs have {number} steps, so their ends are not at the same step")
    is_paired = any(comparison.is_paired for comparison in comparisons)
    pairing = "paired by seed" if is_paired else "not paired: the sets share fewer than two seeds"
    caption = [f"{pairing}; intervals: the wider of Student's and the bootstrap's over seeds"]
    if any(comparison.more_seeds is not None for comparison in comparisons):
        caption.append(
            "more seeds: to add to each set until the interval excludes 0 four times in five, "
            "if difference and spread stay"
        )
    caption.append("no interval: one run on a side, or no spread; collapsed runs are judged by Fisher's exact test")
    labels = _labels(*([(run.method, run.name) for run in side] for side in (first, second)))
    return labels, comparisons, caption


def _compare_evaluations(args: argparse.Namespace) -> "Compared":
    from gtpo.compare import compare_evaluations
    from gtpo.evaluation.graders import ANSWER
    from gtpo.evaluation.metrics import measure
    from gtpo.evaluation.samples import read_samples
    from gtpo.evaluation.tables import sampling_difference, sampling_lines

    if args.levels:
        raise ConfigError("--levels only applies to runs. Leave it out for sample files.")
    paths = [*args.first, *args.second]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError("A sample file was passed twice. Leave one out.")
    with ProgressBar() as progress:
        measurements = [measure(read_samples(path), None, progress, args.grader or ANSWER) for path in paths]
    first, second = measurements[: len(args.first)], measurements[len(args.first) :]
    if difference := sampling_difference(first, second):
        note(f"the two sides were sampled differently ({difference}), which may be what makes the difference")
    names = [(measurement.model, str(path)) for measurement, path in zip(measurements, paths, strict=True)]
    labels = _labels(names[: len(first)], names[len(first) :])
    scope = "intervals: bootstrap over problems; they do not cover other training seeds"
    return labels, compare_evaluations(first, second), [*sampling_lines(measurements), scope]


def _is_sample_file(path: Path) -> bool:
    """Whether the first line of a file is the header of samples. The metrics of a run are JSON Lines too."""
    if not path.is_file() or path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        return b'"gtpo_samples"' in file.readline(4096)


def _labels(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> tuple[str, str]:
    """The names of the sides: their methods or models, or if these are equal, the names of their runs or files."""
    a, b = (_listed(list(dict.fromkeys(kind for kind, _ in side)), " + ") for side in (first, second))
    if a == b:
        a, b = (_listed([name for _, name in side]) for side in (first, second))
    return a, b


def _listed(names: Sequence[str], separator: str = ", ") -> str:
    """A few names in full, of more only how many there are.

    >>> _listed(["a", "b"]), _listed(["a"] * 200)
    ('a, b', 'a, a, a, a and 196 more')
    """
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return separator.join(names[:4]) + more


def _print(labels: tuple[str, str], comparisons: "Sequence[Comparison]", caption: Sequence[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    first, second = map(printable, labels)
    title = Text(f"{first} against {second}")
    table = Table(title=title, caption=Text("\n".join(caption)), title_justify="left", caption_justify="left")
    headings = ["", first, second, "difference", "95 % interval", "verdict"]
    if has_more := any(comparison.more_seeds is not None for comparison in comparisons):
        headings.append("more seeds")
    for number, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if number else "left", no_wrap=number not in (1, 2))
    for comparison in comparisons:
        cells = [Text(cell) for cell in _cells(comparison)]
        cells.append(Text(comparison.verdict, style={"better": "green", "worse": "red"}.get(comparison.verdict, "")))
        if has_more:
            cells.append(Text("" if comparison.more_seeds is None else str(comparison.more_seeds)))
        table.add_row(*cells)
    show(table, width=150)


def _cells(comparison: "Comparison") -> list[str]:
    """Name, both values, difference and interval. The "z" drops the sign of a value that rounds to 0."""
    scale, digits, unit = _FORMATS[comparison.kind]
    first, second = (f"{scale * value:z.{digits}f}{unit}" for value in (comparison.first, comparison.second))
    interval = MISSING
    if comparison.low is not None and comparison.high is not None:
        interval = f"[{scale * comparison.low:+z.{digits}f}, {scale * comparison.high:+z.{digits}f}]"
    return [printable(comparison.name), first, second, f"{scale * comparison.difference:+z.{digits}f}", interval]


def _fractions(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected numbers with commas, such as 0.5,0.8; got {text!r}") from error
