"""Run the contract tests on the newest patch of each minor version of TRL since the oldest that gtpo supports.

    python scripts/test_matrix.py                  # all minors of the tested window, and newer releases
    python scripts/test_matrix.py 1.14.2 1.16.0    # only these

Each version is installed without dependencies into build/trl/VERSION, which comes first on PYTHONPATH, so the rest of
the environment is the same for all. Prints a table and fails if a version fails. A version is skipped if TRL's own
GRPOTrainer does not train with it on a CPU.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from gtpo.trl.versions import OLDEST

ROOT = Path(__file__).parents[1]
TESTS = [
    "tests/contracts/test_trl.py",
    "tests/trl/test_checks.py",
    "tests/trl/test_config.py",
    "tests/trl/fast/test_generation.py",
    "tests/trl/fast/test_sharing.py",
    "tests/trl/fast/test_trainer.py",
    "tests/trl/fast/test_correction.py",
    "tests/trl/test_one_pass.py",
    "tests/trl/watching/test_watch.py",
    "tests/trl/watching/test_watch_training.py",
    "tests/training/config/test_option_names.py",
    "tests/trl/fast/test_resume.py::test_plain_grpo_resumes_exactly_too",
    "tests/trl/fast/test_resume.py::test_a_killed_and_resumed_run_equals_an_uninterrupted_one[in the third epoch]",
]
STOCK_RUN = """
import tempfile
from tests.tiny import save_tiny_model
from tests.trl.checked import parity_reward, prompts
from trl import GRPOConfig, GRPOTrainer

with tempfile.TemporaryDirectory() as folder:
    save_tiny_model(folder)
    options = {"max_steps": 1, "num_generations": 4, "max_completion_length": 4, "report_to": "none"}
    GRPOTrainer(folder, parity_reward, GRPOConfig(folder, bf16=False, use_cpu=True, **options), prompts()).train()
"""


def released_versions() -> list[str]:
    """The newest patch of each minor since OLDEST, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "trl", "--disable-pip-version-check"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    numbers = re.findall(r"\b(\d+)\.(\d+)\.(\d+)(?=[,\s])", output.partition("Available versions:")[2])
    newest: dict[tuple[int, int], int] = {}
    for major, minor, patch in (map(int, number) for number in numbers):
        if (major, minor) >= OLDEST:
            newest[major, minor] = max(patch, newest.get((major, minor), 0))
    return [f"{major}.{minor}.{patch}" for (major, minor), patch in sorted(newest.items())]


def install(version: str) -> Path:
    folder = ROOT / "build" / "trl" / version
    if not folder.is_dir():
        options = ["--quiet", "--no-deps", "--disable-pip-version-check", "--target", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, f"trl=={version}"], check=True)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (folder, ROOT / "src", ROOT)))
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def outcome(version: str) -> str:
    """What the tests reported, starting with passed, failed or skipped."""
    folder = install(version)
    tested = run(folder, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *TESTS)
    summary = tested.stdout.strip().rpartition("\n")[2]
    if tested.returncode == 0:
        return f"passed   {summary}"
    stock = run(folder, "-c", STOCK_RUN)
    if stock.returncode != 0:
        error = re.findall(r"^\w+(?:Error|Exception).*", stock.stderr, re.MULTILINE)[-1:] or [stock.stderr[-200:]]
        return f"skipped  TRL's own GRPOTrainer does not train on a CPU: {error[0]}"
    failures = "\n".join(re.findall(r"^(?:FAILED|ERROR) .*", tested.stdout, re.MULTILINE)) or tested.stderr[-2000:]
    return f"failed   {summary}\n{failures}"


def main() -> int:
    results: dict[str, str] = {}
    for version in sys.argv[1:] or released_versions():
        start = time.monotonic()
        results[version] = outcome(version)
        sys.stdout.write(f"TRL {version:8} {results[version]} ({time.monotonic() - start:.0f} s)\n")
        sys.stdout.flush()
    return int(any(result.startswith("failed") for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
