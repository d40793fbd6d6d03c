"""GSM8K: 8.5K grade school word problems whose answers are integers (arXiv:2110.14168).

A row of openai/gsm8k (main) on the hub:

    question  Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many …
    answer    Natalia sold 48/2 = <<48/2=24>>24 clips in May.\\nNatalia sold 48+24 = <<48+24=72>>72 clips …\\n#### 72
"""

import re

from gtpo.errors import DataError
from gtpo.problems.problem import Problem
from gtpo.problems.problem_set import ProblemSet
from gtpo.problems.rows import Row, text_field


def read_row(row: Row, place: str, split: str) -> Problem:
    """Turn a row into a Problem: the answer is after ####, the solution loses its calculator annotations."""
    solution, marker, answer = text_field(row, "answer", place).rpartition("####")
    if not marker or not answer.strip():
        raise DataError(f"{place}: the answer must end in '#### number', got {answer[-80:]!r}. Fix the row.")
    return Problem(
        question=text_field(row, "question", place),
        answer=answer.strip().replace(",", ""),
        source=f"gsm8k/{split}",
        solution=re.sub(r"<<.*?>>", "", solution).strip(),
    )


SETS = (
    ProblemSet(
        name="gsm8k",
        hub="openai/gsm8k",
        configs=("main",),
        read_row=read_row,
        splits={"train": "train", "test": "test"},
        files={"train": ("gsm8k_train.jsonl",), "test": ("gsm8k_test.jsonl",)},
    ),
)
