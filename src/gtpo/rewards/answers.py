"""Answers: taking them out of a completion, and asking the workers whether they are right."""

import re
from collections.abc import Sequence

from gtpo.rewards.grading.grader import default_grader

_TAG = re.compile("</?answer>")


def extract_answer(text: str) -> str | None:
    """The content of the last closed <answer> pair, stripped; None where no pair is closed.

    >>> extract_answer("<reasoning>2 + 3</reasoning><answer> 5 </answer>"), extract_answer("5")
    ('5', None)
    """
    found = start = None
    for tag in _TAG.finditer(text):
        if tag[0] == "<answer>":
            start = tag.end()
        elif start is not None:
            found, start = text[start : tag.start()].strip(), None
    return found


def is_correct(answer: str, gold: str) -> bool:
    r"""Does the answer say what the gold answer says? Decided in a worker process, never in this one.

    What counts as equal is in docs/rewards.md. An answer that cannot be graded in time is not correct.

    >>> is_correct("1,000", "1000"), is_correct("\\dfrac{1}{2}", "0.5"), is_correct("15", "5")
    (True, True, False)
    """
    return are_correct([answer], [gold])[0]


def are_correct(answers: Sequence[str], golds: Sequence[str]) -> list[bool]:
    """`is_correct` for many pairs at once: one message carries many of them, so this is much faster."""
    return [verdict == "right" for verdict in default_grader().grade(answers, golds)]
