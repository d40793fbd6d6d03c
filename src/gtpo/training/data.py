"""Problems as the data sets that TRL's trainers take."""

import hashlib
from typing import Any

from datasets import Dataset

from gtpo.errors import ConfigError, DataError
from gtpo.problems import SYSTEM_PROMPT, Problem, load_problems, to_messages
from gtpo.problems.lab import lab_problems
from gtpo.problems.loading import is_file_name, parse_columns
from gtpo.problems.problem import COLUMNS, filter_by_length, to_dataset
from gtpo.training.config.options import RunOptions

LAB_PROBLEMS = 8192


def training_problems(options: RunOptions, tokenizer: Any, seed: int) -> tuple[list[Problem], int]:
    """The problems to train on, and how many were dropped for the length of their prompt, if a tokenizer can tell."""
    if options.columns and not any(is_file_name(name) for name in (options.problems, options.held_out) if name):
        raise ConfigError(f"columns={options.columns!r} names the columns of a file, and {options.problems} is none.")
    if options.problems == "lab":
        problems = lab_problems("train", options.max_problems or LAB_PROBLEMS, seed=seed)
    else:
        problems = load_problems(
            options.problems,
            split="train",
            data_dir=options.data_dir,
            limit=options.max_problems,
            columns=file_columns(options, options.problems),
        )
    num_dropped = 0
    if options.max_prompt_tokens is not None and tokenizer is not None:
        problems, num_dropped = filter_by_length(
            problems, tokenizer, options.max_prompt_tokens, system_prompt(options)
        )
    if not problems:
        raise DataError(
            f"No problem of {options.problems} is left to train on: the set has none, or max_prompt_tokens="
            f"{options.max_prompt_tokens} dropped all {num_dropped}."
        )
    return problems, num_dropped


def problems_digest(problems: list[Problem]) -> str:
    """What tells one list of problems from another."""
    rows = [tuple(getattr(one, name) for name in COLUMNS) for one in problems]
    others = [one.others for one in problems] if any(one.others for one in problems) else []
    return hashlib.sha256((repr(rows) + repr(others) * bool(others)).encode()).hexdigest()[:16]


def require_enough(problems: list[Problem], config: Any) -> None:
    """Refuse fewer problems than one generation batch asks: TRL would make not a single step of them."""
    needed = config.generation_batch_size // config.num_generations
    if len(problems) < needed:
        raise DataError(
            f"There are {len(problems)} problems, and one generation batch asks {needed} "
            f"({config.generation_batch_size} completions, {config.num_generations} of each). Give more "
            "problems, or lower per_device_train_batch_size or gradient_accumulation_steps."
        )


def file_columns(options: RunOptions, name: str) -> dict[str, str] | None:
    """How the file calls our columns; the sets that are no files have names of their own."""
    return parse_columns(options.columns) if options.columns and is_file_name(name) else None


def held_out_set(options: RunOptions) -> str | None:
    """What the numbers before and after are taken on. A file of one's own has no test split: None, unless named."""
    if options.held_out_problems == 0:
        return None
    return options.held_out or (None if is_file_name(options.problems) else options.problems)


def system_prompt(options: RunOptions) -> str:
    return SYSTEM_PROMPT if options.system_prompt is None else options.system_prompt


def rl_dataset(problems: list[Problem], options: RunOptions) -> Dataset:
    """Prompts, with the columns that rewards read."""
    return to_dataset(problems, system_prompt(options))


def sft_dataset(problems: list[Problem], options: RunOptions) -> Dataset:
    """Prompts with the published solution, written in the format that is to be learnt."""
    rows = [problem for problem in problems if problem.solution]
    if not rows:
        raise DataError(f"Problem set {options.problems} has no solutions to imitate: use method gtpo or grpo.")
    return Dataset.from_dict(
        {
            "prompt": [to_messages(problem, system_prompt(options)) for problem in rows],
            "completion": [[{"role": "assistant", "content": written_solution(problem)}] for problem in rows],
        }
    )


def written_solution(problem: Problem) -> str:
    return f"<reasoning>{problem.solution}</reasoning><answer>{problem.answer}</answer>"
