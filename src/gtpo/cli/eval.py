"""`gtpo eval`: sample models on problem sets, and report pass@k and maj@k with intervals."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from gtpo.cli.console import ProgressBar, show
from gtpo.errors import ConfigError
from gtpo.files import writing

_EPILOG = """\
examples:
  gtpo eval lab
  gtpo eval lab --problems lab --limit 20 --samples 4 --out runs/eval-small
  gtpo eval runs/my-model Qwen/Qwen2.5-3B-Instruct --problems aime24,aime25,amc23 --samples 64 --k 1,4,8,16,32,64
  gtpo eval --from runs/eval/*/*.jsonl --layout paper

An interrupted evaluation goes on where it stopped when the same command is given again.
"""

_DEFAULT_OUT = Path("runs/eval")
_SAMPLING = {
    "problems": "lab",
    "samples": 16,
    "data_dir": None,
    "columns": None,
    "temperature": None,
    "top_p": 1.0,
    "max_new_tokens": None,
    "batch_size": None,
    "seed": 0,
    "limit": None,
    "engine": "transformers",
    "gpu_memory": 0.9,
    "system_prompt": None,
}
"""The options that say what to sample, with what they are unless told; files of samples have them in their headers."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "eval",
        help="evaluate models on problem sets",
        description="Sample models on problem sets and report pass@k and maj@k with bootstrap 95 % intervals.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "models",
        metavar="MODEL",
        nargs="*",
        help="a hub id, a folder, or the word lab; the first is compared with each other",
    )
    add(
        "--problems",
        default=None,
        metavar="NAMES",
        help="with commas: gsm8k, math, math500, aime24, aime25, amc23, lab, .jsonl or .parquet files (default: lab)",
    )
    add("--samples", type=int, default=None, metavar="N", help="samples of each problem (default: 16)")
    add(
        "--k",
        type=_numbers,
        default=None,
        metavar="NUMBERS",
        help="the k of pass@k and maj@k (default: those of 1,4,8,16,32,64 up to N, and N)",
    )
    add("--data-dir", metavar="DIR", help="a folder of JSONL files to read the problem sets from, instead of the hub")
    add("--columns", metavar="MAP", help="how a file of problems calls its columns, as in question=task,answer=truth")
    add(
        "--out",
        type=Path,
        default=None,
        metavar="DIR",
        help="where samples, results.json and the figure go (default: runs/eval; with --from: nowhere)",
    )
    add(
        "--temperature",
        type=float,
        default=None,
        metavar="T",
        help="default: 0, which is greedy, for one sample, else 0.9",
    )
    add(
        "--top-p",
        type=float,
        default=None,
        metavar="P",
        help="sample from the likeliest tokens of this mass (default: 1)",
    )
    add(
        "--max-new-tokens",
        type=int,
        default=None,
        metavar="N",
        help="default: 1500, or what the model's context leaves",
    )
    add("--batch-size", type=int, default=None, metavar="N", help="samples made at once (default: 64; vllm: 1024)")
    add("--seed", type=int, default=None, metavar="N", help="the same seed gives the same samples (default: 0)")
    add("--limit", type=int, default=None, metavar="N", help="only the first N problems of each set")
    add(
        "--engine",
        choices=("transformers", "vllm"),
        default=None,
        help="what samples (default: transformers)",
    )
    add(
        "--gpu-memory",
        type=float,
        default=None,
        metavar="SHARE",
        help="share of the card's memory that vllm takes (default: 0.9); lower it beside another program",
    )
    add("--system-prompt", default=None, metavar="TEXT", help="instead of the paper's instruction; '' for none")
    add(
        "--from",
        dest="files",
        nargs="+",
        type=Path,
        default=None,
        metavar="FILE",
        help="measure these files of samples; sample nothing",
    )
    add(
        "--layout",
        choices=("table", "paper", "json"),
        default="table",
        help="what is printed: tables, the paper's table 1 in Markdown, or JSON",
    )
    parser.set_defaults(when_interrupted=": the same command goes on where it stopped")
    return parser


def run(args: argparse.Namespace) -> int:
    if bool(args.models) == bool(args.files):
        raise ConfigError("Give either models to sample or files of samples (--from), not both and not neither.")
    given = [name for name in _SAMPLING if getattr(args, name) is not None]
    if args.files and given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError(f"--from measures samples that are there, so {flags} would change nothing: leave it out.")
    if args.gpu_memory is not None and args.engine != "vllm":
        raise ConfigError("--gpu-memory is what --engine vllm takes of the card: leave it out without that engine.")
    for name in set(_SAMPLING) - set(given):
        setattr(args, name, _SAMPLING[name])
    evaluation = _from_files(args) if args.files else _sampled(args)
    _print(evaluation, args.layout)
    out = args.out or (None if args.files else _DEFAULT_OUT)
    if out is not None:
        _write(evaluation, out)
    return 0


def _sampled(args: argparse.Namespace) -> Any:
    from gtpo.evaluation.evaluate import evaluate
    from gtpo.evaluation.sampling import SamplingSettings
    from gtpo.problems.local import parse_columns

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


def _from_files(args: argparse.Namespace) -> Any:
    from gtpo.evaluation.evaluate import from_files

    with ProgressBar() as progress:
        return from_files(args.files, ks=args.k, progress=progress)


def _print(evaluation: Any, layout: str) -> None:
    from gtpo.evaluation.tables import markdown, paper_rows, summary_rows

    if layout == "json":
        sys.stdout.write(json.dumps(evaluation.to_json(), indent=2, allow_nan=False) + "\n")
    elif layout == "paper":
        sys.stdout.write(markdown(paper_rows(evaluation)) + "\n")
    else:
        for problems in evaluation.problem_sets:
            _print_table(problems, summary_rows(evaluation, problems), _how(evaluation, problems))


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


def _how(evaluation: Any, problems: str) -> str:
    from gtpo.evaluation.tables import sampling_lines

    lines = sampling_lines([one for one in evaluation.measurements if one.problems == problems])
    return "\n".join([*lines, "in brackets: bootstrap 95 % intervals over problems"])


def _write(evaluation: Any, out: Path) -> None:
    from gtpo.evaluation.samples import writable_folder
    from gtpo.report.evaluations import result_curves
    from gtpo.report.figure import draw_evaluations

    writable_folder(out)
    document = evaluation.to_json()
    results = out / "results.json"
    with writing(results):
        results.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    figures = [out / "curves.png", out / "curves.svg"]
    curves = [curve for result in document["results"] for curve in result_curves(result, result["model"])]
    with writing(out):
        draw_evaluations(curves, figures)
    sys.stderr.write(f"wrote {results}, {figures[0]} and {figures[1].name}\n")


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected whole numbers with commas, such as 1,8,64; got {text!r}"
        ) from error
