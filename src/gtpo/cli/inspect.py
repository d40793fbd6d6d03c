"""`gtpo inspect`: what the update does to each token, as a page or in the terminal."""

import argparse
import sys
from pathlib import Path
from typing import Any

from gtpo.cli.console import show
from gtpo.errors import ConfigError
from gtpo.files import writing

_EPILOG = """\
examples:
  gtpo inspect runs/first
  gtpo inspect runs/first --step 11 --terminal
  gtpo inspect --completions runs/grpo/completions --tokenizer Qwen/Qwen2.5-3B-Instruct
  gtpo inspect --completions rollouts.jsonl --out rollouts.html

A line of rollouts.jsonl: {"step": 1, "prompt": "2 + 2?", "completion": "<answer>4</answer>", "reward": 1}
Rows with the same step and prompt are one group; "advantage" may stand in for "reward", "step" may be left out.
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "inspect",
        help="see what the update does to each token",
        description="Write one self-contained HTML page with the recorded groups of a run, token by token.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("run_folder", metavar="RUN", nargs="?", type=Path, help="the folder of a run, or its groups.jsonl")
    add("--step", type=int, default=None, metavar="N", help="only this step (default: all that were recorded)")
    add("--group", type=int, default=1, metavar="N", help="the group that shows first, from 1 (default: 1)")
    add("--out", type=Path, default=None, metavar="FILE", help="the page (default: inspect.html beside the records)")
    add(
        "--terminal",
        action="store_true",
        help="show one group here instead of writing a page (default: the last step's)",
    )
    add(
        "--completions",
        nargs="+",
        type=Path,
        default=None,
        metavar="FILE",
        help="rollouts of any GRPO run instead of RUN: .jsonl, .parquet as TRL logs it, or a folder of them",
    )
    add(
        "--tokenizer",
        default=None,
        metavar="T",
        help="with --completions: hub id or folder (default: split into words)",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    _check(args)
    recorded, title = _rollouts(args) if args.completions else _recorded(args)
    if args.step is not None:
        recorded = recorded.at_step(args.step)
    elif args.terminal:
        recorded = recorded.at_step(recorded.steps[-1])
    if not 1 <= args.group <= len(recorded.groups):
        raise ConfigError(f"--group must be from 1 to {len(recorded.groups)}, got {args.group}.")
    for note in recorded.notes:
        sys.stderr.write(f"note: {note}\n")
    if args.terminal:
        _show(recorded.groups[args.group - 1])
    else:
        _write(args, recorded, title)
    return 0


def _check(args: argparse.Namespace) -> None:
    if (args.run_folder is None) == (args.completions is None):
        raise ConfigError(
            "Give either the folder of a run or files of rollouts (--completions), not both and not neither."
        )
    if args.tokenizer is not None and args.completions is None:
        raise ConfigError("--tokenizer is for --completions: the records of a run have their tokens already.")
    if args.terminal and args.out:
        raise ConfigError("--terminal writes no page: leave out --out.")


def _recorded(args: argparse.Namespace) -> tuple[Any, str]:
    from gtpo.token_view.groups import read_recorded

    return read_recorded(args.run_folder), args.run_folder.resolve().name


def _rollouts(args: argparse.Namespace) -> tuple[Any, str]:
    from gtpo.token_view.encoders import load_encoder, word_encoder
    from gtpo.token_view.rollouts import TEXT_ONLY, WORDS_ONLY, read_rollouts

    encode = word_encoder() if args.tokenizer is None else load_encoder(args.tokenizer)
    recorded = read_rollouts(args.completions, encode)
    recorded.notes[:0] = [TEXT_ONLY] if args.tokenizer else [TEXT_ONLY, WORDS_ONLY]
    return recorded, ", ".join(path.name for path in args.completions[:3])


def _show(group: Any) -> None:
    from gtpo.token_view.terminal import group_view

    show(group_view(group), width=100)


def _write(args: argparse.Namespace, recorded: Any, title: str) -> None:
    from gtpo.token_view.page import render_page

    source: Path = args.completions[0] if args.completions else args.run_folder
    out = args.out or (source if source.is_dir() else source.parent) / "inspect.html"
    page = render_page(recorded, title=title, rollouts=bool(args.completions), opened=args.group - 1)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    sys.stdout.write(f"{out}\n")
