"""The record that every problem set yields."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A question and its gold answer, with where they come from."""

    question: str
    answer: str
    source: str
    solution: str = ""
    subject: str | None = None
    level: int | None = None
