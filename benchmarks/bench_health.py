"""How well `gtpo health` works: its verdicts on traces of runs whose end is known, as Markdown tables.

`python benchmarks/bench_health.py` judges tests/golden/health/*.csv; `--write` puts the tables into docs/health.md.
A name begins with what the run is (broken, declining, idle, mismatch or sound). If it ends in a seed, the run has the
defaults of TRL, and thresholds were set without those of odd seeds (unseen). The others are older, and thresholds were
set with them.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gtpo.health.verdict import Verdict, health_of
from gtpo.runs.run import load_run

ROOT = Path(__file__).resolve().parent.parent
TRACES = ROOT / "tests" / "golden" / "health"
PAGE = ROOT / "docs" / "health.md"
MARKS = ("<!-- traces -->", "<!-- /traces -->")
NAME = re.compile(r"(?P<label>[a-z]+)_(?P<kind>.+?)(?:_s(?P<seed>\d+))?")


class Trace(NamedTuple):
    """One run with its verdicts. `seed` is None for the older traces."""

    name: str
    label: str
    kind: str
    seed: int | None
    verdicts: list[Verdict]

    @property
    def is_seen(self) -> bool:
        return self.seed is None or self.seed % 2 == 0

    @property
    def is_found(self) -> bool:
        """Whether the verdict at the end is the right one for a run that is not sound."""
        return self.verdicts[-1].level >= (2 if self.label == "broken" else 1)

    def first(self, level: int) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if verdict.level >= level), None)


def load(path: Path) -> Trace:
    match = NAME.fullmatch(path.stem)
    label, kind, seed = match.groups() if match else ("other", path.stem, None)
    seed = None if seed is None else int(seed)
    return Trace(path.stem, label, kind.replace("_", " "), seed, health_of(load_run(path).rows))


def alarm(verdict: Verdict | None) -> str:
    return "–" if verdict is None else f"{verdict.step:g} ({verdict.findings[0].kind.replace('_', ' ')})"


def row(trace: Trace) -> str:
    end, collapsing = trace.verdicts[-1], trace.first(2)
    left = "–" if collapsing is None else f"{end.step - collapsing.step:g}"
    seen = "older" if trace.seed is None else "seen" if trace.is_seen else "unseen"
    cells = [trace.name, seen, f"{end.step:g}", alarm(trace.first(1)), alarm(collapsing), left, end.name]
    return f"| {' | '.join(cells)} |"


def counts(traces: Sequence[Trace], label: str) -> str:
    """A line of the summary: hits for runs with trouble, false alarms for sound ones."""
    cells: list[str] = []
    for group in (
        [trace for trace in traces if trace.seed is not None and trace.is_seen],
        [trace for trace in traces if not trace.is_seen],
        [trace for trace in traces if trace.seed is None],
    ):
        members = [trace for trace in group if trace.label == label]
        if label != "sound":
            cells.append(f"{sum(trace.is_found for trace in members)} of {len(members)} found")
            continue
        collapsing, warned = (sum(trace.first(level) is not None for trace in members) for level in (2, 1))
        levels = [verdict.level for trace in members for verdict in trace.verdicts]
        rows = sum(level > 0 for level in levels)
        cells.append(f"{collapsing} of {len(members)} collapsing, {warned} warned of ({rows} of {len(levels)} rows)")
    return f"| {label} | {' | '.join(cells)} |"


def tables(paths: Sequence[Path]) -> str:
    """The summary, and one line per trace."""
    traces = [load(path) for path in paths]
    labels = list(dict.fromkeys(trace.label for trace in traces))
    lines = ["| runs | seen | unseen | older |", "| --- | --- | --- | --- |"]
    lines += [counts(traces, label) for label in labels]
    heads = [
        "trace",
        "",
        "steps",
        "first warning or worse",
        "first collapsing",
        "steps left then",
        "verdict at the end",
    ]
    lines += ["", f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |", *map(row, traces)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, help="runs or CSV files; default: tests/golden/health/*.csv")
    parser.add_argument(
        "--write", action="store_true", help="put the tables of the default traces into docs/health.md"
    )
    args = parser.parse_args()
    text = tables(args.traces or sorted(TRACES.glob("*.csv")))
    sys.stdout.write(text + "\n")
    if args.write:
        before, _, rest = PAGE.read_text().partition(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}")


if __name__ == "__main__":
    main()
