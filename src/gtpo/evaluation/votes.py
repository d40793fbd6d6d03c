"""From texts to votes: the answer of each completion, whether it is correct, and which answers mean the same."""

import dataclasses
import re
from collections.abc import Callable, Sequence

from gtpo.evaluation.samples import Sample

Progress = Callable[[str, int, int], None]
"""Called with the name of the task, the number of finished items, and their total."""

Pair = tuple[str, str]
"""An answer, and what it is compared with."""

MAX_COMPARED = 1000
"""Longer answers are not mathematics; they are compared as strings."""

_BATCH = 1024
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,6})?")
"""At most 15 digits: two such numbers are equal if and only if they are equal as floats."""


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

    answers = [[(extract_answer(sample.text) or "").strip() for sample in samples] for samples in problems]
    golds = [samples[0].gold for samples in problems]
    pairs: list[Pair] = []
    for problem_answers, gold in zip(answers, golds, strict=True):
        pairs += [(answer, gold) for answer in problem_answers if answer]
    pairs = list(dict.fromkeys(pairs))
    verdicts: dict[Pair, bool] = {}
    for start in range(0, len(pairs), _BATCH):
        progress("grading", start, len(pairs))
        verdicts.update(_graded(pairs[start : start + _BATCH]))
    progress("grading", len(pairs), len(pairs))

    correctness = [
        {answer: verdicts[answer, gold] for answer in problem_answers if answer}
        for problem_answers, gold in zip(answers, golds, strict=True)
    ]
    spellings = merge_answers(correctness, progress)
    graded: list[GradedProblem] = []
    for samples, problem_answers, is_correct, spelling in zip(problems, answers, correctness, spellings, strict=True):
        graded.append(
            GradedProblem(
                answers=[spelling.get(answer) for answer in problem_answers],
                is_correct=[is_correct.get(answer, False) for answer in problem_answers],
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
    pairs = [(answer, answers[0]) for answers in problems for answer in answers]
    equal = {pair: _plainly_equal(*pair) for pair in pairs}
    equal |= _graded([pair for pair, is_equal in equal.items() if is_equal is None])
    return {pair for pair, is_equal in equal.items() if is_equal}


def _graded(pairs: Sequence[Pair]) -> dict[Pair, bool]:
    from gtpo.rewards import are_correct

    verdicts = are_correct([answer for answer, _ in pairs], [gold for _, gold in pairs])
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
    if _PLAIN_NUMBER.fullmatch(answer) and _PLAIN_NUMBER.fullmatch(other):
        return float(answer) == float(other)
    return None
