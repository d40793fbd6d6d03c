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
    engine: str
    tasks: tuple[EvaluationTask, ...]
    rl_options: Options = dataclasses.field(default_factory=dict)
    logs_every_entropy: bool = False
    """Whether GRPO runs in GTPO's trainer with every part of GTPO turned off: the same update, with the entropies of
    all completions in the log. FastGRPOTrainer has those of the completions that the update needs."""
    engine_options: Options = dataclasses.field(default_factory=dict)


RECIPE = ROOT / "recipes" / "qwen2.5-1.5b-gsm8k" / "config.yaml"
MODEL = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
ENGINE_OPTIONS: Options = {
    "dtype": "bfloat16",
    "distributed_executor_backend": "external_launcher",
    "max_num_batched_tokens": 4096,
    "logprobs_mode": "processed_logprobs",
    "seed": 0,
    "gpu_memory_utilization": 0.08,
    "kv_cache_memory_bytes": 8_000_000_000,
    "max_model_len": 2048,
    "max_num_seqs": 512,
}
"""vLLM as TRL starts it, with room for longer and for more completions: training and evaluation share an engine."""
TRAINING: Options = {
    "held_out_problems": 0,
    "save_strategy": "no",
    "per_device_train_batch_size": 16,
    "gradient_accumulation_steps": 16,
    "gradient_checkpointing": False,
}
"""32 prompts × 8, in micro-batches of which two runs fit on one H200 without gradient checkpointing."""
LONG: Options = {**TRAINING, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 32}
"""The same for completions that are twice as long."""
SPECS: Mapping[str, Spec] = {
    "qwen": Spec(
        recipe=RECIPE,
        model=MODEL,
        options={**TRAINING, "max_steps": 100},
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
        logs_every_entropy=True,
    ),
    "qwen-leaderboard": Spec(
        recipe=RECIPE,
        model=MODEL,
        options={**TRAINING, "max_steps": 50},
        engine="vllm",
        engine_options=ENGINE_OPTIONS,
        tasks=(EvaluationTask("gsm8k", 300, 32, 400),),
    ),
    "qwen-math": Spec(
        recipe=RECIPE,
        model=MODEL,
        options={**LONG, "max_steps": 50, "problems": "math"},
        rl_options={"max_completion_length": 600, "vllm_max_model_length": 1280},
        engine="vllm",
        engine_options=ENGINE_OPTIONS,
        tasks=(EvaluationTask("math500", None, 4, 1024), EvaluationTask("aime24", None, 32, 1024)),
        logs_every_entropy=True,
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
        engine="transformers",
        tasks=(
            EvaluationTask("lab", 4, 2, 16),
            EvaluationTask("lab", 4, 1, 16, temperature=0.0),
            EvaluationTask("lab", 4, 2, 16, temperature=1.2),
        ),
    ),
}


def arm_options(spec: Spec, arm: str) -> dict[str, str | float | bool]:
    """Method and options of an arm."""
    method, options = ARMS[arm].method, ARMS[arm].options
    if method == "grpo" and spec.logs_every_entropy:
        return {"method": "gtpo", **NO_CONFLICTS, **NO_ENTROPY, **options}
    return {"method": method, **options}


def run_files(results: Path, spec: str = "*") -> list[Path]:
    """The file of every trained run, without those of evaluations."""
    return [path for path in sorted(results.glob(f"{spec}_*_seed*.json")) if "_on_" not in path.stem]


class ArmRun:
    """One arm with one seed: its files under `out`, and how far it is."""

    def __init__(self, out: Path, spec: str, arm: str, seed: int) -> None:
        self.name = f"{spec}_{arm}_seed{seed}"
        self.out, self.spec, self.arm, self.seed = out, spec, arm, seed
        self.work = out / "work" / self.name
        self.curve = out / "results" / f"{self.name}.json"
        self.claim = out / "work" / f"{self.name}.claim"
        self.attempts = out / "work" / f"{self.name}.attempts"

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

    @property
    def num_attempts(self) -> int:
        """How often this sitting has started the job."""
        return self.attempts.stat().st_size if self.attempts.is_file() else 0

    def count_attempt(self) -> None:
        with self.attempts.open("ab") as file:
            file.write(b".")

    def remove(self) -> None:
        """Delete run, samples and results."""
        shutil.rmtree(self.work, ignore_errors=True)
        for path in (self.curve, *map(self.result, self.tasks), *map(self.samples, self.tasks)):
            path.unlink(missing_ok=True)
