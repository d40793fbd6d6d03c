"""`gtpo train --dry-run`: describe a prepared run and try its rewards."""

import asyncio
import inspect
from statistics import fmean
from typing import Any

from gtpo.core.config import ShapingConfig
from gtpo.problems import Problem
from gtpo.rewards.correctness import CORRECT_ANSWER_SCORE
from gtpo.rewards.format import COMPLETE_FORMAT_SCORE
from gtpo.training.config.plan import Plan
from gtpo.training.data import written_solution
from gtpo.training.held_out import held_out_set
from gtpo.training.prepare import Prepared
from gtpo.training.rewards import Reward

GIB = 2**30
NUM_TRIED = 3
PAPER_SPREAD = CORRECT_ANSWER_SCORE + COMPLETE_FORMAT_SCORE


def describe(prepared: Prepared) -> str:
    """The plan in words, with the rewards of three published solutions."""
    options, config = prepared.plan.options, prepared.plan.config
    is_rl = options.method != "sft"
    lengths = prepared.prompt_lengths(NUM_TRIED)
    lines = [
        f"method      {options.method}",
        f"model       {options.model}{_size(prepared)}",
        f"problems    {options.problems}: {len(prepared.problems)} to train on, {prepared.num_dropped} dropped for "
        "their length",
        f"held out    {held_out_set(options) or 'nothing'}",
        f"steps       {_num_steps(config, len(prepared.problems), is_rl)}, learning rate {config.learning_rate:g}, "
        f"seed {config.seed}",
        f"written to  {config.output_dir}",
        f"prompts     {', '.join(map(str, lengths))} tokens for the first three problems",
    ]
    if is_rl:
        lines += [*_batch(config, max(lengths)), *_try_rewards(prepared)]
    return "\n".join(lines) + "\nNothing was trained, nothing was written.\n"


def _batch(config: Any, prompt_tokens: int) -> list[str]:
    """The size of a generation batch."""
    size = config.generation_batch_size
    most = size * (prompt_tokens + config.max_completion_length)
    processes = f" over {config.world_size} processes" if config.world_size > 1 else ""
    return [
        f"tokens      at most {most:,} per generation batch of {size}{processes}",
        f"batch       {size // config.num_generations} prompts × {config.num_generations} completions of at most "
        f"{config.max_completion_length} tokens",
    ]


def _try_rewards(prepared: Prepared) -> list[str]:
    """What each reward gives to the published answers, and what it gives to nonsense."""
    plan = prepared.plan
    problems = prepared.problems[:NUM_TRIED]
    columns: Any = prepared.dataset[:NUM_TRIED]
    columns |= {"trainer_state": None, "log_extra": _ignore, "log_metric": _ignore}
    right_answers = [_right_answer(problem) for problem in problems]
    weights = plan.config.reward_weights or [1.0] * len(prepared.rewards)
    lines: list[str] = []
    spread = 0.0
    for name, reward, weight in zip(plan.options.rewards, prepared.rewards, weights, strict=True):
        right = _score(reward, right_answers, columns)
        nonsense = _score(reward, ["nonsense"] * len(problems), columns)
        lines.append(f"reward      {name}: {right} for right answers, {nonsense} for nonsense")
        spread += abs(weight * (_mean(right) - _mean(nonsense)))
    return [*lines, *_penalty_note(plan, spread)]


def _score(reward: Reward, texts: list[str], columns: dict[str, Any]) -> list[float | None]:
    """Call the reward as TRL does."""
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    columns = {**columns, "prompts": columns["prompt"]}
    del columns["prompt"]
    scores = reward(completions=completions, completion_ids=[[0]] * len(texts), **columns)
    return asyncio.run(scores) if inspect.iscoroutine(scores) else scores


def _mean(scores: list[float | None]) -> float:
    return fmean(score or 0.0 for score in scores)


def _penalty_note(plan: Plan, spread: float) -> list[str]:
    """Warn of an entropy penalty that is too large: it is in units of reward, and the paper's rewards go up to 20."""
    penalty = getattr(plan.config, "entropy_penalty", 0.0)
    suggested = ShapingConfig().entropy_penalty * spread / PAPER_SPREAD
    if spread == 0 or penalty <= 4 * suggested:
        return []
    return [
        f"note        entropy_penalty {penalty:g} is in units of reward. The paper's rewards differ by "
        f"{PAPER_SPREAD:g} between right answers and nonsense; these differ by {spread:.2g}. Try --entropy_penalty "
        f"{suggested:.1g}."
    ]


def _ignore(*_: object) -> None:
    """Stand in for TRL's logging functions."""


def _right_answer(problem: Problem) -> str:
    if problem.solution:
        return written_solution(problem)
    return f"<reasoning>as known</reasoning><answer>{problem.answer}</answer>"


def _num_steps(config: Any, num_problems: int, is_rl: bool) -> str:
    if config.max_steps > 0:
        return str(config.max_steps)
    batch = config.per_device_train_batch_size * config.gradient_accumulation_steps * config.world_size
    per_step = batch / config.num_generations if is_rl else batch
    steps = num_problems * config.num_train_epochs * getattr(config, "num_iterations", 1) / per_step
    return f"about {int(steps)} ({config.num_train_epochs:g} epochs)"


def _size(prepared: Prepared) -> str:
    """A rough estimate of the memory for weights and, for what is trained, gradients and Adam's moments in float32."""
    settings, model_config = prepared.model_settings, prepared.plan.model_config
    try:
        hidden, layers = settings.hidden_size, settings.num_hidden_layers
        inner = getattr(settings, "intermediate_size", 4 * hidden)
        parameters = settings.vocab_size * hidden * (1 if settings.tie_word_embeddings else 2)
        parameters += layers * (4 * hidden * hidden + 3 * hidden * inner)
    except AttributeError:  # an architecture with other names
        return ""
    weight_bytes = 0.5 if model_config.load_in_4bit else 4
    state_bytes = 0 if model_config.use_peft else 12
    memory = parameters * (weight_bytes + state_bytes) / GIB
    return f", about {parameters / 1e6:,.0f} M parameters, {memory:.2g} GiB for weights and optimizer"
