"""How early `gtpo health` warns, compared with when the reward shows it: a Markdown table.

`python benchmarks/bench_health.py` prints the table of docs/health.md from tests/golden/health/*.csv.
"""

import argparse
import statistics
import sys
from pathlib import Path

from gtpo.health.state import WINDOW
from gtpo.health.verdict import health_of
from gtpo.runs.run import Run, load_run

TRACES = Path(__file__).resolve().parent.parent / "tests" / "golden" / "health"
VISIBLE_DROP = 2.0
"""A visible drop of the reward: a tenth of its scale of 20, averaged over as many rows as the verdict uses."""


def reward_shows(run: Run) -> int | None:
    """The first step at which the reward is visibly below its best; None if there is none."""
    series = run.series("reward")
    best = float("-inf")
    for end in range(WINDOW, len(series.values) + 1):
        mean = statistics.fmean(series.values[end - WINDOW : end])
        best = max(best, mean)
        if best - mean > VISIBLE_DROP:
            return int(series.steps[end - 1])
    return None


def first_alarm(run: Run, level: int) -> tuple[int, str] | None:
    """The first step with a verdict of at least this level, and its finding."""
    for verdict in health_of(run.rows):
        if verdict.level >= level:
            return int(verdict.step), verdict.findings[0].kind.replace("_", " ")
    return None


def row(path: Path) -> str:
    run = load_run(path)
    warned, alarmed, shown = first_alarm(run, 1), first_alarm(run, 2), reward_shows(run)
    lead = "–"
    if warned is not None:
        lead = "the reward never shows it" if shown is None else f"{shown - warned[0]:+d}"
    cells = [f"{alarm[0]} ({alarm[1]})" if alarm else "–" for alarm in (warned, alarmed)]
    return f"| {path.stem} | {cells[0]} | {cells[1]} | {shown or '–'} | {lead} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, help="runs or CSV files; default: tests/golden/health/*.csv")
    traces = parser.parse_args().traces or sorted(TRACES.glob("*.csv"))
    head = [
        "| trace | first warning or worse | first collapsing | reward shows it | steps ahead |",
        "| --- |" * 1 + " --- |" * 4,
    ]
    sys.stdout.write("\n".join([*head, *map(row, traces)]) + "\n")


if __name__ == "__main__":
    main()
