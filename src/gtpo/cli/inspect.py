"""`gtpo inspect`: what the update does to each token, as an HTML page or in the terminal."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.cli.console import note, show, write_page
from gtpo.errors import ConfigError

if TYPE_CHECKING:
    from gtpo.token_view.groups import LoadedGroups

_EPILOG = """\
examples:
  gtpo inspect runs/first
  gtpo inspect runs/first --step 11 --terminal
  gtpo inspect --completions runs/grpo/completions --tokenizer Qwen/Qwen2.5-3B-Instruct
  gtpo inspect --completions rollouts.jsonl --out rollouts.html

A line of rollouts.jsonl: {"step": 1, "prompt": "2 + 2?", "completion": "<answer>4</answer>", "reward": 1}
Rows with the same step and prompt are a group. "advantage" may replace "reward"; "step" is optional.
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "inspect",
        help="see what the update does to each token",
        description="Write a self-contained HTML page with the recorded groups of a run, token by token.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("run_folder", metavar="RUN", nargs="?", type=Path, help="the folder of a run, or its groups.jsonl")
    add("--step", type=int, metavar="N", help="only this step (default: all recorded steps)")
    add("--group", type=int, default=1, metavar="N", help="the group that is shown first, counted from 1 (default: 1)")
    add("--out", type=Path, metavar="FILE", help="the page to write (default: inspect.html next to the records)")
    terminal_help = "print one group of the last step, or of --step, instead of writing a page"
    add("--terminal", action="store_true", help=terminal_help)
    files_help = "completions of any GRPO run instead of RUN: .jsonl, .parquet as TRL logs it, or a folder of them"
    add("--completions", nargs="+", type=Path, metavar="FILE", help=files_help)
    tokenizer_help = "with --completions: a hub id or a folder (default: split into words)"
    add("--tokenizer", metavar="NAME", help=tokenizer_help)
    return parser


def run(args: argparse.Namespace) -> int:
    if (args.run_folder is None) == (args.completions is None):
        raise ConfigError("Pass either the folder of a run or files of completions (--completions), not both.")
    if args.tokenizer is not None and args.completions is None:
        raise ConfigError("--tokenizer only applies to --completions: the records of a run include their tokens.")
    if args.terminal and args.out:
        raise ConfigError("--terminal writes no page. Omit --out.")
    loaded = _load(args)
    if args.step is not None or args.terminal:
        loaded = loaded.at_step(loaded.steps[-1] if args.step is None else args.step)
    if not 1 <= args.group <= len(loaded.groups):
        raise ConfigError(f"--group must be from 1 to {len(loaded.groups)}, got {args.group}.")
    for text in loaded.notes:
        note(text)
    if args.terminal:
        from gtpo.token_view.terminal import group_view

        show(group_view(loaded.groups[args.group - 1]), width=100)
    else:
        _write(args, loaded)
    return 0


def _load(args: argparse.Namespace) -> "LoadedGroups":
    if args.completions:
        from gtpo.token_view.rollouts import load_rollouts

        return load_rollouts(args.completions, args.tokenizer)
    from gtpo.token_view.groups import load_groups

    return load_groups(args.run_folder)


def _write(args: argparse.Namespace, loaded: "LoadedGroups") -> None:
    from gtpo.token_view.page import render_page

    sources: list[Path] = args.completions or [args.run_folder]
    title = ", ".join(source.resolve().name for source in sources[:3])
    folder = sources[0] if sources[0].is_dir() else sources[0].parent
    out = args.out or folder / "inspect.html"
    page = render_page(loaded, title=title, rollouts=bool(args.completions), opened=args.group - 1)
    write_page(out, page)
