r"""Names on the left of an equation: x, f(2), AB, \vec{v}, "area". The grader drops them."""

import re

from gtpo.rewards.equivalence.forms import is_value
from gtpo.rewards.equivalence.normalise import compact
from gtpo.rewards.equivalence.structure import RELATION, has_relation
from gtpo.rewards.equivalence.units import CHANGING_WORDS

_DECORATED = r"\\(?:text|vec|overline|overrightarrow|hat|bar)\{[a-zA-Z]+\}"
_NAME = re.compile(
    r"(?!\\(?:pi|infty|sin|cos|tan|ln|log)(?![a-zA-Z]))"
    r"(?:\(?(?:\\?[a-zA-Z]++'*(?:_\{?\w+\}?)?(?:\([a-zA-Z,]+\))?,?)+\)?|[fghpqFGHPQ](?:\^\{-1\})?\([-\w.,]+\)|"
    rf"{_DECORATED}|(?:\\?\|){{1,2}}(?:[A-Z]{{2}}|{_DECORATED})(?:\\?\|){{1,2}})"
)


def is_name(text: str) -> bool:
    r"""Whether the text is a name, and not a relation or a word that takes the value back.

    >>> [is_name(text) for text in ("x", "(x, y)", "f(2)", "AB", "\\overline{AB}", "\\text{A}", "|AB|", "area")]
    [True, True, True, True, True, True, True, True]
    >>> [is_name(text) for text in ("2x", "x + y", "|x|", "\\pi", "x \\ne y", "not", "reciprocal")]
    [False, False, False, False, False, False, False]
    """
    words = re.findall(r"[a-z]+", text.lower())
    return not has_relation(text) and CHANGING_WORDS.isdisjoint(words) and bool(_NAME.fullmatch(compact(text)))


def is_solved(inequality: str) -> bool:
    """Whether one side of the inequality is a name and the others are values: 1 < x < 2, but not 2x < 4."""
    sides = [side.strip() for side in RELATION.split(inequality)]
    values = [side for side in sides if not is_name(side)]
    return len(sides) - len(values) == 1 and all(map(is_value, values))
