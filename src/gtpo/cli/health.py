"""`gtpo health`: whether runs are healthy, and if not, why and what to try."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpo.cli.console import LEVEL_COLORS, load_noted
from gtpo.text import printable

if TYPE_CHECKING:
    from gtpo.health.verdict import Verdict

_EPILOG = """\
examples:
  gtpo health runs/my-run
  gtpo health runs/*/metrics.jsonl
  gtpo health outputs/checkpoint-500/trainer_state.json --json

Works for any GRPO run of TRL. docs/health.md has the thresholds and the traces that set them.
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "health",
        help="check whether runs are healthy",
        description="Report whether runs are healthy, warning or collapsing, why, and what to try.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", type=Path, help="a run's folder, metrics.jsonl, trainer_state.json or CSV")
    threshold_help = "default: the threshold that the run recorded, otherwise ln 2"
    add("--entropy-threshold", type=float, metavar="NATS", help=threshold_help)
    add("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    documents = [_document(run.name, run.health(args.entropy_threshold)) for run in load_noted(args.runs)]
    if args.json:
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
    else:
        _print(documents)
    return 0


def _document(name: str, verdicts: "list[Verdict]") -> dict[str, Any]:
    from gtpo.health.verdict import first_alarms

    last = verdicts[-1]
    return {
        "run": name,
        "step": int(last.step),
        "verdict": last.name,
        "level": last.level,
        "findings": [dataclasses.asdict(finding) for finding in last.findings],
        "history": [
            {"kind": kind, "level": level, "first_step": int(verdict.step)}
            for (kind, level), verdict in first_alarms(verdicts).items()
        ],
    }


def _print(documents: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.text import Text

    from gtpo.health.verdict import NAMES

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for document in documents:
        head = Text(f"{printable(document['run'])}, step {document['step']}: ")
        console.print(head.append(document["verdict"], style=f"bold {LEVEL_COLORS[document['level']]}"))
        for finding in document["findings"]:
            name = NAMES[finding["level"]]
            console.print(Text(f"  {name}: {finding['reason']}.\n    What to try: {finding['remedy']}."))
        present = {finding["kind"]: finding["level"] for finding in reversed(document["findings"])}
        earlier = [alarm for alarm in document["history"] if alarm["level"] > present.get(alarm["kind"], 0)]
        if earlier:
            alarms = [f"{alarm['kind'].replace('_', ' ')} (step {alarm['first_step']})" for alarm in earlier]
            console.print(Text(f"  earlier: {', '.join(alarms)}"))
