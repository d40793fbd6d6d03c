r"""What the question says about an answer: formulas that were copied from it, and the nouns that it counts."""

import re
from functools import lru_cache

from gtpo.rewards.equivalence.normalise import normalise
from gtpo.rewards.equivalence.structure import split_top_level, take_apart, without_brackets
from gtpo.rewards.equivalence.units import noun_stems, split_unit

_PLAIN = re.compile(r"[-+]?\s*(?:\d[\d,\s]*(?:\.\d*)?|\.\d+)|[-+]?\\infty|[A-Za-z][A-Za-z' .-]*|\([A-Z]\)")
_FRACTION = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
_DECORATION = re.compile(r"[\s${}*~]|\\(?:cdot|times|text|displaystyle|[!,;: ])(?![a-zA-Z])")
_NAME = re.compile(r"\\?[a-zA-Z]+\s*(?:\([a-zA-Z]\))?\s*")


def is_copied(answer: str, gold: str, question: str) -> bool:
    r"""Whether a normalised answer is a formula of the question and not literally the gold answer.

    A plain number, a word, or a list of these is not a formula. A name, a unit or brackets around a formula of the
    question do not make it another one.

    >>> is_copied("(2x)^{3}", "8x^3", "Simplify $(2x)^3$."), is_copied("16", "16.0", "Find $g(16)$.")
    (True, False)
    >>> is_copied("y = (2x)^{3}", "8x^3", "Simplify $(2x)^3$."), is_copied("(2x)^3 = 8x^3", "8x^3", "$(2x)^3$")
    (True, False)
    """
    if _occurs(answer, gold, question):
        return True
    name, *sides = split_top_level(answer, "=")
    sides = sides if sides and _NAME.fullmatch(name) else [name, *sides]
    return all(_occurs(without_brackets(split_unit(side)[0]), gold, question) for side in sides)


def _occurs(formula: str, gold: str, question: str) -> bool:
    """Whether a formula that is not the gold answer occurs in the question, and not within a longer number."""
    if _is_plain(formula):
        return False
    formula, literal_gold = squeeze(formula), squeeze(gold)
    if formula in (literal_gold, literal_gold.partition("=")[2]):
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
    if _PLAIN.fullmatch(answer):
        return True
    parts = take_apart(answer)
    if parts is not None:
        return all(map(_is_plain, parts.members))
    return _PLAIN.fullmatch(split_unit(answer)[0]) is not None
