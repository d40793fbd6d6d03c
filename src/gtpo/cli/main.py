"""`gtpo`: passes the arguments to a command and turns its errors into one line and an exit code."""

import argparse
import difflib
import importlib.metadata
import logging
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

import gtpo
from gtpo.cli import compare, health, report
from gtpo.cli import eval as eval_command
from gtpo.cli import inspect as inspect_command
from gtpo.cli import train as train_command
from gtpo.cli.console import PrintableFormatter, WarningHandler
from gtpo.errors import GTPOError, naming_the_extra
from gtpo.text import printable

COMMANDS = (train_command, eval_command, inspect_command, report, compare, health)
"""Each file is a command of its name, with texts for its help, `add_options(parser)`, and `run(args)`, which returns
the exit code.

`run` imports what the command needs, so that `gtpo --help` imports none of it.
"""

_REPORTED = ("torch", "transformers", "trl", "vllm", "verl")
"""The packages whose versions `gtpo --version` prints, because a bug report needs them."""

_LONGEST_ERROR = 2000
"""Characters of an error that are printed: it may repeat a value from a file."""


class Parser(argparse.ArgumentParser):
    """A parser that keeps the lines of its texts and takes no abbreviated options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)


class PrintVersions(argparse.Action):
    """Print the version of gtpo, then those of Python and of the libraries it runs on, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        lines = [f"gtpo {gtpo.__version__}", f"python {platform.python_version()}"]
        lines += [f"{name} {_installed_version(name)}" for name in _REPORTED]
        sys.stdout.write("\n".join(lines) + "\n")
        parser.exit()


def _installed_version(name: str) -> str:
    """The version of an installed package, without importing it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def build_parser() -> argparse.ArgumentParser:
    """The parser of `gtpo` with one subparser per command."""
    parser = Parser(
        prog="gtpo",
        description="GTPO (arXiv:2508.03772) for TRL and verl: per-token advantages for GRPO, with rewards, "
        "evaluation and run diagnosis.",
        epilog="example: gtpo train",
    )
    parser.add_argument("--version", action=PrintVersions, nargs=0, help="show the versions of gtpo and its libraries")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        texts = {"help": command.HELP, "description": command.DESCRIPTION, "epilog": command.EPILOG}
        subparser = subparsers.add_parser(name, **texts)
        command.add_options(subparser)
        subparser.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0 on success, 2 after an error, 130 after an interruption."""
    parser = build_parser()
    args, args.rest = parser.parse_known_args(argv)
    if args.rest and not getattr(args, "takes_rest", False):
        args.parser.error(_unknown_arguments(args.rest, args.parser))
    _set_up_logging()
    try:
        with naming_the_extra():
            code = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted" + getattr(args, "when_interrupted", "") + "\n")
        return 130
    except BrokenPipeError:
        # The reader of the pipe, such as `head`, has exited. Without this, Python fails again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (GTPOError, OSError) as error:
        line = _error_line(error)
        if args.traceback or line is None:
            raise
        sys.stderr.write(f"error: {line}\n")
        return 2
    return code


def _set_up_logging() -> None:
    """Print warnings to stderr. A command may log more than that to a file of its own."""
    handler = WarningHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(PrintableFormatter("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _error_line(error: GTPOError | OSError) -> str | None:
    """The error in one line; None if it is an OSError without a file, which only a traceback explains."""
    if isinstance(error, GTPOError):
        line = printable(" ".join(str(error).split()))
        return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}…"
    if error.filename is None or error.strerror is None:
        return None
    return printable(f"{error.filename}: {error.strerror} (--traceback shows where)")


def _unknown_arguments(rest: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """The message for unknown arguments, with the closest known option for each."""
    known = [option for action in parser._actions for option in action.option_strings]
    matches = [difflib.get_close_matches(word, known, 1) for word in rest if word.startswith("-")]
    suggestions = ", ".join(match[0] for match in matches if match)
    return f"unrecognized arguments: {' '.join(rest)}" + (f" (did you mean {suggestions}?)" if suggestions else "")


if __name__ == "__main__":
    sys.exit(main())
