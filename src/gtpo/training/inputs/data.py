"""The problems to train on, as the data sets that TRL's trainers take."""

from datasets import Dataset

from gtpo.errors import DataError
from gtpo.problems import Problem, load_problems, to_dataset, to_messages
from gtpo.problems.lab import lab_problems
from gtpo.training.config.options import RunOptions

LAB_PROBLEMS = 8192


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
