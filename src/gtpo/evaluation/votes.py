"""From texts to votes: the answer of each completion, whether it is correct, and which answers mean the same."""

import re
from collections.abc import Callable, Sequence

from gtpo.errors import DataError
from gtpo.evaluation.graders import Grader
from gtpo.evaluation.samples import Sample

Progress = Callable[[str, int, int], None]
"""Called with the name of the task, the number of finished items, and their total."""

Pair = tuple[str, str, str | None]
"""An answer, what it is compared with, and the question if it is known."""

Votes = tuple[list[str | None] | None, list[bool]]
"""The answer of each sample of a problem, and whether it is correct.

Answers that mean the same have the same spelling. The answer is None for a completion without one. There are no
answers at all if the grader judges complete completions.
"""

MAX_COMPARED = 1000
"""Longer answers are not mathematics; they are compared as strings."""

_BATCH = 1024
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,6})?")
"""At most 15 digits: two such numbers are equal if and only if they are equal as floats."""


def grade(problems: Sequence[Sequence[Sample]], grader: Grader, progress: Progress) -> list[Votes]:
    """The votes of each problem. All its correct answers mean the same; wrong answers are compared with each other."""
    if grader.needs_answer and not all(samples[0].gold for samples in problems):
        raise DataError(
            f"The grader {grader.name} needs answers, and some samples have none. Use a grader that does not."
        )
    if grader.extract is None:
        progress("grading", 0, len(problems))
        verdicts_of = grader.verdicts(problems)
        progress("grading", len(problems), len(problems))
        return [(None, verdicts) for verdicts in verdicts_of]
    questions = [samples[0].question for samples in problems]
    compared: list[list[Pair]] = [
        [((grader.extract(sample.text) or "").strip(), samples[0].gold, samples[0].question) for sample in samples]
        for samples in problems
    ]
    pairs = list(dict.fromkeys(pair for own in compared for pair in own if pair[0]))
    verdicts: dict[Pair, bool] = {}
    for start in range(0, len(pairs), _BATCH):
        progress("grading", start, len(pairs))
        verdicts |= _graded(pairs[start : start + _BATCH])
    progress("grading", len(pairs), len(pairs))

    correctness = [{pair[0]: verdicts[pair] for pair in own if pair[0]} for own in compared]
    spellings = merge_answers(correctness, questions, progress)
    return [
        ([spelling.get(answer) for answer, *_ in own], [verdicts.get(pair, False) for pair in own])
        for own, spelling in zip(compared, spellings, strict=True)
    ]


def merge_answers(
    problems: Sequence[dict[str, bool]], questions: Sequence[str | None], progress: Progress
) -> list[dict[str, str]]:
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
        equal = _equal_to_first(unmerged, questions)
        for spelling, answers, question in zip(spellings, unmerged, questions, strict=True):
            for answer in answers:
                if (answer, answers[0], question) in equal:
                    spelling[answer] = answers[0]
            answers[:] = [answer for answer in answers if answer not in spelling]
    progress("merging", total, total)
    return spellings


def _equal_to_first(problems: Sequence[Sequence[str]], questions: Sequence[str | None]) -> set[Pair]:
    """The answers that equal the first answer of the same problem, each with that answer and the question."""
    pairs = [
        (answer, answers[0], question)
        for answers, question in zip(problems, questions, strict=True)
        for answer in answers
    ]
    equal = {pair: _plainly_equal(*pair[:2]) for pair in pairs}
    equal |= _graded([pair for pair, is_equal in equal.items() if is_equal is None])
    return {pair for pair, is_equal in equal.items() if is_equal}


def _graded(pairs: Sequence[Pair]) -> dict[Pair, bool]:
    from gtpo.rewards import are_correct

    verdicts = are_correct(
        [answer for answer, _, _ in pairs],
        [gold for _, gold, _ in pairs],
        questions=[question for _, _, question in pairs],
    )
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
