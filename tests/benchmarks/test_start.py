"""Every benchmark starts, and those with a tiny size run on a CPU."""

import os
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
