"""The problems to train on, as the data sets that TRL's trainers take, and the evaluation on held-out problems."""

import gc
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation.evaluate import Progress, evaluate
from gtpo.evaluation.graders import find_grader
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.problems import Problem, load_problems, to_dataset, to_messages
from gtpo.problems.lab import lab_problems
from gtpo.problems.problem import encode_prompt
from gtpo.training.config.options import RunOptions

logger = logging.getLogger(__name__)

LAB_PROBLEMS = 8192
METRICS = {"accuracy": "pass@1", "format": "format_rate", "entropy": "mean_entropy"}
"""Our names for three metrics of an evaluation."""


def training_problems(options: RunOptions, seed: int, *, needs_answer: bool = True) -> list[Problem]:
    """The problems to train on, before any is dropped for the length of its prompt."""
    name, limit = options.problems, options.max_problems
    if name == "lab":
        return lab_problems("train", limit or LAB_PROBLEMS, seed=seed)
    columns = options.columns_of(name)
    return load_problems(
        name, split="train", data_dir=options.data_dir, limit=limit, columns=columns, needs_answer=needs_answer
    )


def make_dataset(problems: list[Problem], options: RunOptions) -> Dataset:
    """The data set for the trainer of the method. SFT imitates the published solutions."""
    if options.method != "sft":
        return to_dataset(problems, options.system_prompt)
    solved = [problem for problem in problems if problem.solution]
    if not solved:
        raise DataError(f"Problem set {options.problems} has no solutions to imitate. Use method gtpo or grpo.")
    prompts = [to_messages(problem, options.system_prompt) for problem in solved]
    return Dataset.from_dict({"prompt": prompts, "completion": [right_completion(problem) for problem in solved]})


def right_completion(problem: Problem) -> list[dict[str, str]]:
    """The published solution as chat messages, in the format that the paper's reward expects."""
    solution = problem.solution or "as published"
    return [{"role": "assistant", "content": f"<reasoning>{solution}</reasoning><answer>{problem.answer}</answer>"}]


def held_out_problems(options: RunOptions) -> list[Problem]:
    """The held-out problems; empty if nothing is held out."""
    name = options.held_out_set
    needs_answer = find_grader(options.grader).needs_answer
    return [] if name is None else load_problems(name, **_selection(options, name), needs_answer=needs_answer)


def check_held_out(
    options: RunOptions, tokenizer: Any, context_length: int | None, trained: Sequence[Problem]
) -> None:
    """Refuse held-out prompts that leave no room for an answer. Warns of problems that are also trained on."""
    name = options.held_out_set
    if name is None:
        return
    problems = held_out_problems(options)
    seen = set(map(_conversation, trained))
    if num_seen := sum(_conversation(problem) in seen for problem in problems):
        logger.warning(
            "%d of the %d held-out problems of %s are trained on too: they do not show how the model does on others. "
            "Remove them from one of the two.",
            num_seen,
            len(problems),
            Path(name).name,
        )
    prompts = [encode_prompt(tokenizer, to_messages(problem, options.system_prompt)) for problem in problems]
    try:
        sampling_settings(options).fitted(max(map(len, prompts)), context_length)
    except ConfigError as error:
        raise ConfigError(f"Held-out problems, {Path(name).name}: {error}") from error


def _conversation(problem: Problem) -> tuple[tuple[str, str], ...]:
    """The messages of a prompt, whatever its system prompt."""
    messages = to_messages(problem, None)
    return tuple((message["role"], message["content"]) for message in messages if message["role"] != "system")


def measure_held_out(
    options: RunOptions, model: str, samples: Path, progress: Progress, *, trust_remote_code: bool
) -> dict[str, Any] | None:
    """Accuracy, format and entropy on held-out problems, sampled in the same way for every method."""
    name = options.held_out_set
    if name is None:
        return None
    selection = _selection(options, name)
    evaluation = evaluate(
        [model],
        [name],
        sampling_settings(options),
        samples,
        grader=options.grader,
        progress=progress,
        trust_remote_code=trust_remote_code,
        **selection,
    )
    free_memory()
    measurement = evaluation.measurements[0]
    estimates = measurement.estimates
    measured = {ours: estimates[metric] for ours, metric in METRICS.items() if metric in estimates}
    return {
        **{name: round(estimate.value, 4) for name, estimate in measured.items()},
        "intervals": {name: [round(estimate.low, 4), round(estimate.high, 4)] for name, estimate in measured.items()},
        "problems": Path(name).name,
        "num_problems": measurement.num_problems,
        "num_samples": options.held_out_samples,
        "temperature": options.held_out_temperature,
        "max_new_tokens": options.held_out_tokens,
        "grader": options.grader,
    }


def free_memory() -> None:
    """Return the memory of a deleted model to the GPU: vLLM reserves a fraction of what is free."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _selection(options: RunOptions, name: str) -> dict[str, Any]:
    columns = options.columns_of(name)
    return {"data_dir": options.data_dir, "limit": options.held_out_problems, "columns": columns}


def sampling_settings(options: RunOptions) -> SamplingSettings:
    """How held-out problems are sampled, the same way for every method."""
    return SamplingSettings(
        num_samples=options.held_out_samples,
        temperature=options.held_out_temperature,
        max_new_tokens=options.held_out_tokens,
        system_prompt=options.system_prompt,
    )
