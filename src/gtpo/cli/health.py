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

HELP = "check whether runs are healthy"
DESCRIPTION = "Report whether runs are healthy, warning or collapsing, why, and what to try."
EPILOG = """\
examples:
  gtpo health runs/my-run
  gtpo health runs/*/metrics.jsonl
  gtpo health outputs/checkpoint-500/trainer_state.json --json

  gtpo health RUN --exit-code || echo "look at it"

Works for any GRPO run of TRL. docs/health.md has the checks, their limits and how well they work.
"""

EXIT_CODES = {"healthy": 0, "unknown": 3, "warning": 4, "collapsing": 5}
"""With --exit-code, that of the worst run. 1 and 2 are errors."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", type=Path, help="a run's folder, metrics.jsonl, trainer_state.json or CSV")
    threshold_help = "default: the threshold that the run recorded, otherwise ln 2"
    add("--entropy-threshold", type=float, metavar="NATS", help=threshold_help)
    add("--json", action="store_true", help="print JSON, with the values that each check looked at")
    codes = ", ".join(f"{code} {name}" for name, code in EXIT_CODES.items())
    add("--exit-code", action="store_true", help=f"exit with the worst verdict: {codes}; 2 is an error")


def run(args: argparse.Namespace) -> int:
    documents = [_document(run.name, run.health(args.entropy_threshold)) for run in load_noted(args.runs)]
    if args.json:
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
    else:
        _print(documents)
    return max(EXIT_CODES[document["verdict"]] for document in documents) if args.exit_code else 0


def _document(name: str, verdicts: "list[Verdict]") -> dict[str, Any]:
    from gtpo.health.verdict import first_alarms

    last = verdicts[-1]
    return {
        "run": name,
        "step": int(last.step),
        "verdict": last.name,
        "level": last.level,
        "reason": last.reason,
        "findings": [dataclasses.asdict(finding) for finding in last.findings],
        "history": [
            {"kind": kind, "level": level, "first_step": int(verdict.step)}
            for (kind, level), verdict in first_alarms(verdicts).items()
        ],
        "checked": [{"kind": result.kind, "values": result.values} for result in last.checked],
        "not_checked": [{"kind": result.kind, "reason": result.skipped} for result in last.skipped],
    }


def _print(documents: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.text import Text

    from gtpo.health.verdict import NAMES, UNKNOWN

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for document in documents:
        head = Text(f"{printable(document['run'])}, step {document['step']}: ")
        color = LEVEL_COLORS[document["level"]] if document["verdict"] != UNKNOWN else "default"
        console.print(head.append(document["verdict"], style=f"bold {color}"))
        if document["verdict"] == UNKNOWN:
            console.print(Text(f"  {document['reason']}."))
        first_steps = {(alarm["kind"], alarm["level"]): alarm["first_step"] for alarm in document["history"]}
        for finding in document["findings"]:
            name, first = NAMES[finding["level"]], first_steps[finding["kind"], finding["level"]]
            reason = printable(finding["reason"])  # may contain the name of a reward function
            console.print(Text(f"  {name} (first at step {first}): {reason}.\n    What to try: {finding['remedy']}."))
        present = {finding["kind"]: finding["level"] for finding in reversed(document["findings"])}
        earlier = [alarm for alarm in document["history"] if alarm["level"] > present.get(alarm["kind"], 0)]
        if earlier:
            worst = {alarm["kind"]: alarm for alarm in sorted(earlier, key=lambda alarm: alarm["level"])}
            alarms = [f"{_words(alarm)} (step {alarm['first_step']})" for alarm in worst.values()]
            console.print(Text(f"  earlier: {', '.join(alarms)}"))
        console.print(Text(f"  checked: {', '.join(map(_words, document['checked']))}", style="dim"))
        if values := _values(document["checked"]):
            console.print(Text(f"  first → recent: {printable(values)}", style="dim"))
        if document["not_checked"]:
            console.print(Text(f"  not checked: {_not_checked(document['not_checked'])}", style="dim"))


def _values(checks: list[dict[str, Any]]) -> str:
    """Each value that the checks looked at: its first and its most recent mean.

    >>> _values([{"kind": "reward_falling", "values": {"reward": {"first": 0.25, "best": 0.5, "recent": 0.5}}}])
    'reward 0.25 → 0.5'
    """
    values = {name: list(numbers.values()) for check in checks for name, numbers in check["values"].items()}
    return ", ".join(
        f"{name.replace('_', ' ')} {numbers[0]:.3g} → {numbers[-1]:.3g}" for name, numbers in values.items()
    )


def _not_checked(checks: list[dict[str, Any]]) -> str:
    """The checks that could not run, by reason.

    >>> _not_checked([{"kind": "sampler_off", "reason": "ratio not logged"}, {"kind": "b", "reason": "has 1 row"}])
    'sampler off (ratio not logged), b (has 1 row)'
    """
    by_reason: dict[str, list[str]] = {}
    for check in checks:
        by_reason.setdefault(check["reason"], []).append(_words(check))
    return ", ".join(f"{', '.join(kinds)} ({reason})" for reason, kinds in by_reason.items())


def _words(entry: dict[str, Any]) -> str:
    return entry["kind"].replace("_", " ")
