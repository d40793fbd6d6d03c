r"""What the question says about an answer: formulas copied from it, and formulas it asks for."""

import re
from functools import lru_cache

from gtpo.rewards.equivalence.names import is_name
from gtpo.rewards.equivalence.normalise import normalise
from gtpo.rewards.equivalence.structure import split_top_level, take_apart, without_brackets
from gtpo.rewards.equivalence.units import split_unit

_PLAIN = re.compile(r"[-+]?\s*(?:\d[\d,\s]*(?:\.\d*)?|\.\d+)|[-+]?\\infty|[A-Za-z][A-Za-z' .-]*|\(?[A-Z][).]?")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*+\})*+)\}"
_FRACTION = re.compile(rf"\\frac{_GROUP}{_GROUP}")
_DECORATION = re.compile(r"[\s${}*~]|\\(?:cdot|times|text|displaystyle|[!,;: ])(?![a-zA-Z])")
_DOLLARS = re.compile(r"(?<!\\)\$+")
_END_OF_WORD = re.compile(r"(?<![\\a-zA-Z])([a-zA-Z]{2,})\s+(?=[a-zA-Z\\])")

# Operations that change nothing, in a formula with spaces and in one without.
_TIMES_ONE = re.compile(r"(?<![\d.])1\s*(?:\\cdot|\\times|\*)|(?:\\cdot|\\times|\*)\s*1(?![\d.,/^!])|\^\s*\{\s*1\s*\}")
_NEUTRAL = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\d)\.0+(?!\d)|^(?:--|\+)", ""),
        (r"[-+]0(?:[a-zA-Z](?![a-zA-Z]))?(?![\d.^])|(?<![\w.)])0\+|/1(?![\d./])|(?<![\w.)])1(?=\()", ""),
        (r"\(([a-zA-Z]|\\[a-zA-Z]+)\)", r"\1"),
        (r"\(\(((?:[^()]|\([^()]*\))*)\)\)", r"(\1)"),
        (r"^-\(-(.*)\)$", r"\1"),
    )
]
_ASKED = re.compile(
    r"(?i:\b(?:find|compute|determine|evaluate|calculate|what\s+(?:is|are)|values?\s+of))\s*:?\s+"
    r"(?i:(?:(?!of\b)[a-z]+\s+){0,3})(?:\$\$?|\\\[|\\\()\s*(?P<formula>[^$=]+?)\s*(?:\$|\\\]|\\\))"
)


def is_copied(answer: str, gold: str, question: str) -> bool:
    r"""Whether a normalised answer is a formula of the question and not literally the gold answer.

    A plain number, a word, or a list of these is not a formula. A name, a unit, brackets or an operation that changes
    nothing do not make a formula of the question another one.

    >>> is_copied("(2x)^{3}", "8x^3", "Simplify $(2x)^3$."), is_copied("16", "16.0", "Find $g(16)$.")
    (True, False)
    >>> is_copied("y = (2x)^{3}", "8x^3", "Simplify $(2x)^3$."), is_copied("(2x)^3 = 8x^3", "8x^3", "$(2x)^3$")
    (True, False)
    >>> is_copied("[2x+0]^{3}", "8x^3", "Simplify $(2x)^3$."), is_copied("x = 1", "1", "Solve $4^x=1$.")
    (True, False)
    """
    sides = [side for part in split_top_level(answer, "=") for side in split_top_level(part, r"\approx")]
    if len(sides) > 1 and is_name(sides[0]):
        sides = sides[1:]
        if all(_is_plain(side) or _is_literal(squeeze(side), gold) for side in sides):
            return False
    return _occurs(answer, gold, question) or all(_occurs(split_unit(side)[0], gold, question) for side in sides)


def is_asked(formula: str, question: str) -> bool:
    """Whether the question asks for the value of exactly this formula.

    >>> is_asked("a + b", "If $2a = 10$, find $a+b$."), is_asked("2a", "If $2a = 10$, find $a+b$.")
    (True, False)
    """
    return squeeze(formula) in _asked_formulas(question)


def squeeze(text: str) -> str:
    r"""The characters of a normalised formula, without white space, braces and operations that change nothing.

    >>> squeeze("\\frac{2 \\pi}{3}"), squeeze("2\\cdot\\pi/3"), squeeze("1\\cdot((2[x]))^{1}+0")
    ('2\\pi/3', '2\\pi/3', '2x')
    """
    text = _TIMES_ONE.sub("", re.sub(r"\[|\\\{", "(", re.sub(r"\]|\\\}", ")", text)))
    before = None
    while text != before:
        before, text = text, _FRACTION.sub(r"\1/\2", text)
    text, before = _DECORATION.sub("", text).replace(r"\div", "/"), None
    while text != before:
        before = text
        for pattern, replacement in _NEUTRAL:
            text = pattern.sub(replacement, text)
        text = without_brackets(text)
    return text


def _occurs(formula: str, gold: str, question: str) -> bool:
    """Whether a formula that is not the gold answer occurs in the question, and not within a longer number or word."""
    if _is_plain(formula):
        return False
    formula = squeeze(formula)
    if _is_literal(formula, gold):
        return False
    before = r"(?<![\d.])" if formula[:1].isdigit() else r"(?<![\da-zA-Z.\\])" if formula[:1].isalpha() else ""
    after = r"(?![\d]|\.\d)" if formula[-1:].isdigit() else ""
    return re.search(before + re.escape(formula) + after, _squeezed_question(question)) is not None


def _is_literal(squeezed: str, gold: str) -> bool:
    literal_gold = squeeze(gold)
    return squeezed in (literal_gold, literal_gold.partition("=")[2])


@lru_cache(maxsize=256)
def _squeezed_question(question: str) -> str:
    """The question without white space, but with a bar around formulas, and between a word and a letter after it."""
    return squeeze(_END_OF_WORD.sub(r"\1|", normalise(_DOLLARS.sub("|", question))))


@lru_cache(maxsize=256)
def _asked_formulas(question: str) -> frozenset[str]:
    formulas = (match["formula"].rstrip(".,?; ") for match in _ASKED.finditer(question))
    return frozenset(squeeze(normalise(formula)) for formula in formulas)


def _is_plain(answer: str) -> bool:
    answer = _TEXT.sub(r"\1", answer).strip()
    if _PLAIN.fullmatch(answer):
        return True
    parts = take_apart(answer)
    if parts is not None:
        return all(map(_is_plain, parts.members))
    return _PLAIN.fullmatch(split_unit(answer)[0]) is not None
