"""AMC 2023: the forty problems of AMC 12 whose answers are integers. The problem texts are the MAA's.

math-ai/amc23 on the hub has the columns id, question, answer and url.
"""

from gtpo.problems.problem import Problem
from gtpo.problems.problem_set import ProblemSet
from gtpo.problems.rows import Row, text_field


def read_row(row: Row, place: str, split: str) -> Problem:
    """Turn a row into a Problem. Some mirrors write 27.0 for 27."""
    return Problem(
        question=text_field(row, "question", place),
        answer=text_field(row, "answer", place).removesuffix(".0"),
        source=f"amc23/{row.get('url') or row.get('id', split)}",
    )


SETS = (
    ProblemSet(
        name="amc23",
        hub="math-ai/amc23",
        read_row=read_row,
        splits={"test": "test"},
        files={"test": ("amc23_40.jsonl", "amc23.jsonl")},
    ),
)
