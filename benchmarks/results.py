"""results.csv: one row per measurement, with hardware, versions and commit. Rows are only added."""

import csv
import dataclasses
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

RESULTS = Path(__file__).with_name("results.csv")
TIMED_STEPS = "timed steps"
PACKAGES = ("torch", "transformers", "trl", "peft", "vllm", "math-verify")


@dataclasses.dataclass(frozen=True)
class Result:
    """The columns of results.csv, in order."""

    date: str
    commit: str
    hardware: str
    versions: str
    benchmark: str
    provider: str
    size: str
    metric: str
    median: float
    q20: float
    q80: float
    unit: str


def result(
    benchmark: str, provider: str, size: str, metric: str, values: Sequence[float], unit: str, device: str = ""
) -> Result:
    """A measurement from its repeats: median and 20/80 quantiles. The device is the GPU if there is one."""
    low, *_, high = statistics.quantiles(values, n=5, method="inclusive") if len(values) > 1 else [values[0]] * 2
    numbers = (float(f"{value:.6g}") for value in (statistics.median(values), low, high))
    return Result(
        datetime.now(UTC).date().isoformat(), commit(), hardware(device), versions(),
        benchmark, provider, size, metric, *numbers, unit,
    )  # fmt: skip


def report(rows: Sequence[Result], append: Path | None) -> None:
    """Print the rows, and append them to the file if there is one."""
    for row in rows:
        line = f"{row.benchmark}  {row.size}  {row.provider:<28} {row.metric:<28} {row.median:>10.6g} {row.unit}"
        sys.stdout.write(f"{line}  ({row.q20:.6g} to {row.q80:.6g})\n")
    sys.stdout.flush()
    if append is None:
        return
    is_new = not append.exists() or append.stat().st_size == 0
    with append.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(Result)])
        if is_new:
            writer.writeheader()
        writer.writerows(dataclasses.asdict(row) for row in rows)


def load(path: Path = RESULTS) -> list[Result]:
    """Every row of the file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = ("median", "q20", "q80")
    return [Result(**{**row, **{name: float(row[name]) for name in numbers}}) for row in rows]


def latest(rows: Sequence[Result], benchmark: str) -> list[Result]:
    """The last row of each kind of a benchmark."""
    kinds = {(row.hardware, row.provider, row.size, row.metric): row for row in rows if row.benchmark == benchmark}
    return list(kinds.values())


def exponent(amounts: Sequence[float], costs: Sequence[float]) -> float:
    """The p of cost ∝ amount^p that fits best: the slope of a line through the logarithms."""
    fitted = statistics.linear_regression([math.log(x) for x in amounts], [math.log(y) for y in costs])
    return fitted.slope


def synchronize() -> None:
    """Wait until the device has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def commit() -> str:
    """The variable GTPO_COMMIT, for a copy without history; otherwise the commit of git."""
    if "GTPO_COMMIT" in os.environ:
        return os.environ["GTPO_COMMIT"]
    command = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def hardware(device: str = "") -> str:
    if torch.cuda.is_available() and device != "cpu":
        return torch.cuda.get_device_name()
    names = [line.partition(":")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    name = names[0].strip() if names else platform.processor() or platform.machine()
    return f"CPU, {torch.get_num_threads()} thread(s) of {name}"


def versions() -> str:
    found = [f"python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
