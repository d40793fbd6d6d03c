"""What completions look like: how similarly they begin, what they copy, whether the answer is a bare whole number."""

import itertools
import re
import statistics
from collections.abc import Sequence

from gtpo.rewards.answers import are_correct

NUM_CHARACTERS = 200
NUM_WORDS = 4


def common_beginning(texts: Sequence[str]) -> float:
    """Length in characters of the common beginning of two completions, averaged over all pairs.

    >>> common_beginning(["abcd", "abce", "xyz"])
    1.0
    """
    return statistics.fmean(itertools.starmap(_num_common, itertools.combinations(texts, 2)))


def _num_common(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(first), len(second)))


def copied_share(text: str, question: str) -> float:
    """Share of the four-word sequences in the first 200 characters after the opening tag that the question contains.

    >>> copied_share("<reasoning>Ann has two red hats.", "Ann has two red apples. How many?")
    0.5
    """
    words = _words(text.removeprefix("<reasoning>").lstrip()[:NUM_CHARACTERS])
    in_question = set(_sequences(_words(question)))
    sequences = _sequences(words)
    return sum(sequence in in_question for sequence in sequences) / len(sequences) if sequences else 0.0


def is_whole(answer: str) -> bool:
    """Whether the answer is a bare whole number, like every answer in GSM8K.

    >>> is_whole("$1,200$"), is_whole("13/15"), is_whole("3,5,7")
    (True, False, False)
    """
    return re.fullmatch(r"-?\d+|-?\d{1,3}(,\d{3})+", answer.strip().strip("$").strip()) is not None


def takes_whole(golds: Sequence[str]) -> list[bool]:
    r"""For each gold answer, whether a bare whole number in it would be graded right.

    >>> takes_whole(["90^\\circ", "13/15", "3, 5, 7"])
    [True, False, False]
    """
    plain = {gold: re.sub(r",?\\!|\{,\}|,(?=\d{3})", "", gold) for gold in golds}
    named = [(number, gold) for gold, text in plain.items() for number in re.findall(r"-?\d+", text)]
    verdicts = are_correct([number for number, _ in named], [gold for _, gold in named])
    taken = {gold for (_, gold), is_right in zip(named, verdicts, strict=True) if is_right}
    return [gold in taken for gold in golds]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _sequences(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + NUM_WORDS]) for i in range(len(words) - NUM_WORDS + 1)]
