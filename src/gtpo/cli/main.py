"""`gtpo`: hands the arguments to a command and turns its errors into one line and an exit code."""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Sequence

import gtpo
from gtpo.cli import compare, health, report
from gtpo.cli import eval as eval_command
from gtpo.cli import inspect as inspect_command
from gtpo.cli import train as train_command
from gtpo.errors import GTPOError
from gtpo.text import printable

COMMANDS = (train_command, eval_command, inspect_command, report, compare, health)
"""Each has `add_parser(subparsers)`, which returns its parser, and `run(args)`, which returns the exit code."""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gtpo",
        description="GTPO (arXiv:2508.03772) for TRL and verl: per-token advantages for GRPO, with rewards, "
        "evaluation and run diagnosis.",
        epilog="example: gtpo train",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gtpo {gtpo.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = command.add_parser(subparsers)
        subparser.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command: 0 if it did its work, 2 if it was asked wrongly, 130 if it was interrupted."""
    parser = build_parser()
    args, args.rest = parser.parse_known_args(argv)
    if args.rest and not getattr(args, "takes_rest", False):
        args.parser.error(_unknown(args.rest, args.parser))
    spoken = logging.StreamHandler(sys.stderr)
    spoken.setLevel(logging.WARNING)  # a command may log more than it says
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", handlers=[spoken], force=True)
    try:
        code = args.run(args)
        sys.stdout.flush()
    except GTPOError as error:
        if args.traceback:
            raise
        sys.stderr.write(f"error: {printable(' '.join(str(error).split()))}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted" + getattr(args, "when_interrupted", "") + "\n")
        return 130
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if args.traceback or error.filename is None or error.strerror is None:
            raise
        sys.stderr.write(f"error: {error.filename}: {error.strerror} (--traceback shows where)\n")
        return 2
    return code


def _unknown(rest: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """What is not known, and for each option the one that was probably meant."""
    known = [option for action in parser._actions for option in action.option_strings]
    near = [found[0] for word in rest if word.startswith("-") and (found := difflib.get_close_matches(word, known, 1))]
    return f"unrecognized arguments: {' '.join(rest)}" + (f" (did you mean {', '.join(near)}?)" if near else "")


if __name__ == "__main__":
    sys.exit(main())
