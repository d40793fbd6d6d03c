"""Problems to train and evaluate on: from the hub, a folder of JSONL files, or a file of your own."""

from gtpo.problems.loading import load_problems
from gtpo.problems.problem import SYSTEM_PROMPT, Problem, filter_by_length, to_dataset, to_messages
from gtpo.problems.problem_set import ProblemSet
from gtpo.problems.sets import PROBLEM_SETS

__all__ = [
    "PROBLEM_SETS",
    "SYSTEM_PROMPT",
    "Problem",
    "ProblemSet",
    "filter_by_length",
    "load_problems",
    "to_dataset",
    "to_messages",
]
