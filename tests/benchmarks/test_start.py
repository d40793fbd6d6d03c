"""Every benchmark starts, and those with a tiny size run on a CPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path.name for path in (ROOT / "benchmarks").glob("*.py") if "def main" in path.read_text())
TINY = {
    "bench_conflicts.py": [],
    "bench_credit.py": [],
    "bench_inspect.py": ["--out", "out"],
    "bench_update.py": ["--steps", "1"],
    "bench_report.py": [],
    "bench_scaling.py": ["--steps", "1", "--amounts", "length"],
    "bench_step.py": ["--steps", "3", "--out", "out"],
    "bench_time_to_accuracy.py": ["--seeds", "1", "--providers", "TRL", "GTPO", "--out", "out"],
    "bench_whole_step.py": ["--steps", "3", "--sweep-steps", "3", "--out", "out"],
}

pytestmark = pytest.mark.slow


def run(program, *options, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "benchmarks" / program), *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_starts(program, tmp_path):
    assert "usage: " in run(program, "--help", folder=tmp_path)


@pytest.mark.parametrize("program", TINY)
def test_it_measures_at_its_tiny_size(program, tmp_path):
    assert "gtpo" in run(program, "--size", "tiny", *TINY[program], folder=tmp_path).lower()


def test_the_examples_of_the_benchmarks_hold(tmp_path):
    names = [str(path) for path in (ROOT / "benchmarks").glob("*.py") if ">>>" in path.read_text()]
    assert names
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'benchmarks'}"}
    done = subprocess.run(
        [sys.executable, "-m", "doctest", *names], env=environment, cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()


def test_the_cost_model_takes_the_rows_of_every_whole_step(tmp_path):
    printed = run("cost_model.py", folder=tmp_path)
    assert re.search(r"TRL GRPO: [\d.]+ s; of the peak: generation \d+%", printed)
    assert "| 1,024 | 262,144 |" in printed
