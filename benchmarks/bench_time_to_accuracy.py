"""Seconds of training until a model solves 40, 55 and 60 % of held-out problems: stock TRL next to this package.

    python benchmarks/bench_time_to_accuracy.py --model MODEL_DIR --data DATA_DIR --out OUT --seeds 1 2 3
    python benchmarks/bench_time_to_accuracy.py --summary benchmarks/accuracy --append benchmarks/results.csv
    python benchmarks/bench_time_to_accuracy.py --size tiny --out OUT     # a CPU: the lab, random words for vLLM

Every run trains on GSM8K from the same weights with the same reward. Every few steps the clock stops, and the current
policy answers 300 test problems 8 times each; the untrained policy is measured in the first run only. A crossing is
interpolated between two such points. A run ends when it has crossed the last level. OUT gets a JSON file per run,
written after every point; finished runs are skipped, and a run that was cut off starts again. All runs of OUT have to
be of one commit, on one kind of machine with the same versions.
The runs share one process, one card and one vLLM engine, one after the other; seeds are the outer loop, and the order
of the providers differs from seed to seed. The file of a run also has the seconds of every step by phase.
"""

import argparse
import dataclasses
import functools
import gc
import itertools
import json
import math
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_whole_step import ENVIRONMENT, PROVIDERS, WARM_UP, Job, Setting, make_trainer, share_engine

from gtpo.files import write_atomic

LEVELS = (0.40, 0.55, 0.60)
NUM_PROBLEMS, NUM_SAMPLES = 300, 8
TEMPERATURE = 0.9


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--model", help="folder of a model")
    parser.add_argument("--data", help="folder with gsm8k_train.jsonl and gsm8k_test.jsonl")
    parser.add_argument("--out", type=Path, help="folder for the files of the runs")
    parser.add_argument("--providers", nargs="+", choices=tuple(PROVIDERS), default=["TRL", "GRPO", "GTPO"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--evaluators", type=int, default=0, help="processes that help with the measurements")
    parser.add_argument("--first", type=int, default=12, help="step of the first measurement")
    parser.add_argument("--every", type=int, default=6, help="steps between measurements")
    parser.add_argument("--steps", type=int, default=48, help="most steps of a run")
    parser.add_argument("--micro-batch", type=int, default=32, help="of TRL")
    parser.add_argument("--own-micro-batch", type=int, default=64, help="of the others, in the same memory")
    parser.add_argument("--gpu-memory", type=float, default=0.08, help="share of the card that vLLM takes")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after this time")
    parser.add_argument("--summary", type=Path, help="only read the runs of this folder and print crossings")
    parser.add_argument("--append", type=Path, help="with --summary: results.csv to add the rows to")
    options = parser.parse_args()
    options.limits = [300]
    if options.size == "tiny":
        options.first, options.every, options.steps = 1, 1, 2
    return options


def crossing(points: list[dict[str, float]], level: float) -> float | None:
    """Seconds of training at which the accuracy first reaches `level`; None if it never does.

    >>> crossing([{"seconds": 0, "pass_at_1": 0.25}, {"seconds": 10, "pass_at_1": 0.5}], 0.375)
    5.0
    """
    for before, after in itertools.pairwise(points):
        if before["pass_at_1"] < level <= after["pass_at_1"]:
            share = (level - before["pass_at_1"]) / (after["pass_at_1"] - before["pass_at_1"])
            return before["seconds"] + share * (after["seconds"] - before["seconds"])
    return None


class HeldOut:
    """Test problems, answered by the policy that the trainer's vLLM engine holds."""

    def __init__(self, options: argparse.Namespace) -> None:
        from evaluators import Evaluators

        from gtpo.problems import load_problems, to_dataset

        self.is_tiny = options.size == "tiny"
        self.evaluators = Evaluators(options.model, options.evaluators)
        self.num_samples = 2 if self.is_tiny else NUM_SAMPLES
        name, limit = ("lab", 4) if self.is_tiny else ("gsm8k", NUM_PROBLEMS)
        self.rows = list(to_dataset(load_problems(name, split="test", data_dir=options.data, limit=limit)))

    def measure(self, trainer: Any) -> dict[str, float]:
        from gtpo.rewards import correctness_reward, format_reward

        start = time.perf_counter()
        tokenizer = trainer.processing_class
        prompts = [
            tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, return_dict=True)["input_ids"]
            for row in self.rows
        ]
        texts = self._answers(trainer, [prompt for prompt in prompts for _ in range(self.num_samples)])
        golds = [row["answer"] for row in self.rows for _ in range(self.num_samples)]
        questions = [row["prompt"] for row in self.rows for _ in range(self.num_samples)]
        scores = correctness_reward(texts, golds, prompts=questions, require_format=False)
        is_formatted = [score == 10 for score in format_reward(texts)]
        right = sum(score == 10 for score in scores)
        measured = time.perf_counter() - start
        return {"pass_at_1": right / len(texts), "format": sum(is_formatted) / len(texts), "measuring": measured}

    def _answers(self, trainer: Any, prompts: list[list[int]]) -> list[str]:
        if self.is_tiny:
            return trainer.processing_class.batch_decode(trainer.vllm_generation.generate(prompts)[1])
        return trainer.processing_class.batch_decode(
            self.evaluators.ids(trainer, prompts, TEMPERATURE, 300), skip_special_tokens=True
        )


class Run:
    """One training run, measured every few steps outside its clock. Its file is written after every measurement."""

    def __init__(self, options: argparse.Namespace, provider: str, seed: int, held_out: HeldOut, clock: Any) -> None:
        self.options, self.provider, self.seed, self.held_out = options, provider, seed, held_out
        self.clock = clock
        self.model = "lab" if options.size == "tiny" else Path(options.model).name
        micro_batch = options.micro_batch if provider == "TRL" else options.own_micro_batch
        micro_batch, limit = (8, 16) if options.size == "tiny" else (micro_batch, 300)
        self.setting = Setting(micro_batch, is_checkpointed=False, limit=limit)
        self.path: Path = options.out / f"{provider.lower()}-{seed}.json"
        self.points: list[dict[str, float]] = []
        self.seconds = 0.0

    @property
    def is_finished(self) -> bool:
        return self.path.exists() and json.loads(self.path.read_text())["is_finished"]

    def train(self) -> None:
        import torch

        self.clock.steps.clear()
        with tempfile.TemporaryDirectory() as folder:
            job = Job(self.provider, self.setting, self.options.steps, self.seed)
            self.trainer: Any = make_trainer(self.options, job, folder)
            self.trainer.add_callback(self._clock())
            self.trainer.train()
            self.trainer.accelerator.free_memory()
            self.trainer.model = self.trainer.model_wrapped = self.trainer.optimizer = None
            self.trainer.vllm_generation = None
            self.trainer = None
        self._write(is_finished=True)
        gc.collect()
        torch.cuda.empty_cache()

    def _clock(self) -> Any:
        from transformers import TrainerCallback

        run = self

        class Clock(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                run.measure_start()

            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                since_first = state.global_step - run.options.first
                if since_first >= 0 and since_first % run.options.every == 0:
                    run.stop_clock()
                    run.measure(state.global_step)
                    control.should_training_stop = run.points[-1]["pass_at_1"] >= LEVELS[-1]

        return Clock()

    def measure_start(self) -> None:
        """All runs start from the same weights, so the point of another one that was measured alike will do."""
        from results import synchronize

        ours = {"model": self.model, **origin()}
        for other in read_runs(self.options.out):
            if other["points"] and ours.items() <= other.items():
                self.points = other["points"][:1]
                synchronize()
                self.start = time.perf_counter()
                return
        self.measure(0)

    def stop_clock(self) -> None:
        from results import synchronize

        synchronize()
        self.seconds += time.perf_counter() - self.start

    def measure(self, step: int) -> None:
        from results import synchronize

        with self.clock.paused():
            self.points.append({"step": step, "seconds": self.seconds, **self.held_out.measure(self.trainer)})
        self._write(is_finished=False)
        sys.stderr.write(f"{self.provider} seed {self.seed}: {self.points[-1]}\n")
        synchronize()
        self.start = time.perf_counter()

    def _write(self, *, is_finished: bool) -> None:
        content = {
            "provider": self.provider,
            "seed": self.seed,
            "model": self.model,
            "setting": self.setting.label,
            **origin(),
            "is_finished": is_finished,
            "points": self.points,
            "steps": self.clock.steps,
        }
        write_atomic(self.path, json.dumps(content) + "\n")


def origin() -> dict[str, str]:
    """Of what, where and with what a run is measured now."""
    from results import commit, hardware, versions

    return {"commit": commit(), "hardware": hardware(), "versions": versions()}


def read_runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def finished_runs(folder: Path) -> list[dict[str, Any]]:
    return [run for run in read_runs(folder) if run["is_finished"]]


def shared_origin(runs: list[dict[str, Any]]) -> dict[str, str]:
    """The origin of all runs. Runs of several are refused, because their times cannot be pooled."""
    names: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        names.setdefault((run["commit"], run["hardware"], run["versions"]), []).append(
            f"{run['provider']}-{run['seed']}"
        )
    if len(names) > 1:
        found = "".join(f"\n{', '.join(of)}: {', '.join(values)}" for values, of in names.items())
        raise SystemExit(f"Commit, hardware and versions must be the same in all runs. Repeat some of them.{found}")
    return dict(zip(("commit", "hardware", "versions"), next(iter(names)), strict=True))


def summarise(folder: Path, append: Path | None) -> None:
    from results import report, result

    runs = finished_runs(folder)
    if not runs:
        return
    made = shared_origin(runs)
    rows: list[Any] = []
    seconds: dict[tuple[str, float], dict[int, float]] = {}
    for provider in dict.fromkeys(run["provider"] for run in runs):
        of_provider = [run for run in runs if run["provider"] == provider]
        for level in LEVELS:
            crossings = {run["seed"]: crossing(run["points"], level) for run in of_provider}
            reached = {seed: second for seed, second in crossings.items() if second is not None}
            seconds[provider, level] = reached
            add = functools.partial(result, "time to accuracy", PROVIDERS[provider], f"pass@1 of {level:.0%}")
            rows += [add("runs", [len(crossings)], ""), add("runs that reach it", [len(reached)], "")]
            rows += [add("training", list(reached.values()), "s")] if reached else []
        rows += step_rows(provider, of_provider)
    report([dataclasses.replace(row, **made) for row in rows], append)
    for (provider, level), reached in seconds.items():
        if provider != "TRL" and ("TRL", level) in seconds:
            sys.stdout.write(f"{PROVIDERS[provider]}, {level:.0%}: {ratio_text(reached, seconds['TRL', level])}\n")


def ratio_text(seconds: dict[int, float], of_trl: dict[int, float]) -> str:
    """The time over TRL's: geometric mean over the seeds where both reach the level, with its interval.

    >>> ratio_text({1: 50.0, 2: 60.0, 3: 44.0}, {1: 100.0, 2: 110.0, 4: 90.0})
    "0.52 of TRL's time (0.30 to 0.91), 2 seeds"
    """
    from gtpo.statistics import seed_interval

    seeds = sorted(seconds.keys() & of_trl.keys())
    if not seeds:
        return "no seed where both reach it"
    ours, theirs = ([math.log(side[seed]) for seed in seeds] for side in (seconds, of_trl))
    mean = math.exp(sum(ours) / len(ours) - sum(theirs) / len(theirs))
    interval = seed_interval(ours, theirs, is_paired=True)
    between = f" ({math.exp(interval[0]):.2f} to {math.exp(interval[1]):.2f})" if interval else ""
    return f"{mean:.2f} of TRL's time{between}, {len(seeds)} seeds"


def step_rows(provider: str, runs: list[dict[str, Any]]) -> list[Any]:
    """Medians over the steps of all runs, by phase, as in bench_whole_step."""
    from phases import phase_rows
    from results import TIMED_STEPS, result

    steps = [step for run in runs for step in run["steps"][WARM_UP:]]
    if not steps:
        return []
    size = "qwen2.5-coder-1.5b, full, 32 × 8, limit 300, runs of time to accuracy"
    totals = [sum(step["seconds"].values()) for step in steps]
    rows = [result("step", PROVIDERS[provider], size, "whole step", totals, "s")]
    rows += phase_rows(PROVIDERS[provider], size, steps)
    micro_batch = int(re.findall(r"micro-batch (\d+)", runs[0]["setting"])[0])
    rows.append(result("step", PROVIDERS[provider], size, "rows of a micro-batch", [micro_batch], ""))
    rows.append(result("step", PROVIDERS[provider], size, TIMED_STEPS, [len(steps)], ""))
    return rows


def main() -> None:
    options = parse_arguments()
    if options.summary:
        summarise(options.summary, options.append)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    if options.size == "full":
        for name, value in ENVIRONMENT.items():  # before torch and vLLM are loaded
            os.environ.setdefault(name, value)
    shared_origin([*finished_runs(options.out), {"provider": "new", "seed": options.seeds[0], **origin()}])
    from phases import StepClock

    clock = StepClock()
    clock.install()
    if options.size == "tiny":
        from stored import replace_vllm

        replace_vllm()
    else:
        share_engine()
    start, held_out = time.monotonic(), HeldOut(options)
    try:
        held_out.evaluators.wait()
        for seed, place in itertools.product(options.seeds, range(len(options.providers))):
            provider = options.providers[(seed + place) % len(options.providers)]
            run = Run(options, provider, seed, held_out, clock)
            if not run.is_finished and time.monotonic() - start < options.seconds:
                run.train()
    finally:
        held_out.evaluators.close()
    summarise(options.out, append=None)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # vLLM's engine may not let an ordinary exit through
