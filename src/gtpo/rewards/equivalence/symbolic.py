r"""Expressions, equations and inequalities, parsed by latex2sympy.

Values are compared exactly, sets and inequalities by math-verify. Its own `parse` is not used: it searches prose for
something that parses, and takes A for a, i for a letter.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gtpo.rewards.equivalence.numbers import ExactNumber, parse_number, same_number

# What latex2sympy parses as something that nobody meant: numbers in a row, two points in one number, prose, ratios,
# and the names of angles and segments.
_NOT_MATHEMATICS = re.compile(
    r"\d\s+[\d.]|\d*\.\d*\.|(?<![\\a-zA-Z])[a-zA-Z]{4,}|[A-Z]{2}|[:$@#&?\"']|\\(?:text|angle|triangle|[hv]?phantom)"
)
_HUGE_POWER = re.compile(r"\^\s*\{?\s*-?\d{5,}")
_DIGITS = 50

# latex2sympy parses adjacent numbers as a mixed number: 2(5) as 7, 3\binom{5}{2} as 13; but not 2\frac{1}{2}x.
_PRODUCTS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"_(\d+)", r"_{\1}"),
        (r"(?<![\d.,}])(\d+) +(\d+)/(\d+)(?![\d.])", r"(\1+\\frac{\2}{\3})"),
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
    try:
        return _same_parsed(answer, parsed, parsed_gold)
    except (TypeError, ValueError, AttributeError, NotImplementedError, ArithmeticError):
        return False  # sympy cannot compute with it


def is_rounding(text: str, gold: str) -> bool:
    r"""Whether the text is a number that rounds the value of the gold answer correctly to the written digits.

    >>> is_rounding("31.4", "10\\pi"), is_rounding("50", "10\\pi")
    (True, False)
    """
    number, exact = parse_number(text), parse_number(gold)
    if number is None or exact is not None:
        return number is not None and exact is not None and number.is_rounded(exact.value)
    parsed = _parse(gold)
    value = parsed.evalf(_digits(number)) if parsed is not None and _is_scalar(parsed) else None
    return value is not None and value.is_Float and number.is_rounded(Fraction(str(value)))


def _same_parsed(answer: str, parsed: Any, parsed_gold: Any) -> bool:
    from sympy import Eq
    from sympy.core.relational import Relational

    symbols = parsed.free_symbols | parsed_gold.free_symbols
    if _is_scalar(parsed) and _is_scalar(parsed_gold):
        if symbols:
            agree = _agree_at_points(parsed, parsed_gold, symbols)
            return _verify(parsed, parsed_gold) if agree is None else agree
        return _same_number(answer, parsed, parsed_gold)
    if isinstance(parsed, Relational) and isinstance(parsed_gold, Relational):
        if parsed.free_symbols != parsed_gold.free_symbols:
            return False
        if isinstance(parsed, Eq) and isinstance(parsed_gold, Eq):
            return _same_equation(parsed, parsed_gold, symbols)
        if _truth_differs(parsed, parsed_gold, symbols):
            return False
    return _verify(parsed, parsed_gold)


def _same_number(answer: str, parsed: Any, parsed_gold: Any) -> bool:
    number = parse_number(answer)
    if number and not parsed_gold.is_rational:
        gold_value = parsed_gold.evalf(_digits(number))
        if gold_value.is_Float:
            middle = Fraction(str(gold_value))
            margin = abs(middle) / 10 ** (_digits(number) - 5)
            return number.rounds(middle - margin, middle + margin)
    difference = parsed - parsed_gold
    if _is_zero(difference):
        return True
    if number is None or not parsed_gold.is_rational:
        return False
    value = parsed_gold.doit()
    return value.is_Rational and same_number(number, ExactNumber(Fraction(int(value.p), int(value.q))))


def _digits(number: ExactNumber) -> int:
    return max(_DIGITS, number.num_digits + 15)


def _is_zero(expression: Any) -> bool:
    """Whether a number is zero: exactly if it is rational, otherwise to hundreds of digits."""
    if not _vanishes(expression, _DIGITS):
        return False
    exact = expression.doit()
    return bool(exact == 0) if exact.is_Rational else _vanishes(exact, 3 * _DIGITS)


def _vanishes(expression: Any, num_digits: int = 30) -> bool:
    """Whether a number gets smaller with more digits, as an error of rounding does. It must be finite."""
    few, many = (
        max(abs(part) for part in expression.evalf(digits, maxn=2 * digits).as_real_imag())
        for digits in (num_digits, 2 * num_digits)
    )
    return bool(few.is_finite and many.is_finite and many <= few / 1000)


def _points(symbols: set[Any], *, has_absolute_value: bool = False) -> list[dict[Any, Any]]:
    """Points to compare expressions at: small and large numbers, some of them negative.

    An absolute value needs more points, also with positive and negative numbers. Without one these are left out: the
    root of a product differs there from the product of the roots.
    """
    from sympy import Rational

    ordered = sorted(symbols, key=lambda symbol: symbol.name)
    points = [
        {symbol: sign * Rational(13 + 4 * number + shift, 7 + number) for number, symbol in enumerate(ordered)}
        for sign, shift in ((1, 0), (-1, 5), (1, 11), (-1, 23))
    ]
    firsts = [Rational(1, 3), Rational(-5, 7), Rational(40), Rational(-40)]
    if has_absolute_value:
        firsts += [Rational(top, 6) for top in (-6000, -40, -20, -11, -7, -3, -1, 1, 3, 5, 7, 11, 20, 31, 40, 6000)]
    for first in firsts:
        for sign in (1, -1) if has_absolute_value else (1,):
            points.append({symbol: first * (1 + number) * sign**number for number, symbol in enumerate(ordered)})
    return points


def _may_be_absolute(expression: Any) -> bool:
    """Whether the expression contains an absolute value, or a square root with letters that could be one."""
    from sympy import Abs, Pow

    roots = (power for power in expression.atoms(Pow) if power.exp.is_Rational and power.exp.q % 2 == 0)
    return expression.has(Abs) or any(root.base.free_symbols for root in roots)


def _agree_at_points(parsed: Any, parsed_gold: Any, symbols: set[Any]) -> bool | None:
    """Whether two expressions have the same value at every point; None if there are too few points to tell."""
    num_compared = 0
    has_absolute_value = _may_be_absolute(parsed) != _may_be_absolute(parsed_gold)
    for point in _points(symbols, has_absolute_value=has_absolute_value):
        value, gold_value = (expression.subs(point) for expression in (parsed, parsed_gold))
        if value.free_symbols or gold_value.free_symbols:
            return None
        numbers = [side.evalf() for side in (value, gold_value)]
        if not all(number.is_number and number.is_finite for number in numbers):
            continue
        if not _vanishes(value - gold_value):
            return False
        num_compared += 1
    return True if num_compared > 1 else None


def _same_equation(equation: Any, gold: Any, symbols: set[Any]) -> bool:
    """Whether one equation is a multiple of the other, fractions cleared. Solving them could take minutes."""
    from sympy import fraction, together

    difference, gold_difference = (fraction(together(side.lhs - side.rhs))[0] for side in (equation, gold))
    ratios: list[Any] = []
    for point in _points(symbols):
        value, gold_value = difference.subs(point), gold_difference.subs(point)
        number, gold_number = value.evalf(), gold_value.evalf()
        if not (number.is_number and gold_number.is_number and number.is_finite and gold_number.is_finite):
            continue
        if number == 0 or gold_number == 0:
            if number != gold_number:
                return False
            continue
        ratios.append(value / gold_value)
        if not _vanishes(ratios[0] - ratios[-1]):
            return False
    return len(ratios) > 1


def _truth_differs(relation: Any, gold: Any, symbols: set[Any]) -> bool:
    """Whether one inequality holds at a point where the other does not."""
    from sympy import Rational, false, true

    if len(symbols) != 1:
        return False
    (symbol,) = symbols
    for numerator in range(-45, 46, 6):
        truths = {side.subs(symbol, Rational(numerator, 4)) for side in (relation, gold)}
        if truths == {true, false}:
            return True
    return False


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
    from sympy import Float, I, Rational, UnevaluatedExpr, nan, zoo

    for pattern, replacement in _PRODUCTS:
        text = pattern.sub(replacement, text)
    if _NOT_MATHEMATICS.search(text) or _HUGE_POWER.search(text):
        return None
    config = ConversionConfig(lowercase_symbols=False)
    options: Any = {"is_real": True, "convert_degrees": True, "normalization_config": None}
    try:
        parsed: Any = latex2sympy(text, conversion_config=config, **options)
        if parsed.has(nan, zoo):
            return None
        exact = {number: Rational(str(number)) for number in parsed.atoms(Float)}
        exact |= {wrapped: wrapped.args[0] for wrapped in parsed.atoms(UnevaluatedExpr)}
        imaginary = {symbol: I for symbol in parsed.free_symbols if symbol.name == "i"}
        return parsed.xreplace(exact | imaginary)
    except (ImportError, MemoryError, RecursionError):
        raise
    except Exception:  # latex2sympy raises many kinds; sympy cannot rebuild a chain of equations with other numbers
        return None
