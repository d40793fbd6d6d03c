r"""What the question says about an answer: formulas that were copied from it, and the nouns that it counts."""

import re
from functools import lru_cache

from gtpo.rewards.equivalence.normalise import normalise
from gtpo.rewards.equivalence.structure import take_apart
from gtpo.rewards.equivalence.units import noun_stems, split_unit

_PLAIN = re.compile(r"[-+]?\s*(?:\d[\d,\s]*(?:\.\d*)?|\.\d+)|[-+]?\\infty|[A-Za-z][A-Za-z' .-]*|\([A-Z]\)")
_FRACTION = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
_DECORATION = re.compile(r"[\s${}*~]|\\(?:cdot|times|text|displaystyle|[!,;: ])(?![a-zA-Z])")
_NAME = re.compile(r"^\(?\\?[a-zA-Z]+(?:\([a-zA-Z,]+\))?\)?=")


def is_copied(answer: str, gold: str, question: str) -> bool:
    r"""Whether a normalised answer is a formula of the question and not literally the gold answer.

    A plain number, a word, or a list of these is not a formula.

    >>> is_copied("(2x)^{3}", "8x^3", "Simplify $(2x)^3$."), is_copied("16", "16.0", "Find $g(16)$.")
    (True, False)
    """
    if _is_plain(answer):
        return False
    formula, literal_gold = squeeze(answer), squeeze(gold)
    if formula in (literal_gold, _NAME.sub("", literal_gold)):
        return False
    before = r"(?<![\d.])" if formula[:1].isdigit() else ""
    after = r"(?![\d]|\.\d)" if formula[-1:].isdigit() else ""
    return re.search(before + re.escape(formula) + after, _squeezed_question(question)) is not None


@lru_cache(maxsize=256)
def question_nouns(question: str) -> frozenset[str]:
    """The words of the question in the singular. They may follow a number in the answer."""
    return noun_stems(question)


def squeeze(text: str) -> str:
    r"""The characters of a normalised formula, without white space, braces and signs of multiplication.

    >>> squeeze("\\frac{2 \\pi}{3}"), squeeze("2\\cdot\\pi/3")
    ('2\\pi/3', '2\\pi/3')
    """
    before = None
    while text != before:
        before, text = text, _FRACTION.sub(r"\1/\2", text)
    return _DECORATION.sub("", text).replace(r"\div", "/")


@lru_cache(maxsize=256)
def _squeezed_question(question: str) -> str:
    return squeeze(normalise(question))


def _is_plain(answer: str) -> bool:
    parts = take_apart(answer)
    if parts is not None:
        return all(map(_is_plain, parts.members))
    return _PLAIN.fullmatch(split_unit(answer)[0]) is not None
