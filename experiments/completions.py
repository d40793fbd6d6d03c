"""What completions look like: how alike they begin, what they copy, whether they answer with a bare whole number."""

import itertools
import re
import statistics
from collections.abc import Sequence

NUM_CHARACTERS = 200
NUM_WORDS = 4


def common_beginning(texts: Sequence[str]) -> float:
    """Characters from the start that two completions have in common, the mean over all pairs.

    >>> common_beginning(["abcd", "abce", "xyz"])
    1.0
    """
    return statistics.fmean(itertools.starmap(_num_common, itertools.combinations(texts, 2)))


def _num_common(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))


def copied_share(text: str, question: str) -> float:
    """Of the runs of four words in the first 200 characters behind the opening tag, the share that the question has.

    >>> copied_share("<reasoning>Ann has two red hats.", "Ann has two red apples. How many?")
    0.5
    """
    words = _words(text.removeprefix("<reasoning>").lstrip()[:NUM_CHARACTERS])
    asked = set(_runs(_words(question)))
    runs = _runs(words)
    return sum(run in asked for run in runs) / len(runs) if runs else 0.0


def is_whole(answer: str | None) -> bool:
    """Whether the answer is a bare whole number, as every answer of GSM8K is.

    >>> is_whole("$1,200$"), is_whole("13/15"), is_whole(None)
    (True, False, False)
    """
    return answer is not None and re.fullmatch(r"-?\d[\d,]*", answer.strip().strip("$").strip()) is not None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + NUM_WORDS]) for i in range(len(words) - NUM_WORDS + 1)]
