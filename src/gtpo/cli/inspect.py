"""`gtpo inspect`: what the update does to each token, as an HTML page or in the terminal."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gtpo.cli.console import note, show, write_page
from gtpo.errors import ConfigError
from gtpo.files import write_atomic, writing
from gtpo.records import TOKEN_PAGE

if TYPE_CHECKING:
    from gtpo.token_view.groups import Groups

HELP = "see what the update does to each token"
DESCRIPTION = "Write an HTML page with the recorded groups of a run, token by token."
EPILOG = """\
examples:
  gtpo inspect runs/first
  gtpo inspect runs/first --step 11 --terminal
  gtpo inspect --completions runs/grpo/completions --tokenizer Qwen/Qwen2.5-3B-Instruct
  gtpo inspect --completions rollouts.jsonl --out rollouts.html

A line of rollouts.jsonl: {"step": 1, "prompt": "2 + 2?", "completion": "<answer>4</answer>", "reward": 1}
Rows with the same step and prompt are a group. "advantage" may replace "reward"; "step" is optional.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run_folder", metavar="RUN", nargs="?", type=Path, help="the folder of a run, or its groups.jsonl")
    add("--step", type=int, metavar="N", help="only this step (default: all recorded steps)")
    add("--group", type=int, default=1, metavar="N", help="the group that is shown first, counted from 1 (default: 1)")
    out_help = f"the page to write (default: {TOKEN_PAGE} next to the records); further pages go to FILE_groups/"
    add("--out", type=Path, metavar="FILE", help=out_help)
    terminal_help = "print one group of the last step, or of --step, instead of writing a page"
    add("--terminal", action="store_true", help=terminal_help)
    files_help = (
        "completions of any GRPO run instead of RUN: .parquet as TRL logs them, .jsonl (also of verl), or a folder"
    )
    add("--completions", nargs="+", type=Path, metavar="FILE", help=files_help)
    tokenizer_help = "with --completions: a hub id or a folder (default: split into words)"
    add("--tokenizer", metavar="NAME", help=tokenizer_help)


def run(args: argparse.Namespace) -> int:
    if (args.run_folder is None) == (args.completions is None):
        raise ConfigError("Pass either the folder of a run or files of completions (--completions), not both.")
    if args.tokenizer is not None and args.completions is None:
        raise ConfigError("--tokenizer only applies to --completions: the records of a run include their tokens.")
    if args.terminal and args.out:
        raise ConfigError("--terminal writes no page. Omit --out.")
    groups = _load(args)
    if args.step is not None:
        groups = groups.at_step(args.step)
    if args.terminal:
        _print(args, groups)
    else:
        _check_number(args.group, len(groups))
        _write(args, groups)
    return 0


def _load(args: argparse.Namespace) -> "Groups":
    if args.completions:
        from gtpo.token_view.rollouts import load_rollouts

        return load_rollouts(args.completions, args.tokenizer)
    from gtpo.token_view.groups import load_groups

    return load_groups(args.run_folder)


def _check_number(number: int, count: int) -> None:
    if not 1 <= number <= count:
        raise ConfigError(f"--group must be from 1 to {count}, got {number}.")


def _print(args: argparse.Namespace, groups: "Groups") -> None:
    """One group of the last step that has a usable record."""
    from gtpo.token_view.terminal import group_view

    for step in reversed(groups.steps):
        of_step = groups.at_step(step)
        if shown := list(of_step):
            _check_number(args.group, len(shown))
            _print_notes(of_step)
            show(group_view(shown[args.group - 1]), width=100)
            return
    raise ConfigError(f"There is no usable record of step {args.step}. Choose another one with --step.")


def _print_notes(groups: "Groups") -> None:
    for text in groups.notes:
        note(text)


def _write(args: argparse.Namespace, groups: "Groups") -> None:
    from gtpo.token_view.page import MAX_TOKENS, fragment, render_page

    sources: list[Path] = args.completions or [args.run_folder]
    title = ", ".join(_name(source.resolve()) for source in sources[:3])
    folder = sources[0] if sources[0].is_dir() else sources[0].parent
    out: Path = args.out or folder / TOKEN_PAGE
    pages = out.with_name(f"{out.stem}_groups")
    rollouts = bool(args.completions)
    _remove_pages(pages)
    if len(groups.blocks(MAX_TOKENS)) == 1:
        write_page(out, render_page(groups, title=title, rollouts=rollouts, opened=args.group - 1))
    else:
        _write_pages(out, pages, groups, title=title, rollouts=rollouts)
        if args.group > 1:
            note(f"Group {args.group} is at {out}#{fragment(groups.places[args.group - 1])}")
    _print_notes(groups)


def _name(source: Path) -> str:
    """The name of the run that a folder or a file belongs to."""
    return source.parent.name if source.name in ("groups.jsonl", "completions") else source.name


def _remove_pages(folder: Path) -> None:
    """Remove the pages of groups that an earlier call wrote."""
    if folder.is_symlink():
        raise ConfigError(f"{folder} is a link. Remove it, or choose another place with --out.")
    with writing(folder):
        if folder.is_dir():
            for page in folder.glob("page-*.html"):
                page.unlink()
            if not any(folder.iterdir()):
                folder.rmdir()


def _write_pages(out: Path, folder: Path, groups: "Groups", *, title: str, rollouts: bool) -> None:
    """Write the index to `out` and the pages of groups into the folder."""
    from gtpo.token_view.page import MAX_TOKENS, render_pages

    if out.exists() and not out.is_file():
        raise ConfigError(f"These groups need several pages, and {out} is not a file. Choose a file with --out.")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    pages = render_pages(
        groups, title=title, index=out.name, folder=folder.name, rollouts=rollouts, max_tokens=MAX_TOKENS
    )
    for page in pages:
        if page.name is None:
            write_page(out, page.html)
        else:
            with writing(folder / page.name):
                write_atomic(folder / page.name, page.html)
