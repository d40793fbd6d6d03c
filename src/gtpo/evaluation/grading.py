"""From texts to votes: which answer a completion gives, whether it is right, and which answers mean the same."""

import dataclasses
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

from gtpo.evaluation.samples import Sample

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

MAX_COMPARED = 1000
"""Longer answers are no mathematics: two of them are compared as strings."""

_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class GradedProblem:
    """The samples of one problem. `answers` spells all that mean the same in one way; None is no answer."""

    answers: list[str | None]
    is_correct: list[bool]
    has_format: list[bool]


def grade(problems: Sequence[Sequence[Sample]], progress: Progress) -> list[GradedProblem]:
    """Grade the samples of each problem. All right answers of a problem mean the same; wrong ones are compared."""
    from gtpo.rewards import extract_answer, has_format

    answers = [[_stripped(extract_answer(sample.text)) for sample in samples] for samples in problems]
    pairs = [
        (answer, samples[0].gold)
        for samples, given in zip(problems, answers, strict=True)
        for answer in dict.fromkeys(given)
        if answer is not None
    ]
    correct = _graded(pairs, lambda done: progress("grading", done, len(pairs)))
    spellings = merge_answers(
        [_distinct(given, samples[0].gold, correct) for samples, given in zip(problems, answers, strict=True)],
        progress,
    )
    return [
        GradedProblem(
            answers=[None if answer is None else spelling[answer] for answer in given],
            is_correct=[answer is not None and correct[answer, samples[0].gold] for answer in given],
            has_format=[has_format(sample.text) for sample in samples],
        )
        for samples, given, spelling in zip(problems, answers, spellings, strict=True)
    ]


def merge_answers(problems: Sequence[dict[str, bool]], progress: Progress) -> list[dict[str, str]]:
    """One spelling for each answer of each problem: that of the first seen answer which it equals.

    Each problem is its distinct answers in the order of sampling, True where right. All right ones are equal. Wrong
    ones are measured against the first of those left, round by round, all problems at once, by the grader that also
    measures answers against gold.
    """
    spellings: list[dict[str, str]] = []
    left: list[list[str]] = []
    for answers in problems:
        right = [answer for answer, is_right in answers.items() if is_right]
        spellings.append(dict.fromkeys(right, right[0]) if right else {})
        left.append([answer for answer, is_right in answers.items() if not is_right])
    total = sum(map(len, left))
    while any(left):
        progress("merging", total - sum(map(len, left)), total)
        heads = [waiting[0] if waiting else "" for waiting in left]
        unsure = [
            (answer, head)
            for waiting, head in zip(left, heads, strict=True)
            for answer in waiting[1:]
            if _plainly_equal(answer, head) is None
        ]
        graded = _graded(list(dict.fromkeys(unsure)))
        for index, (waiting, head) in enumerate(zip(left, heads, strict=True)):
            same = {
                answer
                for answer in waiting
                if (_plainly_equal(answer, head) if (answer, head) not in graded else graded[answer, head])
            }
            spellings[index].update(dict.fromkeys(same, head))
            left[index] = [answer for answer in waiting if answer not in same]
    progress("merging", total, total)
    return spellings


def _graded(pairs: list[tuple[str, str]], done: Callable[[int], None] = lambda _: None) -> dict[tuple[str, str], bool]:
    from gtpo.rewards import are_correct

    verdicts: list[bool] = []
    done(0)
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        verdicts += are_correct([answer for answer, _ in batch], [gold for _, gold in batch])
        done(len(verdicts))
    return dict(zip(pairs, verdicts, strict=True))


def _distinct(answers: Sequence[str | None], gold: str, correct: dict[tuple[str, str], bool]) -> dict[str, bool]:
    return {answer: correct[answer, gold] for answer in answers if answer is not None}


def _plainly_equal(answer: str, other: str) -> bool | None:
    """Whether two answers are equal where that needs no grader: the same text, or two plain numbers; else None.

    >>> _plainly_equal("5.0", "5"), _plainly_equal("5", "15"), _plainly_equal("1/2", "0.5")
    (True, False, None)
    """
    if answer == other:
        return True
    if max(len(answer), len(other)) > MAX_COMPARED:
        return False
    first, second = _plain_number(answer), _plain_number(other)
    return None if first is None or second is None else first == second


def _plain_number(answer: str) -> Decimal | None:
    if len(answer) > 15 or not answer.isascii() or set(answer) - set("-.0123456789"):
        return None
    try:
        return Decimal(answer)
    except InvalidOperation:
        return None


def _stripped(answer: str | None) -> str | None:
    return (answer or "").strip() or None
