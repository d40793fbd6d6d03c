"""`gtpo health`: is this run healthy, and if not, why and what to try."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from gtpo.cli.notes import write_notes, write_skipped
from gtpo.text import printable

_EPILOG = """\
examples:
  gtpo health runs/my-run
  gtpo health runs/*/metrics.jsonl
  gtpo health outputs/checkpoint-500/trainer_state.json --json

Works for any GRPO run of TRL. The thresholds, and the traces that set them, are in docs/health.md.
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "health",
        help="say whether runs are healthy",
        description="Say whether runs are healthy, warning or collapsing, why, and what to try.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", type=Path, help="a run's folder, metrics.jsonl, trainer_state.json or CSV")
    add("--entropy-threshold", type=float, default=None, metavar="NATS", help="default: the run's own, else ln 2")
    add("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    from gtpo.health.verdict import first_alarms
    from gtpo.runs.run import health_of_run, load_runs, runs_among

    documents: list[dict[str, Any]] = []
    for one in load_runs(runs_among(args.runs, write_skipped)):
        write_notes(one)
        verdicts = health_of_run(one, args.entropy_threshold)
        last = verdicts[-1]
        history = [
            {"kind": kind, "level": level, "first_step": int(verdict.step)}
            for (kind, level), verdict in first_alarms(verdicts).items()
        ]
        documents.append(
            {
                "run": one.name,
                "step": int(last.step),
                "verdict": last.name,
                "level": last.level,
                "findings": [dataclasses.asdict(finding) for finding in last.findings],
                "history": history,
            }
        )
    if args.json:
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
    else:
        _print(documents)
    return 0


def _print(documents: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for document in documents:
        color = ("green", "yellow", "red")[document["level"]]
        head = Text(f"{printable(document['run'])}, step {document['step']}: ")
        console.print(head.append(document["verdict"], style=f"bold {color}"))
        for finding in document["findings"]:
            word = ("", "warning", "collapsing")[finding["level"]]
            console.print(Text(f"  {word}: {finding['reason']}.\n    What to try: {finding['remedy']}."))
        gone = [one for one in document["history"] if not _is_present(one, document["findings"])]
        if gone:
            told = ", ".join(f"{one['kind'].replace('_', ' ')} (step {one['first_step']})" for one in gone)
            console.print(Text(f"  earlier: {told}"))


def _is_present(alarm: dict[str, Any], findings: list[dict[str, Any]]) -> bool:
    return any(finding["kind"] == alarm["kind"] and finding["level"] >= alarm["level"] for finding in findings)
