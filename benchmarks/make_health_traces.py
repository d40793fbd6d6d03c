"""Makes one trace of a lab run for docs/health.md: `python benchmarks/make_health_traces.py NAME --out DIR`.

Healthy traces are ordinary runs. Broken ones have a common mistake on purpose: a learning rate that is too high, a
reward with the wrong sign, or a reward that can be hacked.
"""

import argparse
import csv
import random
import re
import sys
from pathlib import Path
from typing import Any

COMPLETE = re.compile(r"<reasoning>([^<>]+)</reasoning>\s*<answer>([^<>]+)</answer>\s*")
KEPT_DIGITS = 5

TRACES: dict[str, dict[str, Any]] = {
    "sound_gtpo_1e-4": {"method": "gtpo", "learning_rate": 1e-4, "seed": 2},
    "sound_gtpo_5e-5": {"method": "gtpo", "learning_rate": 5e-5, "seed": 3},
    "sound_grpo_1e-4": {"method": "grpo", "learning_rate": 1e-4, "seed": 4},
    "sound_grpo_5e-5": {"method": "grpo", "learning_rate": 5e-5, "seed": 7},
    "declining_grpo_2e-4": {"method": "grpo", "learning_rate": 2e-4, "seed": 1},
    "broken_grpo_8e-4": {"method": "grpo", "learning_rate": 8e-4, "seed": 5},
    "broken_grpo_1.5e-3": {"method": "grpo", "learning_rate": 1.5e-3, "seed": 1},
    "broken_gtpo_1.5e-3": {"method": "gtpo", "learning_rate": 1.5e-3, "seed": 2},
    "broken_grpo_6e-3": {"method": "grpo", "learning_rate": 6e-3, "seed": 3},
    "broken_grpo_wrong_sign": {"method": "grpo", "learning_rate": 4e-4, "seed": 1, "reward": "wrong_sign"},
    "broken_gtpo_wrong_sign": {"method": "gtpo", "learning_rate": 4e-4, "seed": 6, "reward": "wrong_sign"},
    "broken_grpo_long": {"method": "grpo", "learning_rate": 3e-4, "seed": 1, "reward": "long"},
    "broken_grpo_short": {"method": "grpo", "learning_rate": 3e-4, "seed": 1, "reward": "short"},
    "broken_grpo_noise": {"method": "grpo", "learning_rate": 4e-4, "seed": 1, "reward": "noise"},
}
"""The options of each trace; `main` has the defaults."""


def judge(texts: list[str], golds: list[str]) -> tuple[list[bool], list[bool]]:
    """For each completion, whether its format is complete, and whether its answer is right as well."""
    matches = [COMPLETE.fullmatch(text) for text in texts]
    right = [match is not None and match[2].strip() == gold for match, gold in zip(matches, golds, strict=True)]
    return [match is not None for match in matches], right


def reward_function(kind: str, seed: int) -> Any:
    rng = random.Random(seed)

    def reward(
        completions: Any, gold: list[str], completion_ids: Any, log_metric: Any = None, **_: Any
    ) -> list[float]:
        complete, right = judge([completion[0]["content"] for completion in completions], gold)
        log_metric("format", sum(complete) / len(complete))
        log_metric("accuracy", sum(right) / len(right))
        paper = [10.0 * form + 10.0 * true for form, true in zip(complete, right, strict=True)]
        if kind == "long":
            return [10.0 * form + len(ids) / 4 for form, ids in zip(complete, completion_ids, strict=True)]
        if kind == "short":
            return [10.0 * form - len(ids) / 4 for form, ids in zip(complete, completion_ids, strict=True)]
        if kind == "noise":
            return [20.0 * rng.random() for _ in paper]
        return [-score for score in paper] if kind == "wrong_sign" else paper

    return reward


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TRACES)
    parser.add_argument("--out", type=Path, default=Path("runs/traces"), help="default: runs/traces")
    parser.add_argument("--model", default=None, help="default: the lab's base")
    parser.add_argument("--steps", type=int, default=50, help="default: 50")
    args = parser.parse_args()

    import torch
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from gtpo import GTPOConfig, GTPOTrainer
    from gtpo.files import JsonLines
    from gtpo.lab import lab_model_dir
    from gtpo.problems.lab import lab_problems
    from gtpo.records import METRICS_FILE
    from gtpo.trl.recording import Recorder

    made_with = {"reward": "paper", **TRACES[args.name]}
    seed, is_gtpo, num_prompts = made_with["seed"], made_with["method"] == "gtpo", 8
    torch.set_num_threads(1)
    folder = args.out / args.name
    options = {
        "output_dir": str(folder), "learning_rate": made_with["learning_rate"], "seed": seed, "max_steps": args.steps,
        "per_device_train_batch_size": 8 * num_prompts, "num_generations": 8, "max_completion_length": 80,
        "logging_steps": 1, "save_strategy": "no", "report_to": "none", "use_cpu": True, "bf16": False, "beta": 0.0,
        "loss_type": "grpo", "scale_rewards": "none", "temperature": 1.0, "warmup_steps": 5, "max_grad_norm": 0.1,
        "lr_scheduler_type": "constant_with_warmup", "disable_tqdm": True, "gradient_checkpointing": False,
        "model_init_kwargs": {"dtype": "float32"},
    }  # fmt: skip
    problems = lab_problems("train", num_prompts * args.steps, seed=100 + seed)
    rows = [{"prompt": [{"role": "user", "content": one.question}], "gold": one.answer} for one in problems]
    trainer = (GTPOTrainer if is_gtpo else GRPOTrainer)(
        model=args.model or str(lab_model_dir()),
        reward_funcs=reward_function(made_with["reward"], seed),
        args=(GTPOConfig if is_gtpo else GRPOConfig)(**options),
        train_dataset=Dataset.from_list(rows),
    )
    if not is_gtpo:
        trainer.add_callback(Recorder())
    trainer.train()
    write_csv(list(JsonLines(folder / METRICS_FILE).rows()), args.out / f"{args.name}.csv")
    return 0


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    """The columns that some check reads, a row a step."""
    from gtpo.logged import MEANINGS

    known = {alias for aliases in MEANINGS.values() for alias in aliases}
    names = ["step", *sorted({name for row in rows for name in row if name in known})]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            writer.writerow([f"{cell(row, name):.{KEPT_DIGITS}g}" if name in row else "" for name in names])


def cell(row: dict[str, Any], name: str) -> float:
    """A value; records write null for numbers that are not finite."""
    return float("nan") if row[name] is None else row[name]


if __name__ == "__main__":
    sys.exit(main())
