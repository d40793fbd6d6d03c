"""`gtpo train --dry-run`: everything but the training."""

import contextlib
from typing import Any

from transformers import AutoConfig

from gtpo.evaluation.sampling import encode_prompt
from gtpo.lab.model import lab_model_dir
from gtpo.problems import to_messages
from gtpo.training.data import system_prompt, training_problems, written_solution
from gtpo.training.model import load_tokenizer
from gtpo.training.plan import Plan
from gtpo.training.rewards import find_reward

GIB = 2**30


def describe(plan: Plan) -> str:
    """Load configuration, tokenizer and problems, score three problems with their own solutions, and say the plan."""
    options, config = plan.options, plan.config
    model = str(lab_model_dir()) if options.model == "lab" else options.model
    tokenizer = load_tokenizer(model) if not model.endswith(".gguf") else None
    problems, num_dropped = training_problems(options, tokenizer, config.seed)
    lines = [
        f"method      {options.method}",
        f"model       {options.model}{_size(model, plan)}",
        f"problems    {options.problems}: {len(problems)} to train on, {num_dropped} dropped for their length",
        f"steps       {_num_steps(config, len(problems), options.method)}",
        f"written to  {config.output_dir}",
    ]
    if tokenizer is not None:
        lengths = [len(encode_prompt(tokenizer, to_messages(p, system_prompt(options)))) for p in problems[:3]]
        lines.append(f"prompts     {', '.join(map(str, lengths))} tokens for the first three problems")
        if options.method != "sft":
            most = config.generation_batch_size * (max(lengths) + config.max_completion_length)
            lines.append(f"tokens      at most {most:,} a generation batch of {config.generation_batch_size}")
    if options.method != "sft":
        lines += _try_rewards(plan, problems[:3])
    return "\n".join(lines) + "\nNothing was trained, nothing was written.\n"


def _try_rewards(plan: Plan, problems: list[Any]) -> list[str]:
    """What each reward gives the published answers, and what it gives nonsense."""
    columns = {
        name: [getattr(problem, name) for problem in problems] for name in ("answer", "solution", "source", "level")
    }
    prompts = [to_messages(problem, system_prompt(plan.options)) for problem in problems]
    lines: list[str] = []
    for name in plan.options.rewards:
        reward = find_reward(name)
        scores: list[Any] = []
        for texts in ([written_solution(p) if p.solution else _answer_only(p) for p in problems], ["nonsense"] * 3):
            chats = [[{"role": "assistant", "content": text}] for text in texts[: len(problems)]]
            scores.append(reward(prompts=prompts, completions=chats, completion_ids=[[0]] * len(problems), **columns))
        lines.append(f"reward      {name}: {scores[0]} for right answers, {scores[1]} for nonsense")
    return lines


def _answer_only(problem: Any) -> str:
    return f"<reasoning>as known</reasoning><answer>{problem.answer}</answer>"


def _num_steps(config: Any, num_problems: int, method: str) -> str:
    if config.max_steps > 0:
        return str(config.max_steps)
    batch = config.per_device_train_batch_size * config.gradient_accumulation_steps * config.world_size
    per_step = batch if method == "sft" else max(1, batch // config.num_generations)
    return f"about {int(num_problems * config.num_train_epochs / per_step)} ({config.num_train_epochs:g} epochs)"


def _size(model: str, plan: Plan) -> str:
    """A rough estimate: weights, and for what is trained gradients and two moments of Adam, in the training dtype."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        settings: Any = AutoConfig.from_pretrained(model)
        hidden, layers = settings.hidden_size, settings.num_hidden_layers
        inner = getattr(settings, "intermediate_size", 4 * hidden)
        parameters = settings.vocab_size * hidden * (1 if settings.tie_word_embeddings else 2)
        parameters += layers * (4 * hidden * hidden + 3 * hidden * inner)
        weight_bytes = 0.5 if plan.model_config.load_in_4bit else 4
        state_bytes = 0 if plan.model_config.use_peft else 12
        memory = parameters * (weight_bytes + state_bytes) / GIB
        return f", about {parameters / 1e9:.2f} B parameters, {memory:.1f} GiB for weights and optimizer"
    return ""
