"""The real model: trains and evaluates two arms with one seed side by side on one GPU.

    python -m experiments.qwen.run --arms grpo,gtpo --seed 1 --model DIR --data-dir DIR --out runs/real --minutes 24

The arms start one after the other, because vLLM measures the free GPU memory while it starts. They stop after the same
step, and each is evaluated as soon as it has stopped. If time is short, they stop early, together. Every result is
written to a file of its own at once; the same command again does what is missing. `--spec dry` does the same with the
lab's tiny model and transformers, to test the set-up.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.lab.arms import ARMS
from experiments.qwen.specs import SPECS, ArmRun
from gtpo.errors import require_choice

POLL_SECONDS = 0.5
START_SECONDS = 240
EVALUATION_MINUTES = 6.0


class ArmsRunner:
    """Trains and evaluates a few arms at the same time until a deadline."""

    def __init__(self, runs: Sequence[ArmRun], options: argparse.Namespace) -> None:
        self.runs = runs
        self.options = options
        self.start = time.monotonic()
        self.end = self.start + 60 * options.minutes
        self.processes: dict[ArmRun, subprocess.Popen[bytes]] = {}
        self.evaluated: list[ArmRun] = []

    def run(self) -> int:
        """Returns 0 if every arm is trained and evaluated."""
        try:
            self._run()
        finally:
            self._kill()
        return 0 if all(run.is_done for run in self.runs) else 1

    def _run(self) -> None:
        for run in self.runs:
            if not run.is_trained:
                self._stop_like_the_others(run)
                run.remove()  # its old steps would pass for the first step of the new attempt
                self._start("train", run, attempt=0)
                self._wait_for_first_step(run)
        deadlines = [
            (self.end - 60 * self.options.evaluation_minutes, self._stop_together),
            (self.end, self._give_up),
        ]
        while not self._start_evaluations():
            while deadlines and time.monotonic() > deadlines[0][0]:
                deadlines.pop(0)[1]()
            time.sleep(POLL_SECONDS)

    def _stop_like_the_others(self, run: ArmRun) -> None:
        """Let an arm that starts after another one has stopped train for as many steps."""
        steps = [json.loads(other.curve.read_text())["steps"] for other in self.runs if other.curve.is_file()]
        run.stop_at.unlink(missing_ok=True)
        if steps:
            run.stop_at.parent.mkdir(parents=True, exist_ok=True)
            run.stop_at.write_text(str(max(steps)))

    def _start_evaluations(self) -> bool:
        """Start the evaluation of every arm that is trained. Returns whether nothing is left to wait for."""
        for run in self.runs:
            is_waiting = run.is_trained and not run.is_evaluated and run not in self.evaluated
            if is_waiting and not self._is_running(run):
                self.evaluated.append(run)
                self._start("evaluate", run, attempt=0)
        return not any(map(self._is_running, self.runs))

    def _is_running(self, run: ArmRun) -> bool:
        return run in self.processes and self.processes[run].poll() is None

    def _start(self, stage: str, run: ArmRun, attempt: int) -> None:
        run.log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "experiments.qwen.arm", stage, run.spec, run.arm, str(run.seed)]
        command += ["--out", str(run.out), "--model", self.options.model]
        command += ["--data-dir", self.options.data_dir] if self.options.data_dir else []
        command += ["--steps", str(self.options.steps)] if self.options.steps else []
        env = environment(self.runs.index(run), attempt)
        with run.log.open("ab") as log:
            self.processes[run] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )
        self._print(f"{stage} {run.name}" + (" again" if attempt else ""))

    def _wait_for_first_step(self, run: ArmRun) -> None:
        """Wait until the arm has logged a step. An arm that fails before that is started a second time."""
        for attempt in (0, 1):
            deadline = time.monotonic() + START_SECONDS
            while time.monotonic() < deadline and self.processes[run].poll() is None and run.num_steps() == 0:
                time.sleep(POLL_SECONDS)
            if attempt == 0 and self.processes[run].poll() not in (None, 0) and run.num_steps() == 0:
                self._start("train", run, attempt=1)
            else:
                return

    def _stop_together(self) -> None:
        """Let all arms end after the same step: the one after the last step that any of them has logged."""
        step = max(run.num_steps() for run in self.runs) + 1
        training = [run for run in self.runs if self._is_running(run) and run not in self.evaluated]
        for run in training:
            run.stop_at.write_text(str(step))
        if training:
            self._print(f"the time for training is over: stopping after step {step}")

    def _give_up(self) -> None:
        self._print("the time is over")
        self._kill()

    def _kill(self) -> None:
        for run in filter(self._is_running, self.runs):
            os.killpg(self.processes[run].pid, signal.SIGKILL)
            self.processes[run].wait()

    def _print(self, text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - self.start:6.0f} s  {text}\n")
        sys.stderr.flush()


def environment(number: int, attempt: int) -> dict[str, str]:
    """Environment variables of an arm, with a port of its own. The second attempt sets rank and world size itself."""
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(29511 + 7 * number + attempt),
    }
    return env if attempt == 0 else env | {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.qwen.run", description="Train and evaluate a few arms at the same time."
    )
    add = parser.add_argument
    add("--spec", choices=tuple(SPECS), default="qwen", help="default: %(default)s")
    add("--arms", default="grpo,gtpo", help="comma-separated, run at the same time: base, sft, grpo, grpo-kl, gtpo, …")
    add("--seed", type=int, default=1, help="default: %(default)s")
    add("--model", default=None, help="folder or hub id (default: the model of the spec)")
    add("--data-dir", default=None, help="folder of JSONL files to read problems from instead of the hub")
    add("--out", type=Path, default=Path("runs/real"), help="default: %(default)s")
    add("--steps", type=int, default=None, help="training steps (default: those of the spec)")
    add("--minutes", type=float, default=24.0, help="time limit, evaluation included (default: %(default)s)")
    add("--evaluation-minutes", type=float, default=EVALUATION_MINUTES, help="of them (default: %(default)s)")
    options = parser.parse_args(arguments)
    options.model = options.model or SPECS[options.spec].model
    for arm in options.arms.split(","):
        require_choice("arms", arm, tuple(ARMS))
    runs = [ArmRun(options.out, options.spec, arm, options.seed) for arm in options.arms.split(",")]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, which also ends the arms
    return ArmsRunner(runs, options).run()


if __name__ == "__main__":
    sys.exit(main())
