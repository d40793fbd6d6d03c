"""`gtpo eval`: sample models on problem sets, and report pass@k and maj@k with intervals."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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


class _Option(NamedTuple):
    """An option that decides what is sampled. The header of a sample file records its value, so --from refuses it."""

    flag: str
    type: Callable[[str], Any]
    metavar: str
    default: Any
    help: str
    choices: Sequence[str] | None = None

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")


_SAMPLING_OPTIONS = (
    _Option(
        "--problems",
        str,
        "NAMES",
        "lab",
        "comma-separated: gsm8k, math, math500, aime24, aime25, amc23, lab, .jsonl or .parquet files",
    ),
    _Option("--samples", int, "N", SamplingSettings.num_samples, "samples per problem"),
    _Option("--data-dir", str, "DIR", None, "read the named problem sets from JSONL files in DIR instead of the hub"),
    _Option("--columns", str, "MAP", None, "column names of a problem file, as in question=task,answer=truth"),
    _Option("--temperature", float, "T", None, "default: 0 (greedy) for one sample, 0.9 for several"),
    _Option("--top-p", float, "P", SamplingSettings.top_p, "sample from the most likely tokens of this total mass"),
    _Option("--max-new-tokens", int, "N", None, "default: 1500, or what the prompts leave of the model's context"),
    _Option("--batch-size", int, "N", None, "samples per batch (default: 64; vllm: 1024)"),
    _Option("--seed", int, "N", SamplingSettings.seed, "the same seed gives the same samples"),
    _Option("--limit", int, "N", None, "only the first N problems of each set"),
    _Option("--engine", str, "ENGINE", ENGINES[0], f"{' or '.join(ENGINES)}", ENGINES),
    _Option("--gpu-memory", float, "FRACTION", GPU_MEMORY, "of the GPU's memory, for vllm; lower it to share the GPU"),
    _Option("--system-prompt", str, "TEXT", None, "replaces the paper's instruction; '' for none"),
)


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "eval",
        help="evaluate models on problem sets",
        description="Sample models on problem sets and report pass@k and maj@k with bootstrap 95 % intervals.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
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
    sampling = parser.add_argument_group("sampling")
    for option in _SAMPLING_OPTIONS:
        sampling.add_argument(
            option.flag,
            type=option.type,
            metavar=option.metavar,
            choices=option.choices,
            default=argparse.SUPPRESS,  # an option that is not given has no attribute
            help=option.help if option.default is None else f"{option.help} (default: {option.default})",
        )
    parser.set_defaults(when_interrupted=": run the same command again to resume")
    return parser


def run(args: argparse.Namespace) -> int:
    if bool(args.models) == bool(args.files):
        raise ConfigError("Pass either models to sample from or sample files (--from), not both.")
    flags = [option.flag for option in _SAMPLING_OPTIONS if hasattr(args, option.name)]
    if args.files and flags:
        raise ConfigError(f"--from measures existing samples, so {', '.join(flags)} would have no effect. Omit them.")
    for option in _SAMPLING_OPTIONS:
        if not hasattr(args, option.name):
            setattr(args, option.name, option.default)
    if "--gpu-memory" in flags and args.engine != "vllm":
        raise ConfigError("--gpu-memory only applies to --engine vllm. Omit it.")
    evaluation = _measured(args) if args.files else _sampled(args)
    _print(evaluation, args.layout)
    out = args.out or (None if args.files else _DEFAULT_OUT)
    if out is not None:
        _write(evaluation, out)
    return 0


def _sampled(args: argparse.Namespace) -> "Evaluation":
    from gtpo.evaluation.evaluate import evaluate
    from gtpo.problems.loading import parse_columns

    settings = SamplingSettings(
        num_samples=args.samples,
        temperature=args.temperature,
        top_p=args.top_p,
        max_new_tokens=args.max_new_tokens,
        seed=args.seed,
        system_prompt=args.system_prompt,
    )
    with ProgressBar() as progress:
        return evaluate(
            args.models,
            [name.strip() for name in args.problems.split(",") if name.strip()],
            settings,
            args.out or _DEFAULT_OUT,
            ks=args.k,
            engine=args.engine,
            data_dir=args.data_dir,
            limit=args.limit,
            columns=None if args.columns is None else parse_columns(args.columns),
            batch_size=args.batch_size,
            gpu_memory=args.gpu_memory,
            progress=progress,
        )


def _measured(args: argparse.Namespace) -> "Evaluation":
    from gtpo.evaluation.evaluate import from_files

    with ProgressBar() as progress:
        return from_files(args.files, ks=args.k, progress=progress)


def _print(evaluation: "Evaluation", layout: str) -> None:
    from gtpo.evaluation.tables import markdown, paper_rows, summary_rows

    if layout == "json":
        sys.stdout.write(json.dumps(evaluation.to_json(), indent=2, allow_nan=False) + "\n")
    elif layout == "paper":
        sys.stdout.write(markdown(paper_rows(evaluation)) + "\n")
    else:
        for problems in evaluation.problem_sets:
            _print_table(problems, summary_rows(evaluation, problems), _caption(evaluation, problems))


def _print_table(title: str, rows: list[list[str]], caption: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from gtpo.text import printable

    table = Table(title=Text(printable(title)), title_justify="left")
    for number, heading in enumerate(rows[0]):
        table.add_column(Text(heading), justify="right" if number else "left", overflow="fold", no_wrap=number == 0)
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    show(table, Text(caption), width=max(80, 30 * len(rows[0])))


def _caption(evaluation: "Evaluation", problems: str) -> str:
    from gtpo.evaluation.tables import sampling_lines

    lines = sampling_lines([measured for measured in evaluation.measurements if measured.problems == problems])
    return "\n".join([*lines, "in brackets: bootstrap 95 % intervals over problems"])


def _write(evaluation: "Evaluation", out: Path) -> None:
    from gtpo.evaluation.samples import writable_folder
    from gtpo.report.evaluations import evaluation_panels
    from gtpo.report.figure import draw_evaluations

    writable_folder(out)
    document = evaluation.to_json()
    results = out / "results.json"
    with writing(results):
        results.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    figures = [out / "curves.png", out / "curves.svg"]
    panels = evaluation_panels((result, result["model"]) for result in document["results"])
    with writing(out):
        draw_evaluations(panels, figures)
    sys.stderr.write(f"wrote {results}, {figures[0]} and {figures[1].name}\n")


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected comma-separated whole numbers, such as 1,8,64; got {text!r}"
        ) from error
