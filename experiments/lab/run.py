"""The runner: so many jobs at a time, each in a process of its own, those that are done skipped.

    python -m experiments.lab.run --setting comfortable --arms main --seeds 1-8 --jobs 12 --out runs/evidence

May be killed and started again with the same command, by hand or by a clock (`--minutes`): finished jobs keep their
results, the others go on from their last checkpoint.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.lab.jobs import Folder, Job, make_jobs

POLL_SECONDS = 0.5


class Runner:
    """Keeps `num_at_once` processes busy until no job is left, or the time is up."""

    def __init__(self, folder: Folder, num_at_once: int, device: str, minutes: float | None = None) -> None:
        self.folder = folder
        self.num_at_once = num_at_once
        self.device = device
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self.running: dict[Job, subprocess.Popen[bytes]] = {}
        self.failed: list[Job] = []
        self.is_stopping = False

    def run(self, jobs: Sequence[Job]) -> int:
        """0 if every job has its result now."""
        waiting = [job for job in jobs if not self.folder.is_done(job)]
        self._say(f"{len(jobs)} jobs, {len(jobs) - len(waiting)} done before, {self.num_at_once} at a time")
        start, total = time.monotonic(), len(waiting)
        while (waiting and not self.is_stopping) or self.running:
            while waiting and len(self.running) < self.num_at_once and not self.is_stopping:
                job = waiting.pop(0)
                self.running[job] = self._start(job)
            for job in self._ended():
                state = "stopped" if self.is_stopping else f"FAILED, see {self.folder.log(job)}"
                state = "done" if self.folder.is_done(job) else state
                num_over = total - len(waiting) - len(self.running)
                self._say(f"{time.monotonic() - start:6.0f} s  {num_over}/{total}  {job.name}: {state}")
            if self.deadline is not None and time.monotonic() > self.deadline and not self.is_stopping:
                self.stop()
            time.sleep(POLL_SECONDS)
        return 0 if all(self.folder.is_done(job) for job in jobs) else 1

    def stop(self, *_: Any) -> None:
        """Start nothing more; each running job finishes its step, saves a checkpoint and ends."""
        self.is_stopping = True
        self._say(f"stopping {len(self.running)} jobs")
        for process in self.running.values():
            process.terminate()

    def _start(self, job: Job) -> subprocess.Popen[bytes]:
        log = self.folder.log(job)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "experiments.lab.job", job.name, "--out", str(self.folder.path)],
                stdout=file, stderr=subprocess.STDOUT, env=environment(self.device),
            )  # fmt: skip

    def _ended(self) -> list[Job]:
        over = [job for job, process in self.running.items() if process.poll() is not None]
        for job in over:
            del self.running[job]
            if not self.folder.is_done(job):
                self.failed.append(job)
        return over

    def _say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def environment(device: str) -> dict[str, str]:
    """One thread a job, so that many fit beside each other and the numbers do not depend on how many did."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    env |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONHASHSEED": "0"}
    return env | {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else env


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.lab.run", description="Run the jobs of an experiment."
    )
    add = parser.add_argument
    add(
        "--setting",
        default="comfortable",
        help="with commas: comfortable, noise, edge, batch; smoke takes seconds (default: %(default)s)",
    )
    add("--arms", default="main", help="with commas: arms and groups of arms (default: %(default)s)")
    add("--seeds", default="1-8", help="such as 1-8,11 (default: %(default)s)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: one a core)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    add("--minutes", type=float, default=None, help="stop after so long, with checkpoints (default: never)")
    add("--out", type=Path, default=Path("runs/evidence"), help="default: %(default)s")
    add("--list", action="store_true", help="print the jobs and which of them are done; run nothing")
    options = parser.parse_args(arguments)
    jobs = [job for setting in options.setting.split(",") for job in make_jobs(setting, options.arms, options.seeds)]
    folder = Folder(options.out)
    if options.list:
        sys.stdout.writelines(f"{'done' if folder.is_done(job) else 'open'}  {job.name}\n" for job in jobs)
        return 0
    runner = Runner(folder, options.jobs, options.device, options.minutes)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, runner.stop)
    return runner.run(jobs)


if __name__ == "__main__":
    sys.exit(main())
