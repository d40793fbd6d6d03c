"""`gtpo eval`: sample models on problem sets, and report pass@k and maj@k with intervals."""

import argparse
import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.cli.console import ProgressBar, hide_loading_bars, show
from gtpo.errors import ConfigError
from gtpo.evaluation.sampling import ENGINES, GPU_MEMORY, SamplingSettings
from gtpo.files import parse_json, writing
from gtpo.text import printable

if TYPE_CHECKING:
    from gtpo.evaluation.evaluate import Evaluation

HELP = "evaluate models on problem sets"
DESCRIPTION = "Sample models on problem sets and report pass@k and maj@k with bootstrap 95 % intervals."
EPILOG = """\
examples:
  gtpo eval lab
  gtpo eval lab --problems lab --limit 20 --samples 4 --out runs/eval-small
  gtpo eval runs/my-model Qwen/Qwen2.5-3B-Instruct --problems aime24,aime25,amc23 --samples 64 --k 1,4,8,16,32,64
  gtpo eval runs/mine --all-checkpoints --problems mine.jsonl --grader mine:is_right
  gtpo eval --from runs/eval/*/*/*.jsonl --layout paper

To resume an interrupted evaluation, run the same command again.
"""

_DEFAULT_OUT = Path("runs/eval")
_LONGEST_NAME = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    models_help = "a hub id, a folder, or the word lab; the first is compared with each other one"
    parser.add_argument("models", metavar="MODEL", nargs="*", help=models_help)
    files_help = "measure these sample files instead of sampling models"
    parser.add_argument("--from", dest="files", nargs="+", type=Path, metavar="FILE", help=files_help)
    ks_help = "the k of pass@k and maj@k (default: 1,4,8,16,32,64 up to the number of samples, and that number)"
    parser.add_argument("--k", type=_numbers, metavar="NUMBERS", help=ks_help)
    steps_help = "evaluate the start, every checkpoint and the final model of one run, over steps"
    parser.add_argument("--all-checkpoints", action="store_true", help=steps_help)
    grader_help = "answer (default), boxed, math-verify, or package.module:function"
    parser.add_argument("--grader", default="answer", metavar="NAME", help=grader_help)
    out_help = "folder for samples, results.json and the figure (default: a folder in runs/eval named after models,"
    out_help += " problems and grader; with --from: nothing is written)"
    parser.add_argument("--out", type=Path, metavar="DIR", help=out_help)
    layout_help = "print tables (default), table 1 of the paper as Markdown, or JSON"
    parser.add_argument("--layout", choices=("table", "paper", "json"), default="table", help=layout_help)
    parser.set_defaults(
        sampling_flags=_add_sampling_options(parser), when_interrupted=": run the same command again to resume"
    )


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
    add("--problems", str, "NAMES", f"comma-separated: {names}, files, folders or hub ids (default: lab)")
    num_samples = SamplingSettings.num_samples
    add("--samples", int, "N", f"samples per problem (default: {num_samples})", "num_samples")
    add("--data-dir", str, "DIR", "read the named problem sets from JSONL files in DIR instead of the hub")
    add("--columns", str, "MAP", "column names of your data, as in question=task,answer=truth")
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
    if args.all_checkpoints and len(args.models) != 1:
        raise ConfigError("--all-checkpoints takes the folder of one run, and no sample files.")
    problem_sets = [name.strip() for name in given.pop("problems", "lab").split(",") if name.strip()]
    steps: dict[str, int] | None = None
    if args.all_checkpoints:
        from gtpo.training.checkpoints import models_of

        steps = models_of(Path(args.models[0]))
    models = list(args.models) if steps is None else list(steps)
    out = args.out or (None if args.files else _default_out(args, problem_sets))
    if out is not None and not args.files and steps is None:  # a run that was extended has other checkpoints
        _require_same_results(out, models, problem_sets)
    _announce(args.grader)
    with contextlib.nullcontext() if out is None else _no_empty_folders(out, models):
        evaluation = _measure(args, models, problem_sets, out, given)
    _print(evaluation, args.layout, steps)
    if out is not None:
        _write(evaluation, out, steps)
    return 0


def _default_out(args: argparse.Namespace, problem_sets: list[str]) -> Path:
    """A folder for these models, problem sets and grader: the same command finds it again, another one does not."""
    from gtpo.evaluation.evaluate import model_name, slug
    from gtpo.problems.loading import short_name

    name = "-vs-".join(slug(model_name(model)) for model in args.models) + ("-steps" if args.all_checkpoints else "")
    name += "-on-" + "-".join(slug(short_name(name)) for name in problem_sets)
    name += "" if args.grader == "answer" else f"-by-{slug(args.grader)}"
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return _DEFAULT_OUT / name


def _require_same_results(out: Path, models: list[str], problem_sets: list[str]) -> None:
    """Refuse to overwrite results that are about other models or problem sets."""
    from gtpo.evaluation.evaluate import model_name
    from gtpo.problems.loading import short_name

    try:
        results = parse_json((out / "results.json").read_text())["results"]
        before = {(str(result["model"]), str(result["problems"]["name"])) for result in results}
    except (OSError, ValueError, KeyError, TypeError):
        return
    lost = before - {(model_name(model), short_name(name)) for model in models for name in problem_sets}
    if lost:
        model, problems = sorted(lost)[0]
        raise ConfigError(
            f"{out / 'results.json'} has results of {model} on {problems}, which this evaluation would overwrite. "
            "Choose another folder with --out, or pass that model and problem set too."
        )


def _announce(grader: str) -> None:
    """Import the user's grader before any work, and report where it comes from."""
    from gtpo.evaluation.graders import find_grader

    judge = find_grader(grader).judge
    if ":" in grader and judge is not None:
        source = getattr(inspect.unwrap(judge), "__code__", None)
        place = f"the module {judge.__module__}" if source is None else source.co_filename
        sys.stderr.write(printable(f"the grader {grader} is imported from {place}") + "\n")


@contextlib.contextmanager
def _no_empty_folders(out: Path, models: list[str]) -> Generator[None]:
    """After an error, remove the folders that were created and are still empty."""
    from gtpo.evaluation.evaluate import model_name, slug

    folders = [*(out / slug(model_name(model)) for model in models), out, *out.parents]
    created = [folder for folder in folders if not os.path.lexists(folder)]
    try:
        yield
    except Exception:
        for folder in created:
            with contextlib.suppress(OSError):  # not empty, or not created
                folder.rmdir()
        raise


def _measure(
    args: argparse.Namespace, models: list[str], problem_sets: list[str], out: Path | None, given: dict[str, Any]
) -> "Evaluation":
    """Sample the models, unless there are files, and measure the samples."""
    from gtpo.evaluation.evaluate import evaluate, from_files
    from gtpo.problems.loading import parse_columns

    with ProgressBar() as progress:
        if args.files or out is None:
            return from_files(args.files, ks=args.k, grader=args.grader, progress=progress)
        hide_loading_bars()
        names = [field.name for field in dataclasses.fields(SamplingSettings) if field.name in given]
        settings = SamplingSettings(**{name: given.pop(name) for name in names})
        if "columns" in given:
            given["columns"] = parse_columns(given["columns"])
        return evaluate(models, problem_sets, settings, out, ks=args.k, grader=args.grader, progress=progress, **given)


def _print(evaluation: "Evaluation", layout: str, steps: dict[str, int] | None) -> None:
    """A table for each problem set, of pass@k over `steps` if the models are those of a run; or another layout."""
    from rich.table import Table
    from rich.text import Text

    from gtpo.evaluation.tables import markdown, paper_rows, sampling_lines, step_rows, summary_rows

    if layout == "json":
        sys.stdout.write(json.dumps(evaluation.to_json(), indent=2, allow_nan=False) + "\n")
        return
    if layout == "paper":
        sys.stdout.write(markdown(paper_rows(evaluation)) + "\n")
        return
    for problems in dict.fromkeys(measured.problems for measured in evaluation.measurements):
        lines = sampling_lines([measured for measured in evaluation.measurements if measured.problems == problems])
        table = Table(title=Text(printable(problems)), title_justify="left")
        if steps is None:
            header, *rows = summary_rows(evaluation, problems)
            table.add_column(no_wrap=True)
            for heading in header[1:]:
                table.add_column(Text(heading), justify="right", overflow="fold")
        else:
            lines = lines[:1]
            header, *rows = step_rows(evaluation, problems, steps)
            for heading in header:
                table.add_column(Text(heading), justify="right", no_wrap=True)
        for row in rows:
            table.add_row(*map(Text, row))
        caption = "\n".join([*lines, "in brackets: bootstrap 95 % intervals over problems"])
        show(table, Text(caption), width=max(80, 30 * len(header)))


def _write(evaluation: "Evaluation", out: Path, steps: dict[str, int] | None) -> None:
    from gtpo.report.evaluations import evaluation_panels, step_panels
    from gtpo.report.figure import draw_evaluations

    document = evaluation.to_json()
    if steps is None:
        panels = evaluation_panels((result, result["model"]) for result in document["results"])
    else:
        for result in document["results"]:
            result["step"] = steps[result["model"]]
        panels = step_panels(document["results"])
    path, figures = out / "results.json", [out / "curves.png", out / "curves.svg"]
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
        draw_evaluations(panels, figures)
    sys.stderr.write(f"wrote {path}, {figures[0]} and {figures[1].name}\n")


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected comma-separated whole numbers, such as 1,8,64; got {text!r}"
        ) from error
