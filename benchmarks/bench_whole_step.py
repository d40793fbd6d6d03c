"""Whole training steps with vLLM, next to TRL: sampling, rewards, log-probs and update of the same model and problems.

    python benchmarks/bench_whole_step.py --model MODEL_DIR --data DATA_DIR --out OUT --append benchmarks/results.csv
    python benchmarks/bench_whole_step.py --size tiny --out OUT     # a CPU, seconds: the lab, random words for vLLM

The providers run one after the other in one process, alone on the card, and share one vLLM engine, which every step
loads with the provider's weights. First TRL's micro-batch and gradient checkpointing are chosen by a short sweep. The
other providers run with TRL's best setting, or with micro-batches twice as large if FastGRPO is faster with them and
they fit. DATA_DIR holds gsm8k_train.jsonl. OUT gets a JSON file per run, written as soon as the run ends; runs whose
file exists are skipped. The first two steps warm up and are left out of the medians.
"""

import argparse
import copy
import dataclasses
import functools
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gtpo.files import write_atomic

WARM_UP = 2
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29511",
}
GRPO = {"loss_type": "grpo", "scale_rewards": "none", "beta": 0.0}
PROVIDERS = {
    "TRL": "TRL GRPO",
    "GRPO": "FastGRPO",
    "GTPO": "GTPO",
    "SEPARATE": "FastGRPO, a prompt per completion",
    "TWICE": "FastGRPO, twice the prompts",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """How many rows a micro-batch has, whether gradients are checkpointed, and the limit of tokens."""

    micro_batch: int
    is_checkpointed: bool
    limit: int

    @property
    def label(self) -> str:
        checkpointing = "on" if self.is_checkpointed else "off"
        return f"limit {self.limit}, micro-batch {self.micro_batch}, checkpointing {checkpointing}"


@dataclasses.dataclass(frozen=True)
class Job:
    provider: str
    setting: Setting
    num_steps: int
    seed: int = 1

    @property
    def file_name(self) -> str:
        setting = self.setting
        checkpointing = "ckpt" if setting.is_checkpointed else "nockpt"
        return f"{self.provider}-{setting.limit}-{setting.micro_batch}-{checkpointing}-{self.num_steps}.json".lower()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--model", help="folder of a model")
    parser.add_argument("--name", default="qwen2.5-coder-1.5b", help="what results.csv calls the model")
    parser.add_argument("--data", help="folder with gsm8k_train.jsonl")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--providers", nargs="+", choices=tuple(PROVIDERS), default=["TRL", "GRPO", "GTPO"])
    parser.add_argument("--steps", type=int, default=22, help="steps of a run, of which two warm up")
    parser.add_argument("--sweep-steps", type=int, default=4, help="steps of a run of the sweep")
    parser.add_argument("--limits", type=int, nargs="+", default=[300, 1024], help="most tokens of a completion")
    parser.add_argument("--gpu-memory", type=float, default=0.17, help="share of the card that vLLM takes")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after this time")
    parser.add_argument("--append", type=Path, help="results.csv to add the rows to")
    return parser.parse_args()


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        from phases import StepClock

        self.options = options
        self.start = time.monotonic()
        self.clock = StepClock()
        self.clock.install()
        if options.size == "tiny":
            from stored import replace_vllm

            replace_vllm()
        else:
            share_engine(**({"max_num_seqs": 512} if "TWICE" in options.providers else {}))

    def sweep(self, limit: int) -> list[Setting]:
        if self.options.size == "tiny":
            return [Setting(8, True, limit), Setting(16, False, limit)]
        if limit <= 512:  # 64 rows without checkpointing do not fit
            return [Setting(32, True, limit), Setting(32, False, limit), Setting(64, True, limit)]
        return [Setting(16, True, limit), Setting(8, False, limit), Setting(16, False, limit)]

    def run(self) -> None:
        limits = [16] if self.options.size == "tiny" else self.options.limits
        for limit in limits:
            best = self.best_setting("TRL", self.sweep(limit))
            larger = dataclasses.replace(
                best, micro_batch=2 * best.micro_batch
            )  # may fit where TRL's padding does not
            own = self.best_setting("GRPO", [best, larger]) if set(self.options.providers) - {"TRL"} else best
            for provider in self.options.providers:
                self.measure(Job(provider, best if provider == "TRL" else own, self.options.steps))

    def best_setting(self, provider: str, settings: list[Setting]) -> Setting:
        """The setting with which a step takes the least time."""
        timed = {setting: self.measure(Job(provider, setting, self.options.sweep_steps)) for setting in settings}
        return min(settings, key=lambda setting: timed[setting] or float("inf"))

    def measure(self, job: Job) -> float | None:
        """Median seconds of a step; None if the run did not fit into memory or into the time."""
        path = self.options.out / job.file_name
        if not path.exists():
            if time.monotonic() - self.start > self.options.seconds:
                sys.stderr.write(f"no time left for {job}\n")
                return None
            self._train(job, path)
        steps = json.loads(path.read_text())["steps"][WARM_UP:]
        return statistics.median(sum(step["seconds"].values()) for step in steps) if steps else None

    def _train(self, job: Job, path: Path) -> None:
        import torch
        from results import commit, hardware, versions

        self.clock.steps.clear()
        began = time.monotonic()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        error = None
        logs: list[dict[str, Any]] = []
        trainer: Any = None
        with tempfile.TemporaryDirectory() as folder:
            try:
                trainer = make_trainer(self.options, job, folder)
                trainer.train()
                logs = [row for row in trainer.state.log_history if "loss" in row]
            except torch.OutOfMemoryError as out_of_memory:
                error = str(out_of_memory)[:200]
                self.clock.steps.clear()
            if trainer is not None:
                trainer.accelerator.free_memory()
                trainer.model = trainer.model_wrapped = trainer.optimizer = trainer.vllm_generation = None
            trainer = None
        gc.collect()
        peak = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        names = ("completions/mean_length", "completions/clipped_ratio", "accuracy", "format", "reward", "entropy")
        content = {
            "job": dataclasses.asdict(job),
            "commit": commit(),
            "hardware": hardware(),
            "versions": versions(),
            "peak_memory_gb": peak,
            "error": error,
            "steps": self.clock.steps,
            "logs": [{name: row.get(name) for name in names} for row in logs],
        }
        write_atomic(path, json.dumps(content) + "\n")
        took = time.monotonic() - began
        sys.stderr.write(f"{time.monotonic() - self.start:.0f} s  {job} took {took:.0f} s {error or ''}\n")
        if not error:
            self._report(job, peak)

    def _report(self, job: Job, peak: float) -> None:
        from phases import phase_rows
        from results import TIMED_STEPS, report, result

        steps = self.clock.steps[WARM_UP:] or self.clock.steps
        provider = PROVIDERS[job.provider]
        size = f"{self.options.name if self.options.size == 'full' else 'lab'}, full, 32 × 8, {job.setting.label}"
        totals = [sum(step["seconds"].values()) for step in steps]
        rows = [result("step", provider, size, "whole step", totals, "s")]
        rows += phase_rows(provider, size, steps)
        rows.append(result("step", provider, size, TIMED_STEPS, [len(steps)], ""))
        if peak:
            rows.append(result("step", provider, size, "peak memory, vLLM's included", [peak], "GB"))
        report(rows, self.options.append)


def share_engine(**changes: Any) -> None:
    """Start vLLM once: every trainer of the process gets the engine of the first one."""
    from trl.generation import vllm_generation

    make_engine = vllm_generation.LLM
    engines: list[Any] = []

    def shared(**settings: Any) -> Any:
        if not engines:
            engines.append(make_engine(**{**settings, **changes}))
        return engines[0]

    vllm_generation.LLM = shared


@functools.cache
def stored_model(folder: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)


def fresh_model(folder: str) -> Any:
    """The untrained model with weights in fp32. The folder is read once per process."""
    import torch

    model = copy.deepcopy(stored_model(folder))
    model.config.dtype = torch.float32
    return model.to("cuda" if torch.cuda.is_available() else "cpu").float()


def make_trainer(options: argparse.Namespace, job: Job, folder: str) -> Any:
    from transformers import PrinterCallback

    from gtpo import FastGRPOTrainer, GTPOConfig, GTPOTrainer
    from gtpo.lab import lab_model_dir
    from gtpo.problems import load_problems, to_dataset
    from gtpo.rewards import paper_reward
    from trl import GRPOConfig, GRPOTrainer

    is_tiny = options.size == "tiny"
    num_rows, group_size = (32, 4) if is_tiny else (256, 8)
    if job.provider == "TWICE":  # tied groups leave the update, so more prompts cost little more than their sampling
        num_rows *= 2
    problems = load_problems(
        "lab" if is_tiny else "gsm8k",
        split="train",
        data_dir=options.data,
        limit=options.steps * num_rows // group_size,
    )
    common: dict[str, Any] = {
        "output_dir": folder,
        "max_steps": job.num_steps,
        "learning_rate": 2e-6,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 5,
        "max_grad_norm": 0.1,
        "seed": job.seed,
        "per_device_train_batch_size": job.setting.micro_batch,
        "gradient_accumulation_steps": num_rows // job.setting.micro_batch,
        "gradient_checkpointing": job.setting.is_checkpointed,
        "num_generations": group_size,
        "max_completion_length": job.setting.limit,
        "temperature": 1.0,
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": options.gpu_memory,
        "vllm_max_model_length": 512 + max(options.limits),
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "bf16": not is_tiny,
    }
    model = fresh_model(str(lab_model_dir()) if is_tiny else options.model)
    data = to_dataset(problems)
    if job.provider == "GTPO":
        trainer: Any = GTPOTrainer(model, paper_reward, GTPOConfig(**common), data)
    else:
        trainer_class = GRPOTrainer if job.provider == "TRL" else FastGRPOTrainer
        trainer = trainer_class(model, paper_reward, GRPOConfig(**common, **GRPO), data)
    if job.provider == "SEPARATE":
        trainer._shares_prompts = lambda _: False
    trainer.remove_callback(PrinterCallback)
    return trainer


def main() -> None:
    options = parse_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, value in ENVIRONMENT.items():
        if options.size == "full":  # before torch and vLLM are loaded
            os.environ.setdefault(name, value)
    Bench(options).run()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # vLLM's engine may not let an ordinary exit through
