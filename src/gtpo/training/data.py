"""Problems as the data sets that TRL's trainers take."""

import hashlib
from typing import Any

from datasets import Dataset

from gtpo.errors import ConfigError, DataError
from gtpo.problems import SYSTEM_PROMPT, Problem, load_problems, to_messages
from gtpo.problems.lab import lab_problems
from gtpo.problems.loading import is_file_name, parse_columns
from gtpo.problems.problem import COLUMNS, to_dataset
from gtpo.training.config.options import RunOptions

LAB_PROBLEMS = 8192


def training_problems(options: RunOptions, seed: int) -> list[Problem]:
    """The problems to train on, before any is dropped for the length of its prompt."""
    if options.columns and not any(is_file_name(name) for name in (options.problems, options.held_out) if name):
        raise ConfigError(f"`columns` only applies to a file; {options.problems!r} is a built-in problem set.")
    if options.problems == "lab":
        return lab_problems("train", options.max_problems or LAB_PROBLEMS, seed=seed)
    return load_problems(
        options.problems,
        split="train",
        data_dir=options.data_dir,
        limit=options.max_problems,
        columns=file_columns(options, options.problems),
    )


def file_columns(options: RunOptions, name: str) -> dict[str, str] | None:
    """The column names of the file `name`; None for a built-in problem set."""
    return parse_columns(options.columns) if options.columns and is_file_name(name) else None


def problems_digest(problems: list[Problem]) -> str:
    """A digest that changes with the content or the order of the problems."""
    text = repr([tuple(getattr(problem, name) for name in COLUMNS) for problem in problems])
    if any(problem.others for problem in problems):
        text += repr([problem.others for problem in problems])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def require_enough(problems: list[Problem], config: Any) -> None:
    """Refuse fewer problems than a generation batch has prompts: TRL would finish without a single step."""
    needed = config.generation_batch_size // config.num_generations
    if len(problems) < needed:
        raise DataError(
            f"There are {len(problems)} problems, but a generation batch needs {needed} "
            f"({config.generation_batch_size} completions, {config.num_generations} per problem). Add problems, or "
            "lower per_device_train_batch_size or gradient_accumulation_steps."
        )


def system_prompt(options: RunOptions) -> str:
    return SYSTEM_PROMPT if options.system_prompt is None else options.system_prompt


def make_dataset(problems: list[Problem], options: RunOptions) -> Dataset:
    """The data set for the trainer of the method."""
    return sft_dataset(problems, options) if options.method == "sft" else to_dataset(problems, system_prompt(options))


def sft_dataset(problems: list[Problem], options: RunOptions) -> Dataset:
    """Prompts with their published solutions, written in the format that the paper's reward expects."""
    solved = [problem for problem in problems if problem.solution]
    if not solved:
        raise DataError(f"Problem set {options.problems} has no solutions to imitate. Use method gtpo or grpo.")
    return Dataset.from_dict(
        {
            "prompt": [to_messages(problem, system_prompt(options)) for problem in solved],
            "completion": [[{"role": "assistant", "content": written_solution(problem)}] for problem in solved],
        }
    )


def written_solution(problem: Problem) -> str:
    return f"<reasoning>{problem.solution}</reasoning><answer>{problem.answer}</answer>"
