r"""Whether an expression is written as a value, or as work that is left to do.

2\sqrt{3}, \frac{1+\sqrt{5}}{2}, 3+4i and 3\cdot 10^5 are values. 2\cdot 3, 5!, 2^{10}, \log_2 8 and \sqrt{25} are not:
the question may ask for exactly these.
"""

import math
import re
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from gtpo.rewards.equivalence.numbers import parse_number

_PLAIN = r"(?:\d+(?:,\d{3})*(?:\.\d*)?|\.\d+)"
_FRACTION = r"\\frac\{\d+\}\{\d+\}"
_NUMBER = re.compile(
    rf"\d*\.\d*\\overline\{{\d+\}}|\d+(?:{_FRACTION}| +\d+/\d+)|{_PLAIN}[eE][-+]?\d+|"
    rf"(?:(?:{_PLAIN}|{_FRACTION}) *(?:\\times|\\cdot|\*) *)?10 *\^ *(?:\{{ *[-+]?\d+ *\}}|\d)|{_PLAIN}"
)
_DEGREE = re.compile(r"\[ *\d+ *\]")
_DEGREES = re.compile(r"\^ *\\circ")
_TOKEN = re.compile(r"\d|\\[a-zA-Z]+|[a-zA-Z]")
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_TIMES = (r"\cdot", r"\times", "*")

# For expressions with letters, which have no single form: operations on numbers that a final answer does not contain.
_NUMERIC_WORK = re.compile(
    r"(?<![a-zA-Z])\d+ *!|\([^()a-zA-Z]*\) *!|\\binom *\{[^{}a-zA-Z]*\} *\{[^{}a-zA-Z]*\}|[\d)}] *\\div *[\d({\\]|"
    r"\\(?:sum|prod|int|lim|max|min|gcd|lcm|lfloor|lceil|[bp]?mod|det)(?![a-zA-Z])|"
    r"(?<![a-zA-Z\d})\].])(?<!\^\{)\d+ *\^ *(?:\d|\{ *\d+ *\})|\d *(?:\\times|\\cdot|\*) *\d+(?:\.\d+)?(?![\d.]| *\^)"
)


class _WorkLeftError(Exception):
    """The expression contains an operation that can be carried out, or something that is not a number."""


class _Factors(NamedTuple):
    """The factors above and below the fraction bar: "q" rational, "√3", "π", "e", "i", and "(…)" for a sum."""

    above: tuple[str, ...]
    below: tuple[str, ...] = ()


def is_value(text: str) -> bool:
    r"""Whether the text is a number with nothing left to compute, built from rationals, roots, π, e and i.

    A sum must have terms of different kinds and a product factors of different kinds. Fractions of two numbers and
    fractions with roots below the bar count as values.

    >>> [is_value(text) for text in ("\\frac{10}{2}", "2\\sqrt{3}+1", "\\frac{\\pi}{2}", "-1-2i", "3\\cdot 10^5")]
    [True, True, True, True, True]
    >>> [is_value(text) for text in ("2+3", "7(8)", "5!", "2^{10}", "\\sqrt{25}", "(1+i)^4", "x")]
    [False, False, False, False, False, False, False]
    """
    reader = _Reader(text)
    try:
        reader.read_sum()
    except _WorkLeftError:
        return False
    return not reader.rest()


def has_numeric_work(text: str) -> bool:
    r"""Whether an expression, with or without letters, contains an operation on numbers that is left undone.

    >>> has_numeric_work("\\binom{5}{2}x"), has_numeric_work("3\\cdot 4x"), has_numeric_work("4\\cdot 2^{n-2}")
    (True, True, False)
    >>> has_numeric_work("\\binom{n}{2}"), has_numeric_work("\\frac{n!}{(n-2)!}"), has_numeric_work("5!x")
    (False, False, True)
    """
    return _NUMERIC_WORK.search(text) is not None


class _Reader:
    """Reads a sum of products from the left and raises _WorkLeftError at the first operation that is left to do."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def rest(self) -> str:
        return self.text[self.position :].lstrip()

    def take(self, *tokens: str) -> str | None:
        """The first of the tokens that comes next, which is then consumed."""
        rest = self.rest()
        for token in tokens:
            if rest.startswith(token) and not (token[-1].isalpha() and rest[len(token) : len(token) + 1].isalpha()):
                self.position = len(self.text) - len(rest) + len(token)
                return token
        return None

    def match(self, pattern: re.Pattern[str]) -> str | None:
        if match := pattern.match(rest := self.rest()):
            self.position = len(self.text) - len(rest) + match.end()
            return match[0]
        return None

    def read_sum(self) -> _Factors:
        self.take("-", "+")
        terms = [self.read_product()]
        while self.take("+", "-"):
            terms.append(self.read_product())
        if len(terms) == 1:
            return terms[0]
        kinds = [(_irrational(term.above), _irrational(term.below)) for term in terms]
        has_brackets = any("(" in key for term in terms for key in term.above)
        is_complex = len(terms) == 2 and sum("i" in term.above for term in terms) == 1
        if len(set(kinds)) < len(kinds) or (has_brackets and not is_complex):
            raise _WorkLeftError
        return _Factors((f"({sorted(map(str, kinds))})",))

    def read_product(self) -> _Factors:
        above, below = self.read_factor()
        while True:
            if self.take("/"):
                factor = self.read_factor()
                above, below = above + factor.below, below + factor.above
            elif self.take(*_TIMES) or (self.rest() and self.rest()[0] not in "+-)]}=,"):
                factor = self.read_factor()
                above, below = above + factor.above, below + factor.below
            else:
                return _checked(above, below)

    def read_factor(self) -> _Factors:
        if number := self.match(_NUMBER):
            return self.read_power(number)
        if self.take("("):
            inner = self.read_sum()
            if not self.take(")"):
                raise _WorkLeftError
            return self.without_power(inner)
        if self.rest().startswith("{"):
            return self.without_power(_read(self.group()))
        if self.take("i"):
            return self.without_power(_Factors(("i",)))
        if self.take("e"):
            exponent = _compact(self.group()) if self.take("^") else ""
            if exponent and _has_i(_read(exponent).above):
                raise _WorkLeftError
            return _Factors((f"e{exponent}",))
        return self.read_command(self.match(_COMMAND))

    def read_command(self, command: str | None) -> _Factors:
        if command == r"\pi":
            exponent = self.group() if self.take("^") else ""
            if exponent and not exponent.isdecimal():
                raise _WorkLeftError
            return _Factors((f"π{exponent}",))
        if command == r"\frac":
            above, below = _read(self.group()), _read(self.group())
            return self.without_power(_checked(above.above + below.below, above.below + below.above))
        if command == r"\sqrt":
            degree = self.match(_DEGREE) or "[2]"
            return self.without_power(_Factors((_root(self.group(), degree.strip("[] ")),)))
        if command == r"\infty":
            return _Factors(("q",))
        raise _WorkLeftError

    def group(self) -> str:
        """The content of the braces that come next, or the next token."""
        if not self.take("{"):
            if token := self.match(_TOKEN):
                return token
            raise _WorkLeftError
        start, depth = self.position, 1
        while depth:
            if self.position >= len(self.text):
                raise _WorkLeftError
            depth += {"{": 1, "}": -1}.get(self.text[self.position], 0)
            self.position += 1
        return self.text[start : self.position - 1]

    def read_power(self, number: str) -> _Factors:
        r"""A number; with a fraction as exponent it is a surd, as in 2^{1/2}."""
        if self.match(_DEGREES) or not self.take("^"):
            return _Factors(("q",))
        exponent = parse_number(self.group())
        if exponent is None or exponent.value.denominator == 1 or not number.isdecimal() or len(number) > 9:
            raise _WorkLeftError
        degree, power = exponent.value.denominator, abs(exponent.value.numerator)
        if degree > 99 or power > 99:
            raise _WorkLeftError
        return _Factors((_root(str(int(number) ** power), str(degree)),))

    def without_power(self, factors: _Factors) -> _Factors:
        if self.match(_DEGREES) is None and self.rest().startswith("^"):
            raise _WorkLeftError
        return factors


def _read(text: str) -> _Factors:
    reader = _Reader(text)
    factors = reader.read_sum()
    if reader.rest():
        raise _WorkLeftError
    return factors


def _checked(above: tuple[str, ...], below: tuple[str, ...]) -> _Factors:
    """The factors, if there are no two of a kind that could be multiplied or cancelled."""
    kinds_above, kinds_below = (Counter(key[0] for key in side) for side in (above, below))
    constants = kinds_above + kinds_below
    is_product = max((*kinds_above.values(), *kinds_below.values()), default=0) > 1
    cancels = any(constants[kind] > 1 for kind in "πe") or not set(_irrational(above)).isdisjoint(below)
    is_complex_product = "i" in above and any(_has_i((key,)) for key in above if key != "i")
    if is_product or cancels or is_complex_product or _has_i(below):
        raise _WorkLeftError
    return _Factors(above, below)


def _irrational(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(key for key in keys if key != "q"))


def _has_i(keys: tuple[str, ...]) -> bool:
    return any(key == "i" or (key.startswith("(") and "'i'" in key) for key in keys)


def _root(radicand: str, degree: str) -> str:
    """The key of a root. Roots with a rational value raise _WorkLeftError; multiples of one root have the same key."""
    if not degree.isdecimal() or not 2 <= int(degree) <= 99:
        raise _WorkLeftError
    number = parse_number(radicand)
    if number is None:
        _read(radicand)
        return f"√{degree}:{_compact(radicand)}"
    value, exponent = abs(number.value), int(degree)
    if value == 0 or (_is_power(value.numerator, exponent) and _is_power(value.denominator, exponent)):
        raise _WorkLeftError
    kernel = value.numerator * value.denominator ** (exponent - 1)
    for factor in range(2, 100):
        while kernel % factor**exponent == 0:
            kernel //= factor**exponent
    return f"√{degree}:{Fraction(kernel)}"


def _is_power(number: int, exponent: int) -> bool:
    if exponent == 2:
        return math.isqrt(number) ** 2 == number
    if number.bit_length() > 1000:
        return False
    root = round(number ** (1 / exponent))
    return any(candidate**exponent == number for candidate in (root - 1, root, root + 1))


def _compact(text: str) -> str:
    return text.replace(" ", "")
