"""Seconds and memory of `gtpo report`, `gtpo compare` and `gtpo health` over many long runs.

    python benchmarks/bench_report.py                      # 200 runs x 2,000 steps
    python benchmarks/bench_report.py --size tiny          # seconds

The runs are made up: two methods, half of the runs each, with as many metrics in a row as GTPO logs.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = {"full": (200, 2000), "tiny": (4, 50)}
"""Runs, and steps of each."""
METHODS = ("gtpo", "grpo")
_GTPO = "import sys; from gtpo.cli.main import main; sys.exit(main(sys.argv[1:]))"
_LENGTHS = ("completions/{}_length", "completions/{}_terminated_length")
_RATIO = "sampling/importance_sampling_ratio/{}"


def make_row(rng: random.Random, step: int, steps: int, level: float) -> dict[str, Any]:
    """One logged row: curves that rise and fall, with noise."""
    done = step / steps
    accuracy = level * (1 - math.exp(-4 * done)) + rng.gauss(0, 0.03)
    noise = {name.format(part): 100 + 50 * rng.random() for name in _LENGTHS for part in ("min", "mean", "max")}
    clips = {f"clip_ratio/{name}": rng.random() / 100 for name in ("low_mean", "low_min", "high_mean", "high_max")}
    return {
        "step": step,
        "seconds": 3.1 * step,
        "loss": rng.gauss(0, 0.01),
        "grad_norm": math.exp(rng.gauss(-1, 0.5)),
        "learning_rate": 1e-6 * (1 - done),
        "num_tokens": 60_000.0 * step,
        "accuracy": min(1.0, max(0.0, accuracy)),
        "format": min(1.0, 0.6 + 0.4 * done),
        "reward": 20 * accuracy + rng.random(),
        "reward_std": 4 + rng.random(),
        "frac_reward_zero_std": 0.3 * rng.random(),
        **{
            f"rewards/{name}_reward/{part}": rng.random()
            for name in ("answer", "tags", "length")
            for part in ("mean", "std")
        },
        "entropy": 0.5 - 0.3 * done + rng.gauss(0, 0.02),
        **noise,
        "completions/clipped_ratio": 0.05 * rng.random(),
        **clips,
        **{_RATIO.format(part): 1 + rng.gauss(0, 0.01) for part in ("min", "mean", "max")},
        **{f"gtpo/frac_{name}": rng.random() for name in ("kept", "conflict", "tied_groups", "distinct", "flipped")},
        **{f"gtpo/{name}": rng.random() for name in ("token_entropy", "entropy_mean", "entropy_max", "weight_mean")},
        **{f"gtpo/seconds_{name}": rng.random() for name in ("sampling", "scoring", "shaping", "update")},
        "step_time": 3 + rng.random(),
        "epoch": done,
        "health/level": 0,
    }


def make_runs(folder: Path, runs: int, steps: int) -> None:
    """Write the folders of the runs."""
    for number in range(runs):
        seed, method = number // 2, METHODS[number % 2]
        rng = random.Random(number)
        path = folder / f"{method}-seed{seed}"
        path.mkdir(parents=True)
        rows = (make_row(rng, step, steps, 0.8 + 0.05 * rng.random()) for step in range(1, steps + 1))
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (path / "run.json").write_text(json.dumps({"method": method, "seed": seed}))


def measure(*arguments: str) -> tuple[float, float, float]:
    """Seconds, seconds of CPU time, and GB that a command takes."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", _GTPO, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"gtpo {arguments[0]} failed with {os.waitstatus_to_exitcode(status)}.")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="full", help="how many runs and steps")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the runs in this folder, or use those there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gtpo-report-") as temporary:
        folder = options.keep or Path(temporary)
        if not any(folder.glob("*/metrics.jsonl")):
            make_runs(folder, *SIZES[options.size])
        first, second = ([str(path) for path in sorted(folder.glob(f"{method}-*"))] for method in METHODS)
        num_bytes = sum(path.stat().st_size for path in folder.glob("*/metrics.jsonl"))
        sys.stdout.write(f"{len(first) + len(second)} runs, {num_bytes / 1e6:.0f} MB of metrics\n")
        page = Path(temporary) / "report.html"
        commands = {
            "report": ["report", *first, *second, "--out", str(page)],
            "compare": ["compare", *first, "--vs", *second],
            "health": ["health", *first[: len(first) // 2]],
        }
        for name, arguments in commands.items():
            seconds, busy, gigabytes = measure(*arguments)
            sys.stdout.write(f"gtpo {name}: {seconds:.1f} s, {busy:.1f} s of CPU time, {gigabytes:.2f} GB\n")
            sys.stdout.flush()
        sys.stdout.write(f"report.html: {page.stat().st_size / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main()
