"""Adds result files to the committed data: a table of runs, and their curves.

    python -m experiments.lab.collect runs/evidence            # adds its results to experiments/data
    python -m experiments.lab.collect --dry-run runs/evidence  # prints what would be added

lab_runs.csv               one row per run: job, machine and versions, evaluation after training
lab_curves_SETTING.csv.gz  one row per logged step of a run
real/*.json                results of experiments.qwen.sitting, unchanged
A new result replaces the row of the same job.
"""

import argparse
import csv
import dataclasses
import gzip
import io
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.lab.jobs import Job
from experiments.lab.run_job import CURVE, KS
from experiments.lab.settings import SETTINGS
from gtpo.errors import DataError
from gtpo.runs.run import Run

DATA = Path(__file__).parents[1] / "data"
RUNS_FILE = "lab_runs.csv"
AFTER = (
    *("accuracy", "format", "entropy", "length", "truncated", "greedy"),
    *(f"pass@{k}" for k in KS),
    *(f"maj@{k}" for k in KS),
    "greedy_format",
)
ADDED_LATER = ("greedy_format",)
"""The oldest runs were not measured in these."""
ABOUT = ("device", "python", "torch", "trl", "commit", "seconds", "steps", "temperature")
COLUMNS = ("setting", "arm", "seed", *ABOUT, *AFTER)
STEP_COLUMNS = ("step", *CURVE)


@dataclasses.dataclass(frozen=True)
class Record:
    """A run in the committed data: its row, and the columns of its curve."""

    job: Job
    about: Mapping[str, str]
    after: Mapping[str, float]
    curve: Mapping[str, Sequence[float | None]]

    def to_run(self) -> Run:
        """The same as a Run, for `gtpo compare`, `gtpo health` and the figures."""
        return Run(DATA, self.job.name, self.job.arm, self.job.seed, rows_of(self.curve), dict(self.after), [])


def rows_of(curve: Mapping[str, Sequence[float | None]]) -> list[dict[str, Any]]:
    """The rows of logged metrics that a curve was made from."""
    names = {"step": "step", **CURVE}
    columns = {names[name]: values for name, values in curve.items()}
    return [
        {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for row in zip(*columns.values(), strict=True)
    ]


def read_result(path: Path) -> Record:
    """The record in a result file of the runner."""
    content = json.loads(path.read_text())
    versions = content["versions"]
    about = {name: str(versions[name]) for name in ("python", "torch", "trl")}
    about |= {name: str(content[name]) for name in ("device", "commit", "seconds", "steps")}
    about["temperature"] = str(content["after"]["temperature"])
    after = {name: float(content["after"][name]) for name in AFTER if _is_measured(name, content["after"])}
    return Record(Job.parse(content["job"]), about, after, content["curve"])


def read_data(folder: Path = DATA) -> dict[Job, Record]:
    """All committed records, in the order of the table."""
    path = folder / RUNS_FILE
    if not path.is_file():
        return {}
    curves: dict[Job, dict[str, list[float | None]]] = {}
    for file in sorted(folder.glob("lab_curves_*.csv.gz")):
        for row in csv.DictReader(io.StringIO(gzip.decompress(file.read_bytes()).decode())):
            curve = curves.setdefault(_job(row), {name: [] for name in STEP_COLUMNS})
            for name, values in curve.items():
                values.append(float(row[name]) if row.get(name) else None)
    records: dict[Job, Record] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            job = _job(row)
            columns = curves.get(job, {"step": []})
            curve = {name: column for name, column in columns.items() if any(x is not None for x in column)}
            about = {name: row[name] for name in ABOUT}
            after = {name: float(row[name]) for name in AFTER if _is_measured(name, row)}
            records[job] = Record(job, about, after, curve or {"step": []})
    return records


def write_data(records: Iterable[Record], folder: Path = DATA) -> None:
    """Write the table and the curves. The same records give the same bytes."""
    ordered = sorted(records, key=lambda record: record.job)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUNS_FILE).write_text(_csv([COLUMNS, *map(_row, ordered)]))
    for setting in dict.fromkeys(record.job.setting for record in ordered):
        steps = [row for record in ordered if record.job.setting == setting for row in _step_rows(record)]
        text = _csv([("setting", "arm", "seed", *STEP_COLUMNS), *steps])
        (folder / f"lab_curves_{setting}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _row(record: Record) -> list[Any]:
    after = [record.after[name] if _is_measured(name, record.after) else "" for name in AFTER]
    return [*_key(record.job), *(record.about[name] for name in ABOUT), *after]


def _step_rows(record: Record) -> list[list[Any]]:
    num_steps = len(record.curve["step"])
    columns = [record.curve.get(name, [None] * num_steps) for name in STEP_COLUMNS]
    return [[*_key(record.job), *map(_cell, values)] for values in zip(*columns, strict=True)]


def find_results(paths: Sequence[Path]) -> list[Record]:
    """The results of lab jobs in folders of the runner."""
    files = [file for path in paths for file in sorted(path.rglob("*_seed*.json"))]
    if not files:
        where = ", ".join(map(str, paths))
        if unfinished := sum(1 for path in paths for _ in path.glob("logs/*_seed*.txt")):
            raise DataError(f"{where} has {unfinished} unfinished and no finished jobs. Repeat the runner's command.")
        raise DataError(f"No results in {where}. Pass folders that experiments.lab.run wrote to.")
    return [read_result(file) for file in files if file.name.partition("_")[0] in SETTINGS]


def _job(row: Mapping[str, str]) -> Job:
    return Job(row["setting"], row["arm"], int(row["seed"]))


def _is_measured(name: str, values: Mapping[str, Any]) -> bool:
    return name not in ADDED_LATER or values.get(name) not in (None, "")


def _key(job: Job) -> tuple[str, str, int]:
    return job.setting, job.arm, job.seed


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.lab.collect", description="Add results to the committed data."
    )
    parser.add_argument("folders", nargs="+", type=Path, help="folders that experiments.lab.run wrote to")
    parser.add_argument("--data", type=Path, default=DATA, help="default: %(default)s")
    parser.add_argument("--dry-run", action="store_true", help="print what would be added; write nothing")
    options = parser.parse_args(arguments)
    before = read_data(options.data)
    results = {record.job: record for record in find_results(options.folders)}
    sys.stdout.writelines(
        f"{'again' if job in before else 'new'}  {job.name}  accuracy {record.after['accuracy']:.3f}\n"
        for job, record in sorted(results.items())
    )
    real = [path for folder in options.folders for path in sorted(folder.rglob("qwen*_seed*.json"))]
    real = [path for path in real if not path.is_relative_to(options.data)]
    sys.stdout.writelines(f"real  {path.name}\n" for path in real)
    if not options.dry_run:
        if results:
            write_data({**before, **results}.values(), options.data)
        (options.data / "real").mkdir(parents=True, exist_ok=True)
        for path in real:
            shutil.copyfile(path, options.data / "real" / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
