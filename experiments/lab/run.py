"""Runs the jobs of an experiment, several at a time, each in a process of its own.

    python -m experiments.lab.run --setting comfortable --arms main --seeds 1-8 --jobs 12 --out runs/evidence

After an interruption, or when `--minutes` are over, the same command continues: finished jobs are skipped, the others
resume from their last checkpoint.
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

from experiments.lab.jobs import Job, JobFolder, make_jobs

POLL_SECONDS = 0.5


class Runner:
    """Keeps `num_at_once` processes running until no job is left or the time is over."""

    def __init__(self, folder: JobFolder, num_at_once: int, device: str, minutes: float | None = None) -> None:
        self.folder = folder
        self.num_at_once = num_at_once
        self.device = device
        self.deadline = None if minutes is None else time.monotonic() + 60 * minutes
        self.running: dict[Job, subprocess.Popen[bytes]] = {}
        self.failed: list[Job] = []
        self.is_stopping = False

    def run(self, jobs: Sequence[Job]) -> int:
        """Returns 0 if every job has its result."""
        waiting = [job for job in jobs if not self.folder.is_done(job)]
        self._print(
            f"{len(jobs)} jobs, {len(jobs) - len(waiting)} already done, {self.num_at_once} at a time; "
            f"progress of each in {self.folder.path / 'logs'}"
        )
        start, total = time.monotonic(), len(waiting)
        while (waiting and not self.is_stopping) or self.running:
            while waiting and len(self.running) < self.num_at_once and not self.is_stopping:
                job = waiting.pop(0)
                self.running[job] = self._start(job)
            for job in self._finished():
                state = "stopped" if self.is_stopping else f"FAILED, see {self.folder.log(job)}"
                state = "done" if self.folder.is_done(job) else state
                num_finished = total - len(waiting) - len(self.running)
                self._print(f"{time.monotonic() - start:6.0f} s  {num_finished}/{total}  {job.name}: {state}")
            if self.deadline is not None and time.monotonic() > self.deadline and not self.is_stopping:
                self.stop()
            time.sleep(POLL_SECONDS)
        return 0 if all(self.folder.is_done(job) for job in jobs) else 1

    def stop(self, *_: Any) -> None:
        """Start no more jobs. Each running job finishes its step, saves a checkpoint and exits."""
        self.is_stopping = True
        self._print(f"stopping {len(self.running)} jobs; the same command continues")
        for process in self.running.values():
            process.terminate()

    def _start(self, job: Job) -> subprocess.Popen[bytes]:
        log = self.folder.log(job)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            command = [sys.executable, "-m", "experiments.lab.run_job", job.name, "--out", str(self.folder.path)]
            return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment(self.device))

    def _finished(self) -> list[Job]:
        finished = [job for job, process in self.running.items() if process.poll() is not None]
        for job in finished:
            del self.running[job]
            if not self.folder.is_done(job):
                self.failed.append(job)
        return finished

    def _print(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def environment(device: str) -> dict[str, str]:
    """One thread per job, so that the numbers do not depend on how many jobs run at a time."""
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
        help="comma-separated: comfortable, noise, edge, batch; smoke takes seconds (default: %(default)s)",
    )
    add("--arms", default="main", help="comma-separated arms and groups of arms (default: %(default)s)")
    add("--seeds", default="1-8", help="such as 1-8,11 (default: %(default)s)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time (default: one per core)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    add("--minutes", type=float, default=None, help="stop after this time, with checkpoints (default: never)")
    add("--out", type=Path, default=Path("runs/evidence"), help="default: %(default)s")
    add("--list", action="store_true", help="list the jobs and which of them are done; run nothing")
    options = parser.parse_args(arguments)
    jobs = [job for setting in options.setting.split(",") for job in make_jobs(setting, options.arms, options.seeds)]
    folder = JobFolder(options.out)
    if options.list:
        sys.stdout.writelines(f"{'done' if folder.is_done(job) else 'open'}  {job.name}\n" for job in jobs)
        return 0
    runner = Runner(folder, options.jobs, options.device, options.minutes)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, runner.stop)
    return runner.run(jobs)


if __name__ == "__main__":
    sys.exit(main())
