"""A prepared run in words: the summary that is printed when it starts, and the report of `gtpo train --dry-run`."""

import asyncio
import inspect
from statistics import fmean
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from gtpo.core.config import ShapingConfig
from gtpo.evaluation.graders import ANSWER
from gtpo.files import is_number
from gtpo.models import find_model
from gtpo.rewards.correctness import CORRECT_ANSWER_SCORE
from gtpo.rewards.format import COMPLETE_FORMAT_SCORE
from gtpo.runs.reading import STATE_FILE, planned_steps
from gtpo.training.config.options import RunOptions
from gtpo.training.inputs.data import right_completion
from gtpo.training.memory import memory_lines
from gtpo.training.prepare import Prepared
from gtpo.training.run_folder import RunFolder

NUM_TRIED = 3
PAPER_SPREAD = CORRECT_ANSWER_SCORE + COMPLETE_FORMAT_SCORE


def summary(prepared: Prepared, resumed: RunFolder | None = None) -> str:
    """What is trained, on what, how and where. `resumed` is the folder of the run if it continues."""
    options, config = prepared.plan.options, prepared.plan.config
    problems, num_dropped = len(prepared.problems), prepared.num_dropped
    files = "metrics.jsonl" if options.method == "sft" else "metrics.jsonl, groups.jsonl"
    return _text(
        ("model", _model(prepared)),
        ("problems", f"{options.problems}: {problems} to train on, {num_dropped} dropped for their length"),
        ("method", method_in_words(options.method, config)),
        *(_start(config, resumed) if resumed else ()),
        ("steps", f"{_steps(options, config, problems)}, {_rate(config, resumed)}, seed {config.seed}"),
        *(_schedule(config, resumed) if resumed else ()),
        ("held out", _held_out(options, resumed)),
        ("written to", f"{config.output_dir}/  ({files}, checkpoints, model/, summary.json)"),
    )


def dry_run(prepared: Prepared, resumed: RunFolder | None = None) -> str:
    """The summary, sizes, and what the rewards give to three published solutions."""
    config = prepared.plan.config
    lengths = prepared.prompt_lengths(NUM_TRIED)
    lines = [
        *memory_lines(prepared, max(lengths)),
        ("prompts", f"{', '.join(map(str, lengths))} tokens for the first three problems"),
    ]
    if prepared.rewards:
        most = config.generation_batch_size * (max(lengths) + config.max_completion_length)
        processes = f" over {config.world_size} processes" if config.world_size > 1 else ""
        batch = f"generation batch of {config.generation_batch_size} completions{processes}"
        lines += [("tokens", f"at most {most:,} per {batch}"), *_try_rewards(prepared)]
    if resumed is None and RunFolder(config.output_dir).is_taken():
        lines += [
            ("note", f"{config.output_dir} is not empty, so the run will be refused. Choose another --output_dir.")
        ]
    return summary(prepared, resumed) + _text(*lines) + "Nothing was trained, nothing was written.\n"


def _text(*lines: tuple[str, str]) -> str:
    return "".join(f"{name:>10}  {text}\n" for name, text in lines)


def method_in_words(method: str, config: Any) -> str:
    if method == "sft":
        return "SFT on the published solutions"
    if method == "grpo":
        return f"GRPO, β = {config.beta:g}"
    if config.credit != "gtpo":
        return f"GRPO with {config.credit} credit {config.credit_parameters or ''}".rstrip()
    conflicts = f"{config.conflict_positive_weight:g} / {config.conflict_negative_weight:g} ({config.conflict_edges})"
    entropy = f"filter at {config.entropy_threshold:.3g} nats ({config.entropy_filter})"
    return f"GTPO (arXiv:2508.03772), λ = {conflicts}, {entropy}, γ = {config.entropy_penalty:g}"


def _steps(options: RunOptions, config: Any, num_problems: int) -> str:
    rows = config.per_device_train_batch_size * config.gradient_accumulation_steps * config.world_size
    batch = ""
    if options.method != "sft":
        rows /= config.num_generations * config.num_iterations
        prompts = config.generation_batch_size // config.num_generations
        sampled = f"{config.num_generations} completions of at most {config.max_completion_length} tokens"
        batch = f", each {prompts} prompts × {sampled}"
    if config.max_steps > 0:
        return f"{config.max_steps}{batch}"
    return f"about {num_problems * config.num_train_epochs / rows:.0f}{batch} ({config.num_train_epochs:g} epochs)"


def _model(prepared: Prepared) -> str:
    name, base = prepared.plan.options.model, find_model(prepared.model).base
    if base is not None:
        return f"{name}, a LoRA adapter of {base}, which is trained further"
    lora = prepared.plan.model_config
    if not lora.use_peft:
        return name
    modules: Any = lora.lora_target_modules
    names = ", ".join(modules) if isinstance(modules, list) else modules or "the modules that PEFT chooses"
    return f"{name} with LoRA r {lora.lora_r}, alpha {lora.lora_alpha}, on {names}"


def _start(config: Any, resumed: RunFolder) -> list[tuple[str, str]]:
    """The checkpoint that a resumed run continues from."""
    checkpoint = resumed.newest_checkpoint()
    if checkpoint is None:
        return [("resuming", "from the start: there is no complete checkpoint")]
    total = config.max_steps if config.max_steps > 0 else _planned_steps(resumed)
    of_all = "" if total is None else f" of {total}"
    return [("resuming", f"from {checkpoint.name} (step {resumed.steps_done()}{of_all})")]


def _rate(config: Any, resumed: RunFolder | None) -> str:
    """The learning rate. A resumed run keeps the one in its checkpoint, whatever config.yaml says by now."""
    kept = kept_rate(resumed)
    if kept is None or kept == config.learning_rate:
        return f"learning rate {config.learning_rate:g}"
    edited = f"{config.learning_rate:g} in config.yaml has no effect on a run that has started"
    return f"learning rate {kept:g} ({edited})"


def kept_rate(resumed: RunFolder | None) -> float | None:
    """The learning rate that the schedule in the newest checkpoint starts from; None if it is not known."""
    checkpoint = resumed.newest_checkpoint() if resumed else None
    try:
        rate = torch.load(f"{checkpoint}/scheduler.pt", weights_only=True)["base_lrs"][0]
    except Exception:  # no checkpoint, or a damaged one, which is skipped later
        return None
    return rate if is_number(rate) else None


def _schedule(config: Any, resumed: RunFolder) -> list[tuple[str, str]]:
    """What the learning rate does in a run that was given another number of steps."""
    done, before = resumed.steps_done(), _planned_steps(resumed)
    if before is None or config.max_steps in (-1, before):
        return []
    base = kept_rate(resumed) or config.learning_rate
    old, new = (base * factor(config, steps, done) for steps in (before, config.max_steps))
    name = config.lr_scheduler_type.value
    change = f"stays at {new:.3g}" if old == new else f"changes from {old:.3g} to {new:.3g} in step {done + 1}"
    planned = f"{name}, planned anew over {config.max_steps} steps instead of {before}"
    return [("schedule", f"{planned}: after {done} steps, the rate {change}")]


def _planned_steps(resumed: RunFolder) -> int | None:
    """The number of steps that the run had when its newest checkpoint was written."""
    checkpoint = resumed.newest_checkpoint()
    return None if checkpoint is None else planned_steps(checkpoint / STATE_FILE)


def factor(config: Any, num_steps: int, done: int) -> float:
    """The learning rate after `done` of `num_steps` steps, relative to `learning_rate`. 1 if the losses decide it."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule: Any = get_scheduler(
        config.lr_scheduler_type,
        optimizer=optimizer,
        num_warmup_steps=config.get_warmup_steps(num_steps),
        num_training_steps=num_steps,
        scheduler_specific_kwargs=config.lr_scheduler_kwargs,
    )
    return schedule.lr_lambdas[0](done) if isinstance(schedule, LambdaLR) else 1.0


def _held_out(options: RunOptions, resumed: RunFolder | None) -> str:
    if options.held_out_set is None and resumed is not None:
        was_measured = (resumed.held_out / "before").is_dir()
        return "nothing more: config.yaml names no held-out set" if was_measured else "nothing"
    if options.held_out_set is None:
        return "nothing" if options.held_out_problems == 0 else "nothing: your data has no test split, set --held_out"
    sampled = f"at most {options.held_out_problems} problems × {options.held_out_samples}"
    every = f", every {options.held_out_every} steps" if options.held_out_every else ""
    when = f"before{every} and after"
    grader = "" if options.grader == ANSWER else f", graded by {options.grader}"
    return f"{options.held_out_set}, {sampled}, temperature {options.held_out_temperature:g}, {when}{grader}"


def _try_rewards(prepared: Prepared) -> list[tuple[str, str]]:
    """What each reward gives to right answers, where problems have one, and to nonsense, called as TRL calls it.

    Adds a note if the entropy penalty is too large: it is in units of reward, and the paper's rewards go up to 20.
    """
    config = prepared.plan.config
    problems = prepared.problems
    answered = [number for number, problem in enumerate(problems) if problem.answer][:NUM_TRIED]
    tried = answered or list(range(len(problems)))[:NUM_TRIED]
    kinds = {
        "right answers": [right_completion(problems[number]) for number in answered],
        "nonsense": [[{"role": "assistant", "content": "nonsense"}]] * len(tried),
    }
    columns: Any = prepared.dataset[tried]
    columns["prompts"] = columns.pop("prompt")
    columns |= {"trainer_state": None, "log_extra": _ignore, "log_metric": _ignore}
    lines: list[tuple[str, str]] = []
    spread = 0.0
    weights = config.reward_weights or [1.0] * len(prepared.rewards)
    for name, reward, weight in zip(prepared.plan.options.rewards, prepared.rewards, weights, strict=True):
        means: list[float] = []
        texts: list[str] = []
        for kind, completions in kinds.items():
            if completions:
                result = reward(completions=completions, completion_ids=[[0]] * len(tried), **columns)
                scores: list[float | None] = asyncio.run(result) if inspect.iscoroutine(result) else result
                means.append(fmean(score or 0.0 for score in scores))
                rounded = [None if score is None else float(f"{score:.4g}") for score in scores]
                texts.append(f"{rounded} for {kind}")
        lines.append(("reward", f"{name}: {', '.join(texts)}"))
        if len(means) == 2 and means[0] == means[1]:
            tried_as = "Right answers were tried as <reasoning>…</reasoning><answer>…</answer>."
            lines.append(("note", f"{name} gives right answers and nonsense the same score. {tried_as}"))
        spread += abs(weight * (means[0] - means[-1]))
    penalty = config.entropy_penalty if getattr(config, "credit", "") in ("gtpo", "annealed") else 0.0
    suggested = ShapingConfig().entropy_penalty * spread / PAPER_SPREAD
    is_in_units_of_reward = config.scale_rewards == "none" and not getattr(config, "entropy_penalty_relative", False)
    if is_in_units_of_reward and penalty > 4 * suggested > 0:
        differences = f"the paper's rewards differ by {PAPER_SPREAD:g}, these by {spread:.2g}"
        advice = f"Between right answers and nonsense {differences}. Try --entropy_penalty {suggested:.1g}."
        lines.append(("note", f"entropy_penalty {penalty:g} is in units of reward. {advice}"))
    return lines


def _ignore(*_: object) -> None:
    """Stand in for TRL's logging functions."""
