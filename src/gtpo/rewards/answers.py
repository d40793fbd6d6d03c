"""Answers: extracting them from completions, and checking them against gold answers in the grading workers."""

import re
from collections.abc import Sequence

from gtpo.rewards.grading import default_grader

_TAG = re.compile("</?answer>")


def extract_answer(text: str) -> str | None:
    """The content of the last closed <answer> pair, stripped; None if no pair is closed.

    >>> extract_answer("<reasoning>2 + 3</reasoning><answer> 5 </answer>"), extract_answer("5")
    ('5', None)
    """
    answer = start = None
    for tag in _TAG.finditer(text):
        if tag[0] == "<answer>":
            start = tag.end()
        elif start is not None:
            answer, start = text[start : tag.start()].strip(), None
    return answer


def is_correct(answer: str, gold: str, *, question: str | None = None) -> bool:
    r"""Whether the answer means the same as the gold answer. Decided in a worker process, never in this one.

    Pass the question if it is known: a formula copied from it is then not correct unless it is the gold answer
    literally, and its nouns may follow a number ("18 eggs"). docs/rewards.md lists the rules. An answer that cannot be
    graded in time is not correct.

    >>> is_correct("1,000", "1000"), is_correct("\\dfrac{1}{2}", "0.5"), is_correct("15", "5")
    (True, True, False)
    >>> is_correct("18 eggs", "18", question="How many eggs are left?"), is_correct("5!", "120")
    (True, False)
    """
    return are_correct([answer], [gold], questions=[question])[0]


def are_correct(
    answers: Sequence[str], golds: Sequence[str], *, questions: Sequence[str | None] | None = None
) -> list[bool]:
    """`is_correct` for many pairs at once. This is much faster, because one message carries many pairs."""
    return [verdict == "right" for verdict in default_grader().grade(answers, golds, questions)]
