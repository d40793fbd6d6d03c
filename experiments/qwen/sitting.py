"""Many arms and seeds on the real model, two at a time, as many as one sitting on the GPU has time for.

    python -m experiments.qwen.sitting --spec qwen-leaderboard --arms grpo,dr-grpo,gtpo,component,balanced \\
        --seeds 21-24 --model DIR --data-dir DIR --out runs/qwen --minutes 27
    python -m experiments.qwen.sitting --spec qwen-math --arms grpo,gtpo --seeds 21-22 --pair-minutes 24 …

The arms of a seed are shuffled, the same way every time, and seeds come in order. The same command in the next sitting
continues with the jobs that have no results yet: keep OUT/results between sittings. Weights stay on the machine, so a
job that was trained and not evaluated there is trained again. A pair starts only while `--pair-minutes` are left, and
no job ends before its last step.
"""

import argparse
import random
import signal
import sys
import time
from pathlib import Path

from experiments.lab.arms import select_arms
from experiments.lab.jobs import parse_seeds
from experiments.qwen.run import ArmsRunner
from experiments.qwen.specs import SPECS, ArmRun


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


def run_pairs(runs: list[ArmRun], options: argparse.Namespace) -> int:
    """Run what is not done, in pairs, while there is time. Returns 0 if everything is done."""
    end = time.monotonic() + 60 * options.minutes
    waiting = [run for run in runs if not run.is_done]
    for first in range(0, len(waiting), 2):
        minutes = (end - time.monotonic()) / 60
        if minutes < options.pair_minutes:
            break
        limits = {"minutes": minutes, "evaluation_minutes": 0.0}
        ArmsRunner(waiting[first : first + 2], argparse.Namespace(**{**vars(options), **limits})).run()
    return 0 if all(run.is_done for run in runs) else 1


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
    add("--steps", type=int, default=None, help="training steps (default: those of the spec)")
    add("--minutes", type=float, default=27.0, help="time of the sitting (default: %(default)s)")
    add("--pair-minutes", type=float, default=12.0, help="start no pair with less time left (default: %(default)s)")
    add("--list", action="store_true", help="list the jobs and which of them are done; run nothing")
    options = parser.parse_args(arguments)
    options.model = options.model or SPECS[options.spec].model
    runs = jobs(options.out, options.spec, options.arms, options.seeds)
    if options.list:
        sys.stdout.writelines(f"{'done' if run.is_done else 'open'}  {run.name}\n" for run in runs)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, which also ends the arms
    return run_pairs(runs, options)


if __name__ == "__main__":
    sys.exit(main())
