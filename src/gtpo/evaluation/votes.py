"""From texts to votes: the answer of each completion, whether it is correct, and which answers mean the same."""

import dataclasses
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

from gtpo.evaluation.samples import Sample

Progress = Callable[[str, int, int], None]
"""Called with the name of the task, the number of finished items, and their total."""

Pair = tuple[str, str]
"""An answer, and what it is compared with."""

MAX_COMPARED = 1000
"""Longer answers are not mathematics; they are compared as strings."""

_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class GradedProblem:
    """The graded samples of one problem, in order.

    `answers` has the same spelling for all answers that mean the same, and None for a completion without an answer.
    """

    answers: list[str | None]
    is_correct: list[bool]
    has_format: list[bool]


def grade(problems: Sequence[Sequence[Sample]], progress: Progress) -> list[GradedProblem]:
    """Grade the samples of each problem.

    All correct answers of a problem mean the same. Wrong answers are compared with each other.
    """
    from gtpo.rewards import extract_answer, has_format

    answers = [[_stripped(extract_answer(sample.text)) for sample in samples] for samples in problems]
    golds = [samples[0].gold for samples in problems]
    pairs: dict[Pair, None] = {}
    for problem_answers, gold in zip(answers, golds, strict=True):
        for answer in problem_answers:
            if answer is not None:
                pairs[answer, gold] = None
    verdicts = _verdicts(list(pairs), lambda num_done: progress("grading", num_done, len(pairs)))

    correctness = [
        {answer: verdicts[answer, gold] for answer in problem_answers if answer is not None}
        for problem_answers, gold in zip(answers, golds, strict=True)
    ]
    spellings = merge_answers(correctness, progress)
    graded: list[GradedProblem] = []
    for samples, problem_answers, is_correct, spelling in zip(problems, answers, correctness, spellings, strict=True):
        graded.append(
            GradedProblem(
                answers=[None if answer is None else spelling[answer] for answer in problem_answers],
                is_correct=[answer is not None and is_correct[answer] for answer in problem_answers],
                has_format=[has_format(sample.text) for sample in samples],
            )
        )
    return graded


def merge_answers(problems: Sequence[dict[str, bool]], progress: Progress) -> list[dict[str, str]]:
    """Map each answer of each problem to the spelling of the first answer that it equals.

    A problem is given as its distinct answers in the order of sampling, True where correct. All correct answers are
    equal. Wrong answers are compared with the first one left, in rounds over all problems at once, by the grader that
    also compares answers with gold.
    """
    spellings: list[dict[str, str]] = []
    unmerged: list[list[str]] = []
    for answers in problems:
        correct = [answer for answer, is_correct in answers.items() if is_correct]
        spellings.append(dict.fromkeys(correct, correct[0]) if correct else {})
        unmerged.append([answer for answer, is_correct in answers.items() if not is_correct])
    total = sum(map(len, unmerged))
    while any(unmerged):
        progress("merging", total - sum(map(len, unmerged)), total)
        equal = _equal_to_first(unmerged)
        for spelling, answers in zip(spellings, unmerged, strict=True):
            for answer in answers:
                if (answer, answers[0]) in equal:
                    spelling[answer] = answers[0]
            answers[:] = [answer for answer in answers if answer not in spelling]
    progress("merging", total, total)
    return spellings


def _equal_to_first(problems: Sequence[Sequence[str]]) -> set[Pair]:
    """The pairs (answer, first answer of the same problem) that are equal."""
    equal: set[Pair] = set()
    unsure: dict[Pair, None] = {}
    for answers in problems:
        for answer in answers:
            pair = answer, answers[0]
            is_equal = _plainly_equal(*pair)
            if is_equal is None:
                unsure[pair] = None
            elif is_equal:
                equal.add(pair)
    equal.update(pair for pair, is_equal in _verdicts(list(unsure)).items() if is_equal)
    return equal


def _verdicts(pairs: list[Pair], on_progress: Callable[[int], None] = lambda _: None) -> dict[Pair, bool]:
    from gtpo.rewards import are_correct

    verdicts: list[bool] = []
    on_progress(0)
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        verdicts += are_correct([answer for answer, _ in batch], [gold for _, gold in batch])
        on_progress(len(verdicts))
    return dict(zip(pairs, verdicts, strict=True))


def _plainly_equal(answer: str, other: str) -> bool | None:
    """Whether two answers are equal, where that needs no grader: the same text, or two plain numbers. Otherwise None.

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
