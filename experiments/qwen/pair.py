"""The real model: two arms of one seed side by side on one card, trained, then evaluated, in one command.

    python -m experiments.qwen.pair --arms grpo,gtpo --seed 1 --model DIR --data-dir DIR --out runs/real --minutes 24

The arms start one after the other (vLLM measures the card's free memory while it starts), stop after the same step,
and each is evaluated as soon as it has stopped. If the time is short they stop early, together. Every result is a file
of its own, written as soon as it is there; the same command again does what is missing. `--spec dry` is the same on
the lab's tiny model with transformers, to see that it runs.
"""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.lab.arms import ARMS, NO_CONFLICTS, NO_ENTROPY, Options
from gtpo.errors import require_choice

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.5
START_SECONDS = 240
EVALUATION_MINUTES = 6.0
TEMPERATURE = 0.9


@dataclasses.dataclass(frozen=True)
class Asked:
    """An evaluation: the first `limit` problems of a set, so many samples each; temperature 0 is greedy."""

    problems: str
    limit: int | None
    num_samples: int
    max_new_tokens: int
    temperature: float = TEMPERATURE

    @property
    def name(self) -> str:
        how = {TEMPERATURE: "", 0.0: "-greedy"}
        return self.problems + how.get(self.temperature, f"-at-{self.temperature:g}")


@dataclasses.dataclass(frozen=True)
class Spec:
    """What is trained, and what it is asked afterwards; `engine` samples the evaluations."""

    recipe: Path
    model: str
    options: Options
    rl_options: Options
    engine: str
    engine_options: Options
    evaluations: tuple[Asked, ...]


SPECS: Mapping[str, Spec] = {
    "qwen": Spec(
        recipe=ROOT / "recipes" / "qwen2.5-1.5b-gsm8k" / "config.yaml",
        model="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        options={"max_steps": 100, "held_out_problems": 0, "save_strategy": "no"},
        rl_options={"vllm_gpu_memory_utilization": 0.12},
        engine="vllm",
        engine_options={
            "gpu_memory_utilization": 0.3, "kv_cache_memory_bytes": 24_000_000_000, "dtype": "bfloat16",
            "max_model_len": 2048, "max_num_seqs": 512, "seeds_samples": False,
        },
        evaluations=(
            Asked("gsm8k", 320, 32, 400), Asked("gsm8k", 320, 1, 400, temperature=0.0),
            Asked("math500", None, 4, 1024), Asked("amc23", None, 32, 1024), Asked("aime24", None, 32, 1024),
            Asked("aime25", None, 32, 1024), Asked("gsm8k", 320, 32, 400, temperature=1.2),
        ),
    ),
    "dry": Spec(
        recipe=ROOT / "recipes" / "lab" / "config.yaml",
        model="lab",
        options={
            "max_steps": 3, "held_out_problems": 0, "save_strategy": "no", "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 1,
        },
        rl_options={},
        engine="transformers",
        engine_options={},
        evaluations=(
            Asked("lab", 4, 2, 16), Asked("lab", 4, 1, 16, temperature=0.0), Asked("lab", 4, 2, 16, temperature=1.2),
        ),
    ),
}  # fmt: skip


def arm_options(arm: str) -> dict[str, str | float | bool]:
    """Method and options of an arm. GRPO goes through GTPO's trainer with everything of GTPO's off.

    That is TRL's update (bit for bit untrimmed, within rounding trimmed: docs/method.md) without TRL's
    padding, so that no arm waits for another.
    """
    method, options = ARMS[arm].method, ARMS[arm].options
    if method == "grpo":
        return {"method": "gtpo", **NO_CONFLICTS, **NO_ENTROPY, **options}
    return {"method": method, **options}


class Place:
    """Where one arm of one seed works and what it leaves."""

    def __init__(self, out: Path, spec: str, arm: str, seed: int) -> None:
        self.name = f"{spec}_{arm}_seed{seed}"
        self.out, self.spec, self.arm, self.seed = out, spec, arm, seed
        self.work = out / "work" / self.name
        self.curve = out / "results" / f"{self.name}.json"
        self.log = out / "logs" / f"{self.name}.txt"
        self.stop_at = out / "work" / f"{self.name}.stop"

    def evaluation(self, asked: Asked) -> Path:
        return self.out / "results" / f"{self.name}_on_{asked.name}.json"

    def samples(self, asked: Asked) -> Path:
        return self.out / "samples" / self.name / f"{asked.name}.jsonl"

    @property
    def is_trained(self) -> bool:
        """Nothing is left to train: there is nothing to, or its weights are there or no longer needed."""
        has_weights = (self.work / "model").is_dir() or self.is_evaluated
        return ARMS[self.arm].method == "none" or (self.curve.is_file() and has_weights)

    @property
    def is_evaluated(self) -> bool:
        return all(self.evaluation(asked).is_file() for asked in SPECS[self.spec].evaluations)

    def num_steps(self) -> int:
        """Logged so far."""
        metrics = self.work / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.is_file() else 0


class Pair:
    """Runs a few arms at once through training and evaluation until a deadline."""

    def __init__(self, places: Sequence[Place], options: argparse.Namespace) -> None:
        self.places = places
        self.options = options
        self.start = time.monotonic()
        self.end = self.start + 60 * options.minutes
        self.processes: dict[Place, subprocess.Popen[bytes]] = {}
        self.evaluated: list[Place] = []

    def run(self) -> int:
        """0 if every arm is trained and evaluated. An arm is evaluated as soon as it is trained."""
        try:
            self._run()
        finally:
            self._kill()
        return 0 if all(place.is_trained and place.is_evaluated for place in self.places) else 1

    def _run(self) -> None:
        for place in self.places:
            if not place.is_trained:
                self._stop_like_the_others(place)
                self._start("train", place, attempt=0)
                self._wait_for_first_step(place)
        late = [(self.end - 60 * self.options.evaluation_minutes, self._stop_together), (self.end, self._give_up)]
        while not self._move_on():
            while late and time.monotonic() > late[0][0]:
                late.pop(0)[1]()
            time.sleep(POLL_SECONDS)

    def _stop_like_the_others(self, place: Place) -> None:
        """An arm that is trained after another one has stopped goes as far as that one went."""
        steps = [json.loads(one.curve.read_text())["steps"] for one in self.places if one.curve.is_file()]
        place.stop_at.unlink(missing_ok=True)
        if steps:
            place.stop_at.parent.mkdir(parents=True, exist_ok=True)
            place.stop_at.write_text(str(max(steps)))

    def _move_on(self) -> bool:
        """Start each evaluation that can be; whether nothing is left to wait for."""
        for place in self.places:
            is_waiting = place.is_trained and not place.is_evaluated and place not in self.evaluated
            if is_waiting and not self._is_at_work(place):
                self.evaluated.append(place)
                self._start("evaluate", place, attempt=0)
        return not any(map(self._is_at_work, self.places))

    def _is_at_work(self, place: Place) -> bool:
        return place in self.processes and self.processes[place].poll() is None

    def _start(self, what: str, place: Place, attempt: int) -> None:
        place.log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "experiments.qwen.arm", what, place.spec, place.arm, str(place.seed)]
        command += ["--out", str(place.out), "--model", self.options.model]
        command += ["--data-dir", self.options.data_dir] if self.options.data_dir else []
        command += ["--steps", str(self.options.steps)] if self.options.steps else []
        number = self.places.index(place)
        with place.log.open("ab") as file:
            self.processes[place] = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment(number, attempt),
                start_new_session=True,
            )  # fmt: skip
        self._say(f"{what} {place.name}" + (" once more" if attempt else ""))

    def _wait_for_first_step(self, place: Place) -> None:
        """The next arm starts when this one is at work. One that fails on the way is tried once more."""
        for attempt in (0, 1):
            late = time.monotonic() + START_SECONDS
            while time.monotonic() < late and self.processes[place].poll() is None and place.num_steps() == 0:
                time.sleep(POLL_SECONDS)
            if attempt == 0 and self.processes[place].poll() not in (None, 0) and place.num_steps() == 0:
                self._start("train", place, attempt=1)
            else:
                return

    def _stop_together(self) -> None:
        """All arms end after the same step: the one after the farthest step that any has reached."""
        step = max(place.num_steps() for place in self.places) + 1
        training = [place for place in self.places if self._is_at_work(place) and place not in self.evaluated]
        for place in training:
            place.stop_at.write_text(str(step))
        if training:
            self._say(f"the time for training is over: stopping after step {step}")

    def _give_up(self) -> None:
        self._say("the time is over")
        self._kill()

    def _kill(self) -> None:
        for place in filter(self._is_at_work, self.places):
            os.killpg(self.processes[place].pid, signal.SIGKILL)
            self.processes[place].wait()

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - self.start:6.0f} s  {text}\n")
        sys.stderr.flush()


def environment(number: int, attempt: int) -> dict[str, str]:
    """A port for each arm. The second attempt names rank and world itself, as a launcher would."""
    env = {
        **os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_USE_FLASHINFER_SAMPLER": "0", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(29511 + 7 * number + attempt),
    }  # fmt: skip
    return env if attempt == 0 else env | {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.qwen.pair", description="Train and evaluate a few arms."
    )
    add = parser.add_argument
    add("--spec", choices=tuple(SPECS), default="qwen", help="default: %(default)s")
    add("--arms", default="grpo,gtpo", help="with commas, run at the same time: base, sft, grpo, grpo-kl, gtpo, …")
    add("--seed", type=int, default=1, help="default: %(default)s")
    add("--model", default=None, help="folder or hub id (default: the spec's)")
    add("--data-dir", default=None, help="folder of JSONL files to read problems from instead of the hub")
    add("--out", type=Path, default=Path("runs/real"), help="default: %(default)s")
    add("--steps", type=int, default=None, help="to train (default: the spec's)")
    add("--minutes", type=float, default=24.0, help="in all, evaluation included (default: %(default)s)")
    add("--evaluation-minutes", type=float, default=EVALUATION_MINUTES, help="of them (default: %(default)s)")
    options = parser.parse_args(arguments)
    options.model = options.model or SPECS[options.spec].model
    for arm in options.arms.split(","):
        require_choice("arms", arm, tuple(ARMS))
    places = [Place(options.out, options.spec, arm, options.seed) for arm in options.arms.split(",")]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as ctrl-C: the arms are ended too
    return Pair(places, options).run()


if __name__ == "__main__":
    sys.exit(main())
