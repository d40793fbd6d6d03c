"""The evaluation on held-out problems before and after training."""

import gc
from pathlib import Path
from typing import Any

import torch

from gtpo.errors import ConfigError
from gtpo.evaluation.evaluate import Progress, evaluate
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.problems import load_problems, to_messages
from gtpo.problems.loading import is_file_name
from gtpo.problems.problem import encode_prompt
from gtpo.training.config.options import RunOptions
from gtpo.training.data import file_columns, system_prompt

METRICS = {"accuracy": "pass@1", "format": "format_rate", "entropy": "mean_entropy"}
"""Our names for three metrics of an evaluation."""


def held_out_set(options: RunOptions) -> str | None:
    """The name of the held-out set. A problem file has no test split: None unless `held_out` names a set."""
    if options.held_out_problems == 0:
        return None
    return options.held_out or (None if is_file_name(options.problems) else options.problems)


def check_held_out(options: RunOptions, tokenizer: Any, context_length: int | None) -> None:
    """Refuse held-out problems that the model cannot answer: there are none, or a prompt leaves no room."""
    name = held_out_set(options)
    if name is None:
        return
    columns = file_columns(options, name)
    problems = load_problems(name, data_dir=options.data_dir, limit=options.held_out_problems, columns=columns)
    if not problems:
        raise ConfigError(f"held_out must be a set with problems, got {name!r}.")
    prompts = [encode_prompt(tokenizer, to_messages(problem, system_prompt(options))) for problem in problems]
    try:
        _settings(options).fitted(max(map(len, prompts)), context_length)
    except ConfigError as error:
        raise ConfigError(f"Held-out problems, {Path(name).name}: {error}") from error


def measure_held_out(options: RunOptions, model: str, samples: Path, progress: Progress) -> dict[str, Any] | None:
    """Accuracy, format and entropy on held-out problems, sampled in the same way for every method."""
    name = held_out_set(options)
    if name is None:
        return None
    settings = _settings(options)
    evaluation = evaluate(
        [model],
        [name],
        settings,
        samples,
        data_dir=options.data_dir,
        limit=options.held_out_problems,
        progress=progress,
        columns=file_columns(options, name),
    )
    free_memory()
    measurement = evaluation.measurements[0]
    estimates = measurement.estimates
    return {
        **{ours: round(estimates[metric].value, 4) for ours, metric in METRICS.items() if metric in estimates},
        "problems": Path(name).name,
        "num_problems": measurement.num_problems,
        "num_samples": options.held_out_samples,
        "temperature": settings.temperature,
        "max_new_tokens": options.held_out_tokens,
    }


def free_memory() -> None:
    """Return the memory of a deleted model to the GPU: vLLM reserves a fraction of what is free."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _settings(options: RunOptions) -> SamplingSettings:
    return SamplingSettings(
        num_samples=options.held_out_samples,
        temperature=options.held_out_temperature,
        max_new_tokens=options.held_out_tokens,
        system_prompt=system_prompt(options),
    )
