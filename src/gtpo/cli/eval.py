"""`gtpo eval`: sample models on problem sets, and report pass@k and maj@k with intervals."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.cli.console import ProgressBar, show
from gtpo.errors import ConfigError
from gtpo.evaluation.sampling import ENGINES, GPU_MEMORY, SamplingSettings
from gtpo.files import writing

if TYPE_CHECKING:
    from gtpo.evaluation.evaluate import Evaluation

_EPILOG = """\
examples:
  gtpo eval lab
  gtpo eval lab --problems lab --limit 20 --samples 4 --out runs/eval-small
  gtpo eval runs/my-model Qwen/Qwen2.5-3B-Instruct --problems aime24,aime25,amc23 --samples 64 --k 1,4,8,16,32,64
  gtpo eval --from runs/eval/*/*.jsonl --layout paper

To resume an interrupted evaluation, run the same command again.
"""

_DEFAULT_OUT = Path("runs/eval")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "eval",
        help="evaluate models on problem sets",
        description="Sample models on problem sets and report pass@k and maj@k with bootstrap 95 % intervals.",
        epilog=_EPILOG,
    )
    models_help = "a hub id, a folder, or the word lab; the first is compared with each other one"
    parser.add_argument("models", metavar="MODEL", nargs="*", help=models_help)
    files_help = "measure these sample files instead of sampling models"
    parser.add_argument("--from", dest="files", nargs="+", type=Path, metavar="FILE", help=files_help)
    ks_help = "the k of pass@k and maj@k (default: 1,4,8,16,32,64 up to the number of samples, and that number)"
    parser.add_argument("--k", type=_numbers, metavar="NUMBERS", help=ks_help)
    out_help = "folder for samples, results.json and the figure (default: runs/eval; with --from: nothing is written)"
    parser.add_argument("--out", type=Path, metavar="DIR", help=out_help)
    layout_help = "print tables (default), table 1 of the paper as Markdown, or JSON"
    parser.add_argument("--layout", choices=("table", "paper", "json"), default="table", help=layout_help)
    parser.set_defaults(
        sampling_flags=_add_sampling_options(parser), when_interrupted=": run the same command again to resume"
    )
    return parser


def _add_sampling_options(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Add the options that only sampling needs; returns their flags by name.

    The names are those of `SamplingSettings` and of `evaluate`. An option that is not given has no attribute.
    """
    group = parser.add_argument_group("sampling", argument_default=argparse.SUPPRESS)
    flags: dict[str, str] = {}

    def add(flag: str, kind: type, metavar: str, help_text: str, name: str | None = None) -> None:
        action = group.add_argument(flag, type=kind, metavar=metavar, help=help_text, dest=name)
        flags[action.dest] = flag

    names = "gsm8k, math, math500, aime24, aime25, amc23, lab"
    add("--problems", str, "NAMES", f"comma-separated: {names}, .jsonl or .parquet files (default: lab)")
    num_samples = SamplingSettings.num_samples
    add("--samples", int, "N", f"samples per problem (default: {num_samples})", "num_samples")
    add("--data-dir", str, "DIR", "read the named problem sets from JSONL files in DIR instead of the hub")
    add("--columns", str, "MAP", "column names of a problem file, as in question=task,answer=truth")
    add("--temperature", float, "T", "default: 0 (greedy) for one sample, 0.9 for several")
    add("--top-p", float, "P", "sample from the most likely tokens of this total mass (default: 1.0)")
    add("--max-new-tokens", int, "N", "default: 1500, or what the prompts leave of the model's context")
    add("--batch-size", int, "N", "samples per batch (default: 64; vllm: 1024)")
    add("--seed", int, "N", "the same seed gives the same samples (default: 0)")
    add("--limit", int, "N", "only the first N problems of each set")
    add("--engine", str, "ENGINE", f"{' or '.join(ENGINES)} (default: {ENGINES[0]})")
    add("--gpu-memory", float, "FRACTION", f"of the GPU's memory, for vllm (default: {GPU_MEMORY}); lower it to share")
    trust_help = "run Python code that comes with a model (read it first)"
    trust = group.add_argument("--trust-remote-code", action="store_true", help=trust_help)
    flags[trust.dest] = "--trust-remote-code"
    add("--system-prompt", str, "TEXT", "replaces the paper's instruction; '' for none")
    return flags


def run(args: argparse.Namespace) -> int:
    if bool(args.models) == bool(args.files):
        raise ConfigError("Pass either models to sample from or sample files (--from), not both.")
    given = {name: value for name, value in vars(args).items() if name in args.sampling_flags}
    if args.files and given:
        flags = ", ".join(args.sampling_flags[name] for name in given)
        raise ConfigError(f"--from measures existing samples, so {flags} would have no effect. Omit them.")
    if "gpu_memory" in given and given.get("engine") != "vllm":
        raise ConfigError("--gpu-memory only applies to --engine vllm. Omit it.")
    evaluation = _measure(args, given)
    _print(evaluation, args.layout)
    if args.models or args.out:
        _write(evaluation, args.out or _DEFAULT_OUT)
    return 0


def _measure(args: argparse.Namespace, given: dict[str, Any]) -> "Evaluation":
    """Sample the models, unless there are files, and measure the samples."""
    from gtpo.evaluation.evaluate import evaluate, from_files
    from gtpo.problems.loading import parse_columns

    with ProgressBar() as progress:
        if args.files:
            return from_files(args.files, ks=args.k, progress=progress)
        problem_sets = [name.strip() for name in given.pop("problems", "lab").split(",") if name.strip()]
        names = [field.name for field in dataclasses.fields(SamplingSettings) if field.name in given]
        settings = SamplingSettings(**{name: given.pop(name) for name in names})
        if "columns" in given:
            given["columns"] = parse_columns(given["columns"])
        out = args.out or _DEFAULT_OUT
        return evaluate(args.models, problem_sets, settings, out, ks=args.k, progress=progress, **given)


def _print(evaluation: "Evaluation", layout: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from gtpo.evaluation.tables import markdown, paper_rows, sampling_lines, summary_rows
    from gtpo.text import printable

    if layout == "json":
        sys.stdout.write(json.dumps(evaluation.to_json(), indent=2, allow_nan=False) + "\n")
        return
    if layout == "paper":
        sys.stdout.write(markdown(paper_rows(evaluation)) + "\n")
        return
    for problems in dict.fromkeys(measured.problems for measured in evaluation.measurements):
        header, *rows = summary_rows(evaluation, problems)
        table = Table(title=Text(printable(problems)), title_justify="left")
        table.add_column(no_wrap=True)
        for heading in header[1:]:
            table.add_column(Text(heading), justify="right", overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        lines = sampling_lines([measured for measured in evaluation.measurements if measured.problems == problems])
        caption = "\n".join([*lines, "in brackets: bootstrap 95 % intervals over problems"])
        show(table, Text(caption), width=max(80, 30 * len(header)))


def _write(evaluation: "Evaluation", out: Path) -> None:
    from gtpo.report.evaluations import evaluation_panels
    from gtpo.report.figure import draw_evaluations

    document = evaluation.to_json()
    results = out / "results.json"
    figures = [out / "curves.png", out / "curves.svg"]
    panels = evaluation_panels((result, result["model"]) for result in document["results"])
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        results.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
        draw_evaluations(panels, figures)
    sys.stderr.write(f"wrote {results}, {figures[0]} and {figures[1].name}\n")


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected comma-separated whole numbers, such as 1,8,64; got {text!r}"
        ) from error
