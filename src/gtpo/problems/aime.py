"""AIME 2024 and 2025: thirty problems each, answers from 0 to 999. The problem texts are the MAA's.

Columns on the hub: HuggingFaceH4/aime_2024 has id, problem, solution, answer, url and year, and only a split train.
math-ai/aime25 has problem, answer and id.
"""

from functools import partial

from gtpo.problems.problem import Problem
from gtpo.problems.problem_set import ProblemSet
from gtpo.problems.rows import Row, optional_text, text_field


def read_row(row: Row, place: str, split: str, *, name: str) -> Problem:
    """Turn a row into a Problem. Leading zeros of the answer are dropped: the published 025 is 25."""
    answer = text_field(row, "answer", place)
    return Problem(
        question=text_field(row, "problem", place),
        answer=(answer.lstrip("0") or "0") if answer.isascii() and answer.isdecimal() else answer,
        source=f"{name}/{row.get('url') or row.get('id', split)}",
        solution=optional_text(row, "solution") or "",
    )


SETS = (
    ProblemSet(
        name="aime24",
        hub="HuggingFaceH4/aime_2024",
        read_row=partial(read_row, name="aime24"),
        splits={"test": "train"},
        files={"test": ("aime24.jsonl",)},
    ),
    ProblemSet(
        name="aime25",
        hub="math-ai/aime25",
        read_row=partial(read_row, name="aime25"),
        splits={"test": "test"},
        files={"test": ("aime25.jsonl",)},
    ),
)
