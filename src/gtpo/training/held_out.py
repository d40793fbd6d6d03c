"""The held-out problems of a run: checked before it starts, and measured before and after training."""

import gc
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gtpo.errors import ConfigError
from gtpo.evaluation.evaluate import Progress, evaluate
from gtpo.evaluation.graders import find_grader
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.files import is_number
from gtpo.problems import Problem, load_problems, to_messages
from gtpo.problems.problem import encode_prompt
from gtpo.text import MISSING
from gtpo.training.config.options import RunOptions

logger = logging.getLogger(__name__)

METRICS = {"accuracy": "pass@1", "format": "format_rate", "entropy": "mean_entropy"}
"""Our names for three metrics of an evaluation."""


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


def interval(measured: dict[str, Any], name: str) -> str:
    """A rate in percent, with its interval if that is known.

    >>> interval({"accuracy": 0.5, "intervals": {"accuracy": [0.25, 0.75]}}, "accuracy")
    '50.0 % (25.0 to 75.0)'
    """
    value: Any = measured.get(name)
    intervals: Any = measured.get("intervals")
    if not is_number(value):
        return MISSING
    ends: Any = intervals.get(name) if isinstance(intervals, dict) else None
    is_known = isinstance(ends, list) and len(ends) == 2 and all(map(is_number, ends))
    return f"{100 * value:.1f} %" + (f" ({100 * ends[0]:.1f} to {100 * ends[1]:.1f})" if is_known else "")
