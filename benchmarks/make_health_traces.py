"""Makes the traces of docs/health.md: short lab runs under TRL's defaults, sound ones and ones that break on purpose.

`python benchmarks/make_health_traces.py NAME... --out DIR` writes one small CSV file per trace. Without names, those
that DIR does not hold yet are made. A name ends in the seed of its run. Thresholds were set on the traces with an even
seed only; those with an odd seed were first judged when the thresholds were fixed.
"""

import argparse
import csv
import math
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMPLETE = re.compile(r"<reasoning>([^<>]+)</reasoning>\s*<answer>([^<>]+)</answer>\s*")
KEPT_DIGITS = 4
TRUE_ACCURACY = "true/accuracy"
"""A column that no check reads: the fraction of right answers, whatever the reward says."""
COLUMNS = re.compile(
    r"step|loss|grad_norm|learning_rate|reward|rewards/[^/]*/mean|completions/(mean_length|clipped_ratio)|entropy"
    r"|frac_reward_zero_std|sampling/[^/]*/mean|gtpo/(entropy_mean|frac_kept)|health/vocab_size|true/accuracy"
)

GTPO = {"method": "gtpo"}
ROWS_OF_10 = {"steps": 100, "logging_steps": 10}
BATCH = {"num_prompts": 8, "steps": 30}
TRACES: dict[str, dict[str, Any]] = {
    "broken_learning_rate_s0": {"learning_rate": 5e-3},
    "broken_learning_rate_s1": {"learning_rate": 1e-2, **GTPO},
    "sound_one_prompt_s30": {"learning_rate": 1e-4, "steps": 60},
    "sound_one_prompt_s31": {"learning_rate": 1e-4, "steps": 60, **GTPO},
    "broken_wrong_sign_s4": {"learning_rate": 1e-3, "reward": "wrong_sign"},
    "broken_wrong_sign_s5": {"learning_rate": 1e-3, "reward": "wrong_sign", **GTPO},
    "broken_truncated_s10": {"max_completion_length": 8},
    "broken_truncated_s11": {"max_completion_length": 12, **GTPO},
    "broken_tied_s14": {"reward": "constant"},
    "broken_tied_s15": {"reward": "constant", **GTPO},
    "broken_uniform_s22": {"random_weights": True, "learning_rate": 1e-5},
    "broken_uniform_s23": {"random_weights": True, "learning_rate": 1e-5, **GTPO},
    "broken_nan_s16": {"gradient_at": 25, "gradient_factor": math.nan},
    "broken_nan_s17": {"gradient_at": 3, "gradient_factor": math.nan},
    "broken_late_s20": {"learning_rate": 1e-4, "jump_at": 36, "steps": 60},
    "broken_late_s21": {"learning_rate": 1e-4, "jump_at": 48, "steps": 60, **GTPO},
    "broken_hack_length_s6": {"learning_rate": 5e-4, "reward": "long", "steps": 60},
    "broken_hack_length_s7": {"learning_rate": 5e-4, "reward": "long", "steps": 60, **GTPO},
    "sound_one_prompt_s32": {"learning_rate": 5e-5, "steps": 60, **GTPO},
    "sound_one_prompt_s33": {"learning_rate": 2e-4, "steps": 60},
    "broken_hack_format_s8": {"learning_rate": 5e-4, "reward": "brief", "steps": 60},
    "broken_hack_format_s9": {"learning_rate": 8e-4, "reward": "brief", "steps": 60},
    "broken_entropy_s12": {"learning_rate": 1e-3, "reward": "noise", "temperature": 1.4},
    "broken_entropy_s13": {"learning_rate": 1e-3, "reward": "noise", "temperature": 1.4, **GTPO},
    "mismatch_sampler_s18": {"learning_rate": 5e-5, "sampler_noise": 0.3},
    "mismatch_sampler_s19": {"learning_rate": 5e-5, "sampler_noise": 0.5},
    "sound_rows_of_10_s38": {"learning_rate": 1e-4, **ROWS_OF_10},
    "sound_rows_of_10_s39": {"learning_rate": 1e-4, **ROWS_OF_10, **GTPO},
    "broken_rows_of_10_s2": {"learning_rate": 5e-3, **ROWS_OF_10, "steps": 60},
    "broken_rows_of_10_s3": {"learning_rate": 3e-3, **ROWS_OF_10, "steps": 60},
    "idle_learning_rate_s24": {"learning_rate": 1e-6, "steps": 60},
    "idle_learning_rate_s25": {"learning_rate": 1e-6, "steps": 60, **GTPO},
    "sound_batch_s34": {"learning_rate": 3e-4, **BATCH},
    "sound_batch_s35": {"learning_rate": 3e-4, **BATCH, **GTPO},
    "broken_batch_s26": {"learning_rate": 4e-3, **BATCH},
    "broken_batch_s27": {"learning_rate": 6e-3, **BATCH, **GTPO},
    "sound_batch_s36": {"learning_rate": 1e-4, **BATCH, **GTPO},
    "sound_batch_s37": {"learning_rate": 1e-4, **BATCH},
    "broken_explosion_s41": {"learning_rate": 5e-4, "trl": {"entropy_coef": 0.5}},
    "broken_explosion_s43": {"learning_rate": 1e-3, "trl": {"entropy_coef": 0.3}, **GTPO},
    "broken_gradient_s45": {"gradient_at": 25, "gradient_factor": 1e3},
    "broken_no_gradient_s47": {"gradient_at": 1, "gradient_factor": 0.0},
    "sound_warm_up_s51": {"learning_rate": 3e-4, "trl": {"warmup_steps": 10}, **BATCH},
    "sound_temperature_s53": {"temperature": 0.6, "steps": 60, **GTPO},
    "sound_groups_of_4_s55": {"steps": 60, "trl": {"num_generations": 4}},
    "sound_kl_s57": {"learning_rate": 2e-4, "trl": {"beta": 0.04}, **BATCH},
    "sound_negative_s59": {"reward": "penalty", **BATCH, **GTPO},
    "sound_two_updates_s61": {"trl": {"num_iterations": 2, "gradient_accumulation_steps": 2}, "steps": 60},
}
"""The options of each trace on top of `DEFAULTS`, in the order in which they are made. `trl`: other options of TRL."""

DEFAULTS: dict[str, Any] = {
    "method": "grpo", "reward": "right", "learning_rate": 1e-4, "num_prompts": 1, "steps": 40, "logging_steps": 1,
    "max_completion_length": 80, "temperature": 1.0, "random_weights": False, "sampler_noise": 0.0,
    "gradient_at": None, "gradient_factor": 1.0, "jump_at": None, "trl": {},
}  # fmt: skip


def reward_functions(kind: str, seed: int) -> list[Callable[..., list[float]]]:
    """The rewards of a trace. `solved` and `tags` are sound; the other kinds change or add to them."""
    rng = random.Random(seed)
    sign = -1.0 if kind == "wrong_sign" else 1.0
    offset = -1.0 if kind == "penalty" else 0.0

    def matches(completions: Any) -> list[re.Match[str] | None]:
        return [COMPLETE.fullmatch(completion[0]["content"]) for completion in completions]

    def solved(completions: Any, gold: list[str], log_metric: Any = None, **_: Any) -> list[float]:
        pairs = zip(matches(completions), gold, strict=True)
        right = [float(match is not None and match[2].strip() == answer) for match, answer in pairs]
        log_metric(TRUE_ACCURACY, sum(right) / len(right))
        return [sign * value + offset for value in right]

    def tags(completions: Any, **_: Any) -> list[float]:
        return [sign * float(match is not None) + offset for match in matches(completions)]

    def length(completion_ids: Any, **_: Any) -> list[float]:
        return [len(ids) / 20 for ids in completion_ids]

    def brief(completion_ids: Any, **_: Any) -> list[float]:
        return [-len(ids) / 20 for ids in completion_ids]

    def judge(completions: Any, **_: Any) -> list[float]:
        return [rng.random() for _ in completions]

    def grader(completions: Any, gold: list[str], log_metric: Any = None, **_: Any) -> list[float]:
        solved(completions, gold, log_metric)
        return [0.5] * len(completions)

    def noisy(completions: Any, gold: list[str], log_metric: Any = None, **_: Any) -> list[float]:
        solved(completions, gold, log_metric)
        return judge(completions)

    others = {"long": [solved, tags, length], "brief": [solved, tags, brief], "constant": [grader], "noise": [noisy]}
    return others.get(kind, [solved, tags])


def make(name: str, folder: Path) -> list[dict[str, Any]]:
    """Train, and return what the trainer logged."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from gtpo import GTPOConfig, GTPOTrainer
    from gtpo.lab import lab_model_dir
    from gtpo.problems.lab import lab_problems

    torch.set_num_threads(1)
    made_with = {**DEFAULTS, **TRACES[name]}
    seed, is_gtpo = int(name.rpartition("_s")[2]), made_with["method"] == "gtpo"
    options: dict[str, Any] = {
        **{key: made_with[key] for key in ("learning_rate", "logging_steps", "max_completion_length", "temperature")},
        "output_dir": str(folder), "seed": seed, "max_steps": made_with["steps"], "num_generations": 8,
        "per_device_train_batch_size": 8 * made_with["num_prompts"], "save_strategy": "no", "report_to": "none",
        "use_cpu": True, "bf16": False, "disable_tqdm": True, "gradient_checkpointing": False,
        **made_with["trl"],
    }  # fmt: skip
    problems = lab_problems("train", made_with["num_prompts"] * made_with["steps"], seed=100 + seed)
    prompts = [
        {"prompt": [{"role": "user", "content": problem.question}], "gold": problem.answer} for problem in problems
    ]
    model = AutoModelForCausalLM.from_pretrained(lab_model_dir(), dtype=torch.float32)
    if made_with["random_weights"]:
        torch.manual_seed(seed)
        for weight in model.parameters():
            if weight.ndim > 1:
                torch.nn.init.normal_(weight, std=0.02)
    trainer: Any = (GTPOTrainer if is_gtpo else GRPOTrainer)(
        model=model,
        reward_funcs=reward_functions(made_with["reward"], seed),
        args=(GTPOConfig if is_gtpo else GRPOConfig)(**options),
        train_dataset=Dataset.from_list(prompts),
        processing_class=AutoTokenizer.from_pretrained(lab_model_dir()),
    )
    if made_with["gradient_at"] is not None:
        break_gradient(trainer, made_with["gradient_at"], made_with["gradient_factor"])
    if made_with["jump_at"] is not None:
        raise_learning_rate(trainer, made_with["jump_at"])
    if made_with["sampler_noise"]:
        disturb_sampler(trainer, made_with["sampler_noise"])
    try:
        trainer.train()
    except RuntimeError:
        if not math.isnan(made_with["gradient_factor"]):
            raise  # only weights that are NaN cannot be sampled from
    rows = [row for row in trainer.state.log_history if "loss" in row]
    rows[0]["health/vocab_size"] = model.config.vocab_size
    return rows


def break_gradient(trainer: Any, step: int, factor: float) -> None:
    """From this step on, the gradient of every weight is multiplied by `factor`.

    The committed traces `broken_nan_*` are older: in them only the gradient of one weight was NaN.
    """

    def broken(gradient: Any) -> Any:
        return gradient * factor if trainer.state.global_step + 1 >= step else gradient

    for weight in trainer.model.parameters():
        weight.register_hook(broken)


def raise_learning_rate(trainer: Any, step: int) -> None:
    """From this step on, the learning rate is a hundred times too large."""
    from transformers import TrainerCallback

    class Jump(TrainerCallback):
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step + 1 >= step:
                for group in trainer.optimizer.param_groups:
                    group["lr"] = 1e-2

    trainer.add_callback(Jump())


def disturb_sampler(trainer: Any, noise: float) -> None:
    """Completions come from noisy weights, as with a sampler that is out of date. Logs the ratios as TRL does."""
    import torch

    generate = trainer._generate_and_score_completions

    def logps(batch: Any) -> Any:
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        size = batch["completion_ids"].size(1)
        with torch.no_grad():
            return trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, size)[0]

    def generate_from_noisy_weights(inputs: Any) -> Any:
        weights = [weight.detach().clone() for weight in trainer.model.parameters()]
        with torch.no_grad():
            for weight in trainer.model.parameters():
                weight.mul_(1 + noise * torch.randn_like(weight))
        batch = generate(inputs)
        sampled = logps(batch)
        with torch.no_grad():
            for weight, kept in zip(trainer.model.parameters(), weights, strict=True):
                weight.copy_(kept)
        difference = (logps(batch) - sampled)[batch["completion_mask"].bool()]
        metrics = trainer._metrics["train"]
        metrics["sampling/sampling_logp_difference/mean"].append(difference.abs().mean().item())
        metrics["sampling/importance_sampling_ratio/mean"].append(difference.exp().clamp(max=3.0).mean().item())
        return batch

    trainer._generate_and_score_completions = generate_from_noisy_weights


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    """The columns that matter, one line per row. A number that is not finite is written as nan."""
    names = ["step", *sorted({name for row in rows for name in row if COLUMNS.fullmatch(name)} - {"step"})]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            writer.writerow([f"{float(row[name]):.{KEPT_DIGITS}g}" if name in row else "" for name in names])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all that DIR does not hold yet")
    parser.add_argument("--out", type=Path, default=Path("runs/traces"), help="default: runs/traces")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or TRACES:
        path = args.out / f"{name}.csv"
        if args.names or not path.exists():
            write_csv(make(name, args.out / name), path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
