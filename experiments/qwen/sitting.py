"""Many arms and seeds on the real model, as many as one sitting on the GPU has time for.

    python -m experiments.qwen.sitting --spec qwen-leaderboard --arms grpo,dr-grpo,gtpo,component,annealed \\
        --seeds 21-24 --model DIR --data-dir DIR --out runs/qwen --minutes 23
    python -m experiments.qwen.sitting --spec dry --arms grpo,gtpo --seeds 21 --out runs/dry     # the lab, no GPU

Lanes run next to each other on the card (experiments.qwen.lane), because decoding leaves most of it idle. Each takes
the next job that no lane has. The arms of a seed are shuffled, the same way every time, and seeds come in order. The
same command in the next sitting continues with the jobs that have no results yet: keep OUT/results between sittings.
All sittings run from one clean commit. A job starts only while `--job-minutes` are left, and no job ends before its
last step: one that is unfinished after `--minutes` is stopped, and starts again in the next sitting.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.lab.arms import select_arms
from experiments.lab.jobs import parse_seeds
from experiments.lab.run_job import commit
from experiments.qwen.specs import SPECS, ArmRun
from gtpo.errors import ConfigError

POLL_SECONDS = 0.5
RESTARTS = 3
"""How often a lane that fails is started again before a job is done."""
WRONG_INPUT = 2
"""The exit code of a lane that would fail again: its model, problems or options cannot be used."""


def jobs(out: Path, spec: str, arms: str, seeds: str) -> list[ArmRun]:
    """Every arm with every seed.

    >>> [run.name for run in jobs(Path(), "dry", "grpo,gtpo,dr-grpo", "1")]
    ['dry_gtpo_seed1', 'dry_dr-grpo_seed1', 'dry_grpo_seed1']
    """
    runs: list[ArmRun] = []
    for seed in parse_seeds(seeds):
        names = select_arms(arms)
        random.Random(seed).shuffle(names)
        runs += [ArmRun(out, spec, arm, seed) for arm in names]
    return runs


def check_commit(results: Path) -> None:
    """Refuse a commit that does not name the code, and results of another commit."""
    current = commit()
    if current == "unknown" or current.endswith("+"):
        raise ConfigError(
            f"The runs would be of commit {current}. Start from a worktree without changes, or, in a copy without "
            "history, set GTPO_COMMIT."
        )
    commits: dict[str, str] = {}
    for path in sorted(results.glob("*.json")):
        try:
            content = dict(json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path} is damaged. Copy it again, or delete it: its job then runs again.") from error
        commits[path.stem] = content.get("commit", "unknown")
    if others := ", ".join(f"{name} ({other})" for name, other in commits.items() if other != current):
        raise ConfigError(
            f"{results} has runs of another commit than {current}: {others}. Start from a worktree of theirs."
        )


class Sitting:
    """Keeps the lanes running until every job is done, no lane has time for another, or the time is over."""

    def __init__(self, runs: Sequence[ArmRun], options: argparse.Namespace, arguments: Sequence[str]) -> None:
        self.runs, self.options, self.arguments = runs, options, arguments
        self.start, self.end = time.monotonic(), time.time() + 60 * options.minutes
        self.num_failures, self.ports = [0] * options.lanes, itertools.count(29511, 10)
        self.waiting = [run for run in runs if not run.is_done]

    def run(self) -> int:
        """Returns 0 if every job is done."""
        self._print(f"{len(self.runs)} jobs, {len(self.runs) - len(self.waiting)} already done")
        for run in self.runs:
            run.attempts.unlink(missing_ok=True)  # those of an earlier sitting
        lanes = [self._start(number) for number in range(self.options.lanes)]
        try:
            while self.waiting and time.time() < self.end and self._are_running(lanes):
                time.sleep(POLL_SECONDS)
                self._report()
        finally:
            for lane in lanes:
                kill(lane)
        self._report()
        return 1 if self.waiting else 0

    def _are_running(self, lanes: list[subprocess.Popen[bytes]]) -> bool:
        """Whether a lane is running, after those that failed were started again."""
        is_running = False
        for number, lane in enumerate(lanes):
            code = lane.poll()
            if code == WRONG_INPUT:
                last_line = self._log(number).read_text().strip().splitlines()[-1:]
                raise ConfigError(f"The runs cannot start: {''.join(last_line)} See {self._log(number)}.")
            if code and self.num_failures[number] < RESTARTS:
                self.num_failures[number] += 1
                self._print(f"lane {number} failed and starts again, see {self._log(number)}")
                kill(lane)  # what it has started, too
                lanes[number], code = self._start(number), None
            is_running |= code is None
        return is_running

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self._log(number).parent.mkdir(parents=True, exist_ok=True)
        with self._log(number).open("ab") as log:
            env = environment(next(self.ports))  # that of a lane that failed may still be taken
            return subprocess.Popen(self.command(number), stdout=log, stderr=log, env=env, start_new_session=True)

    def command(self, number: int) -> list[str]:
        command = [sys.executable, "-m", "experiments.qwen.sitting", *self.arguments]
        return [*command, "--lane", str(number), "--until", f"{self.end:.0f}", "--sitting", str(os.getpid())]

    def _log(self, number: int) -> Path:
        return self.options.out / "logs" / f"lane-{number}.txt"

    def _report(self) -> None:
        for run in [run for run in self.waiting if run.is_done]:
            self.waiting.remove(run)
            self.num_failures = [0] * len(self.num_failures)
            self._print(f"{len(self.runs) - len(self.waiting)}/{len(self.runs)}  {run.name}")

    def _print(self, text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - self.start:6.0f} s  {text}\n")
        sys.stderr.flush()


def kill(lane: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(lane.pid, signal.SIGKILL)
    lane.wait()


def environment(port: int) -> dict[str, str]:
    """Environment variables of a lane, with a port of its own."""
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.qwen.sitting", description="Run as many jobs as there is time for."
    )
    add = parser.add_argument
    add("--spec", choices=tuple(SPECS), default="qwen-leaderboard", help="default: %(default)s")
    add("--arms", default="grpo,dr-grpo,gtpo,component", help="comma-separated (default: %(default)s)")
    add("--seeds", default="21-24", help="default: %(default)s")
    add("--model", default=None, help="folder or hub id (default: the model of the spec)")
    add("--data-dir", default=None, help="folder of JSONL files to read problems from instead of the hub")
    add("--out", type=Path, default=Path("runs/qwen"), help="default: %(default)s")
    add("--steps", type=int, default=None, help="training steps, with --spec dry only")
    add("--lanes", type=int, default=2, help="how many jobs at a time (default: %(default)s)")
    add("--minutes", type=float, default=23.0, help="stop everything after this time (default: %(default)s)")
    add("--job-minutes", type=float, default=8.0, help="start no job with less time left (default: %(default)s)")
    add("--list", action="store_true", help="list the jobs and which of them are done; run nothing")
    add("--lane", type=int, default=None, help=argparse.SUPPRESS)
    add("--until", type=float, default=None, help=argparse.SUPPRESS)
    add("--sitting", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.steps and options.spec != "dry":
        parser.error("--steps is for --spec dry: a shorter run would count as one of the spec.")
    options.model = options.model or SPECS[options.spec].model
    runs = jobs(options.out, options.spec, options.arms, options.seeds)
    if options.list:
        sys.stdout.writelines(f"{'done' if run.is_done else 'open'}  {run.name}\n" for run in runs)
        return 0
    if options.lane is not None:
        from experiments.qwen.lane import run_lane

        run_lane(runs, options)
    if options.spec != "dry":
        check_commit(options.out / "results")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, which also ends the lanes
    return Sitting(runs, options, sys.argv[1:] if arguments is None else arguments).run()


if __name__ == "__main__":
    sys.exit(main())
