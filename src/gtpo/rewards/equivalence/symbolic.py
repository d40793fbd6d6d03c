r"""Expressions, equations and inequalities, parsed by latex2sympy and compared by math-verify.

math-verify's own `parse` is not used: it searches prose for something that parses, and takes A for a, i for a letter.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gtpo.rewards.equivalence.normalise import compact
from gtpo.rewards.equivalence.numbers import parse_number

# What latex2sympy parses as something that nobody meant: numbers in a row, two points in one number, prose, ratios,
# and the names of angles and segments.
_NOT_MATHEMATICS = re.compile(
    r"\d\s+[\d.]|\d*\.\d*\.|(?<![\\a-zA-Z])[a-zA-Z]{4,}|[A-Z]{2}|[:$@#&?\"']|\\(?:text|angle|triangle)"
)
_DIGITS = 50

# latex2sympy parses adjacent numbers as a mixed number: 2(5) as 7, 3\binom{5}{2} as 13; but not 2\frac{1}{2}x.
_PRODUCTS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"_(\d+)", r"_{\1}"),
        (r"(?<![\w.})^])(\d+)\s*(\\frac\{\d+\}\{\d+\})", r"(\1+\2)"),
        (r"(?<![a-zA-Z\d\s.}\])^_])\{(\d+)\}", r"(\1)"),
        (r"(?<![a-zA-Z\d\s.}])(\d+)\{(\d+)\}", r"\1(\2)"),
        (r"(\\(?:frac|binom)\{[^{}]*\}\{[^{}]*\})\s*(?=[\d(\[]|\\(?:frac|binom))", r"\1\\cdot "),
        (r"(?<=[\d)])\s*(?=[(\[]|\\(?:frac|binom))|(?<=\))\s*(?=\d)", r"\\cdot "),
    )
]


def same_expression(answer: str, gold: str) -> bool:
    r"""Whether two expressions, equations or inequalities are equivalent.

    >>> same_expression("2\\sqrt{3}", "\\sqrt{12}"), same_expression("x+1", "1 + x"), same_expression("A", "a")
    (True, True, False)
    """
    parsed, parsed_gold = _parse(answer), _parse(gold)
    if parsed is None or parsed_gold is None:
        return False
    if parsed == parsed_gold:
        return True
    if _is_scalar(parsed) and _is_scalar(parsed_gold):
        return _same_scalar(answer, parsed, parsed_gold)
    return _verify(parsed, parsed_gold)


def _same_scalar(answer: str, parsed: Any, parsed_gold: Any) -> bool:
    symbols = parsed.free_symbols | parsed_gold.free_symbols
    if symbols:
        return not _differ_somewhere(parsed, parsed_gold, symbols) and _verify(parsed, parsed_gold)
    gold_value = parsed_gold.evalf(_DIGITS)
    number = parse_number(compact(answer))
    if number and gold_value.is_Float:
        middle = Fraction(str(gold_value))
        margin = abs(middle) / 10 ** (_DIGITS - 5)
        return not parsed_gold.is_rational and number.rounds(middle - margin, middle + margin)
    difference = (parsed - parsed_gold).evalf(_DIGITS, chop=False)
    scale = abs(gold_value) + abs(parsed.evalf(_DIGITS))
    return bool(
        difference.is_number and scale.is_finite and abs(difference) <= scale * Fraction(1, 10 ** (_DIGITS - 15))
    )


def _differ_somewhere(parsed: Any, parsed_gold: Any, symbols: set[Any]) -> bool:
    """Whether the values differ at one point. If they do, nothing needs to be simplified, which takes far longer."""
    from sympy import Rational

    ordered = sorted(symbols, key=lambda symbol: symbol.name)
    point = {symbol: Rational(13 + 4 * number, 7 + number) for number, symbol in enumerate(ordered)}
    value, gold_value = (expression.subs(point).evalf() for expression in (parsed, parsed_gold))
    if not (value.is_number and gold_value.is_number and value.is_finite and gold_value.is_finite):
        return False
    return bool(abs(value - gold_value) > 1e-6 * (abs(value) + abs(gold_value)))


def _verify(parsed: Any, parsed_gold: Any) -> bool:
    from math_verify import verify

    return verify(parsed_gold, parsed, timeout_seconds=None, allow_set_relation_comp=True, raise_on_error=True)


def _is_scalar(parsed: Any) -> bool:
    from sympy import Expr, FiniteSet

    return isinstance(parsed, Expr) and not parsed.has(FiniteSet)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Any:
    """The sympy object, with decimals as exact fractions and i imaginary; None for text that is not mathematics."""
    from latex2sympy2_extended import latex2sympy
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig
    from sympy import Float, I, Rational, nan, zoo

    for pattern, replacement in _PRODUCTS:
        text = pattern.sub(replacement, text)
    if _NOT_MATHEMATICS.search(text):
        return None
    config = ConversionConfig(lowercase_symbols=False)
    options: Any = {"is_real": True, "convert_degrees": True, "normalization_config": None}
    try:
        parsed: Any = latex2sympy(text, conversion_config=config, **options)
        if parsed.has(nan, zoo):
            return None
        exact = {number: Rational(str(number)) for number in parsed.atoms(Float)}
        imaginary = {symbol: I for symbol in parsed.free_symbols if symbol.name == "i"}
        return parsed.xreplace(exact | imaginary)
    except (ImportError, MemoryError, RecursionError):
        raise
    except Exception:  # latex2sympy raises many kinds; sympy cannot rebuild a chain of equations with other numbers
        return None
