"""`gtpo train --dry-run`: everything but the training."""

import asyncio
import contextlib
import inspect
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import AutoConfig

from gtpo.core.config import ShapingConfig
from gtpo.errors import ConfigError, require
from gtpo.problems import load_problems, to_messages
from gtpo.problems.problem import encode_prompt
from gtpo.rewards.correctness import CORRECT_ANSWER_SCORE
from gtpo.rewards.format import COMPLETE_FORMAT_SCORE
from gtpo.training.config.plan import Plan
from gtpo.training.config.vllm import require_room, require_vllm
from gtpo.training.data import (
    file_columns,
    held_out_set,
    require_enough,
    rl_dataset,
    system_prompt,
    training_problems,
    written_solution,
)
from gtpo.training.model import load_tokenizer, locate_model, trainer_arguments
from gtpo.training.rewards import find_reward

GIB = 2**30
NUM_TRIED = 3
PAPER_SPREAD = CORRECT_ANSWER_SCORE + COMPLETE_FORMAT_SCORE


def describe(plan: Plan) -> str:
    """Load configuration, tokenizer and problems, score three problems with their own solutions, and say the plan."""
    require_vllm(plan)
    options, config = plan.options, plan.config
    folder = Path(config.output_dir)
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty: choose another --output_dir.")
    if options.model.endswith(".gguf"):
        model = options.model
        if not Path(model).is_file():
            raise ConfigError(f"There is no file {model}.")
    else:
        model = locate_model(options.model, folder, plan.model_config.model_revision, with_weights=False)
    tokenizer = None if model.endswith(".gguf") else load_tokenizer(model)
    require_room(plan, None if tokenizer is None else model)
    trainer_arguments(plan.model_config, config)
    problems, num_dropped = training_problems(options, tokenizer, config.seed)
    if options.method != "sft":
        require_enough(problems, config)
    held_out = held_out_set(options)
    if held_out is not None:
        first = load_problems(held_out, data_dir=options.data_dir, limit=3, columns=file_columns(options, held_out))
        require(bool(first), "held_out", held_out, "a set with problems")
    dropped = "lengths not known yet" if tokenizer is None else f"{num_dropped} dropped for their length"
    lines = [
        f"method      {options.method}",
        f"model       {options.model}{_size(model, plan)}",
        f"problems    {options.problems}: {len(problems)} to train on, {dropped}",
        f"held out    {held_out or 'nothing'}",
        f"steps       {_num_steps(config, len(problems), options.method)}, learning rate {config.learning_rate:g}, "
        f"seed {config.seed}",
        f"written to  {config.output_dir}",
    ]
    if tokenizer is not None:
        lengths = [len(encode_prompt(tokenizer, to_messages(p, system_prompt(options)))) for p in problems[:3]]
        lines.append(f"prompts     {', '.join(map(str, lengths))} tokens for the first three problems")
        if options.method != "sft":
            size, num_processes = config.generation_batch_size, config.world_size
            most = size * (max(lengths) + config.max_completion_length)
            where = f" over {num_processes} processes" if num_processes > 1 else ""
            lines.append(f"tokens      at most {most:,} a generation batch of {size}{where}")
            prompts = size // config.num_generations
            lines.append(f"batch       {prompts} prompts × {config.num_generations} completions of at most "
                         f"{config.max_completion_length} tokens")  # fmt: skip
    if options.method != "sft":
        lines += _try_rewards(plan, problems)
    return "\n".join(lines) + "\nNothing was trained, nothing was written.\n"


def _try_rewards(plan: Plan, problems: list[Any]) -> list[str]:
    """What each reward gives the published answers, and what it gives nonsense."""
    columns: Any = rl_dataset(problems, plan.options)[:NUM_TRIED]
    problems = problems[:NUM_TRIED]
    prompts = columns.pop("prompt")
    columns |= {"trainer_state": None, "log_extra": _nothing, "log_metric": _nothing}
    lines: list[str] = []
    spread = 0.0
    weights = plan.config.reward_weights or [1.0] * len(plan.options.rewards)
    for name, weight in zip(plan.options.rewards, weights, strict=True):
        reward = find_reward(name)
        scores: list[Any] = []
        for texts in ([written_solution(p) if p.solution else _answer_only(p) for p in problems], ["nonsense"] * 3):
            chats = [[{"role": "assistant", "content": text}] for text in texts[: len(problems)]]
            given = reward(prompts=prompts, completions=chats, completion_ids=[[0]] * len(problems), **columns)
            scores.append(asyncio.run(given) if inspect.iscoroutine(given) else given)
        lines.append(f"reward      {name}: {scores[0]} for right answers, {scores[1]} for nonsense")
        right, nonsense = (fmean([score or 0.0 for score in side]) for side in scores)
        spread += abs(weight * (right - nonsense))
    return [*lines, *_penalty_note(plan, spread)]


def _penalty_note(plan: Plan, spread: float) -> list[str]:
    """The penalty is in units of reward: one made for the paper's 0 to 20 drowns rewards of 0 and 1."""
    penalty = getattr(plan.config, "entropy_penalty", 0.0)
    fitting = ShapingConfig().entropy_penalty * spread / PAPER_SPREAD
    if spread == 0 or penalty <= 4 * fitting:
        return []
    return [
        f"note        entropy_penalty {penalty:g} is in units of reward; the paper's is for rewards that differ by "
        f"{PAPER_SPREAD:g}; those of right answers and nonsense here differ by {spread:.2g}. Try --entropy_penalty "
        f"{fitting:.1g}."
    ]


def _nothing(*_: object) -> None:
    """Log nothing."""


def _answer_only(problem: Any) -> str:
    return f"<reasoning>as known</reasoning><answer>{problem.answer}</answer>"


def _num_steps(config: Any, num_problems: int, method: str) -> str:
    if config.max_steps > 0:
        return str(config.max_steps)
    batch = config.per_device_train_batch_size * config.gradient_accumulation_steps * config.world_size
    per_step = batch if method == "sft" else batch / config.num_generations
    steps = num_problems * config.num_train_epochs * getattr(config, "num_iterations", 1) / per_step
    return f"about {int(steps)} ({config.num_train_epochs:g} epochs)"


def _size(model: str, plan: Plan) -> str:
    """A rough estimate: weights, and for what is trained gradients and two moments of Adam, in float32."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        settings: Any = AutoConfig.from_pretrained(model)
        hidden, layers = settings.hidden_size, settings.num_hidden_layers
        inner = getattr(settings, "intermediate_size", 4 * hidden)
        parameters = settings.vocab_size * hidden * (1 if settings.tie_word_embeddings else 2)
        parameters += layers * (4 * hidden * hidden + 3 * hidden * inner)
        weight_bytes = 0.5 if plan.model_config.load_in_4bit else 4
        state_bytes = 0 if plan.model_config.use_peft else 12
        memory = parameters * (weight_bytes + state_bytes) / GIB
        return f", about {parameters / 1e6:,.0f} M parameters, {memory:.2g} GiB for weights and optimizer"
    return ""
