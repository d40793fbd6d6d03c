"""What is trained and evaluated on the real model, the options of each arm, and the files of one arm's run."""

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path

from experiments.lab.arms import ARMS, NO_CONFLICTS, NO_ENTROPY, Options

ROOT = Path(__file__).parents[2]
TEMPERATURE = 0.9


@dataclasses.dataclass(frozen=True)
class EvaluationTask:
    """The first `limit` problems of a set with `num_samples` samples each; temperature 0 is greedy decoding."""

    problems: str
    limit: int | None
    num_samples: int
    max_new_tokens: int
    temperature: float = TEMPERATURE

    @property
    def name(self) -> str:
        """The name of the set, with the decoding if it is not the usual one."""
        suffixes = {TEMPERATURE: "", 0.0: "-greedy"}
        return self.problems + suffixes.get(self.temperature, f"-at-{self.temperature:g}")


@dataclasses.dataclass(frozen=True)
class Spec:
    """A recipe with options, and the evaluation tasks after training; `engine` samples them."""

    recipe: Path
    model: str
    options: Options
    rl_options: Options
    engine: str
    engine_options: Options
    tasks: tuple[EvaluationTask, ...]


RECIPE = ROOT / "recipes" / "qwen2.5-1.5b-gsm8k" / "config.yaml"
MODEL = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
ENGINE_OPTIONS: Options = {
    "gpu_memory_utilization": 0.3,
    "kv_cache_memory_bytes": 24_000_000_000,
    "dtype": "bfloat16",
    "max_model_len": 2048,
    "max_num_seqs": 512,
    "seeds_samples": False,
}
SPECS: Mapping[str, Spec] = {
    "qwen": Spec(
        recipe=RECIPE,
        model=MODEL,
        options={"max_steps": 100, "held_out_problems": 0, "save_strategy": "no"},
        rl_options={"vllm_gpu_memory_utilization": 0.12},
        engine="vllm",
        engine_options=ENGINE_OPTIONS,
        tasks=(
            EvaluationTask("gsm8k", 320, 32, 400),
            EvaluationTask("gsm8k", 320, 1, 400, temperature=0.0),
            EvaluationTask("math500", None, 4, 1024),
            EvaluationTask("amc23", None, 32, 1024),
            EvaluationTask("aime24", None, 32, 1024),
            EvaluationTask("aime25", None, 32, 1024),
            EvaluationTask("gsm8k", 320, 32, 400, temperature=1.2),
        ),
    ),
    "qwen-leaderboard": Spec(
        recipe=RECIPE,
        model=MODEL,
        options={"max_steps": 50, "held_out_problems": 0, "save_strategy": "no"},
        rl_options={"vllm_gpu_memory_utilization": 0.12},
        engine="vllm",
        engine_options=ENGINE_OPTIONS,
        tasks=(EvaluationTask("gsm8k", 300, 32, 400),),
    ),
    "qwen-math": Spec(
        recipe=RECIPE,
        model=MODEL,
        options={
            "problems": "math",
            "max_steps": 50,
            "held_out_problems": 0,
            "save_strategy": "no",
            "per_device_train_batch_size": 16,  # two runs of 32 rows of this length do not fit on one card
            "gradient_accumulation_steps": 16,
        },
        rl_options={
            "vllm_gpu_memory_utilization": 0.12,
            "max_completion_length": 600,
            "vllm_max_model_length": 1280,
        },
        engine="vllm",
        engine_options=ENGINE_OPTIONS,
        tasks=(EvaluationTask("math500", None, 4, 1024), EvaluationTask("aime24", None, 32, 1024)),
    ),
    "dry": Spec(
        recipe=ROOT / "recipes" / "lab" / "config.yaml",
        model="lab",
        options={
            "max_steps": 3,
            "held_out_problems": 0,
            "save_strategy": "no",
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 1,
        },
        rl_options={},
        engine="transformers",
        engine_options={},
        tasks=(
            EvaluationTask("lab", 4, 2, 16),
            EvaluationTask("lab", 4, 1, 16, temperature=0.0),
            EvaluationTask("lab", 4, 2, 16, temperature=1.2),
        ),
    ),
}


def arm_options(arm: str) -> dict[str, str | float | bool]:
    """Method and options of an arm. GRPO runs in GTPO's trainer with every part of GTPO turned off.

    This is TRL's update without TRL's padding (equal bit for bit untrimmed, within rounding trimmed: docs/method.md),
    so that no arm waits for another.
    """
    method, options = ARMS[arm].method, ARMS[arm].options
    if method == "grpo":
        return {"method": "gtpo", **NO_CONFLICTS, **NO_ENTROPY, **options}
    return {"method": method, **options}


class ArmRun:
    """One arm with one seed: its files under `out`, and how far it is."""

    def __init__(self, out: Path, spec: str, arm: str, seed: int) -> None:
        self.name = f"{spec}_{arm}_seed{seed}"
        self.out, self.spec, self.arm, self.seed = out, spec, arm, seed
        self.work = out / "work" / self.name
        self.curve = out / "results" / f"{self.name}.json"
        self.log = out / "logs" / f"{self.name}.txt"
        self.stop_at = out / "work" / f"{self.name}.stop"

    @property
    def tasks(self) -> tuple[EvaluationTask, ...]:
        return SPECS[self.spec].tasks

    def result(self, task: EvaluationTask) -> Path:
        return self.out / "results" / f"{self.name}_on_{task.name}.json"

    def samples(self, task: EvaluationTask) -> Path:
        return self.out / "samples" / self.name / f"{task.name}.jsonl"

    @property
    def is_trained(self) -> bool:
        """Whether nothing is left to train: the arm trains nothing, or its weights exist or are no longer needed."""
        has_weights = (self.work / "model").is_dir() or self.is_evaluated
        return ARMS[self.arm].method == "none" or (self.curve.is_file() and has_weights)

    @property
    def is_evaluated(self) -> bool:
        """Whether every evaluation task has its result."""
        return all(self.result(task).is_file() for task in self.tasks)

    @property
    def is_done(self) -> bool:
        return self.is_trained and self.is_evaluated

    def remove(self) -> None:
        """Delete run, samples and results."""
        shutil.rmtree(self.work, ignore_errors=True)
        for path in (self.curve, *map(self.result, self.tasks), *map(self.samples, self.tasks)):
            path.unlink(missing_ok=True)

    def num_steps(self) -> int:
        """The number of steps logged so far."""
        metrics = self.work / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.is_file() else 0
