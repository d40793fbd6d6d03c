r"""Plain numbers, parsed by strict patterns and compared as exact fractions."""

import re
from dataclasses import dataclass
from fractions import Fraction

from gtpo.rewards.equivalence.normalise import compact

_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_GROUPED = r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?|[1-9]\d{0,2}(?: \d{3})+(?:\.\d*)?"
_PLAIN = re.compile(rf"(?P<number>{_DECIMAL}|{_GROUPED})(?:[eE](?P<e>[+-]?\d{{1,3}}))?")
_POWER = re.compile(rf"(?P<number>{_DECIMAL})(?:\\times|\\cdot|\*)10\^\{{?(?P<e>-?\d{{1,3}})\}}?")
_FRACTION = re.compile(
    rf"(?:\\frac\{{(?P<a>-?{_DECIMAL})\}}\{{(?P<b>-?{_DECIMAL})\}}|(?P<c>{_DECIMAL}|{_GROUPED})/(?P<d>{_DECIMAL}|{_GROUPED}))"
)
_REPEATING = re.compile(r"(?P<whole>\d*)\.(?P<fixed>\d*)\\overline\{(?P<cycle>\d+)\}")
_MIXED = re.compile(r"(?P<whole>\d+)(?:\\frac\{(?P<a>\d+)\}\{(?P<b>\d+)\}| (?P<c>\d+)/(?P<d>\d+))")

_MULTIPLIERS = {
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
}
_MULTIPLIED = re.compile(
    rf"(?P<front>[-+]?\s*(?:\\?\$|£|€)?\s*)(?P<number>[\d,.]{{1,15}})\s*(?P<word>{'|'.join(_MULTIPLIERS)}|[kK])\b"
    r"(?P<rest>(?:\s+[A-Za-z].*|\s*\\text.*)?)"
)

MIN_DIGITS = 6
"""Significant digits that a rounded decimal needs to count as a number without a finite decimal, such as 1/3."""


@dataclass(frozen=True)
class ExactNumber:
    """The value of a number and, for a decimal, how many decimals and significant digits were written."""

    value: Fraction
    num_decimals: int | None = None
    num_digits: int = 0

    def is_rounded(self, value: Fraction) -> bool:
        """Whether this is `value`, or `value` rounded to the written digits."""
        if self.num_decimals is None:
            return self.value == value
        return abs(self.value - value) <= Fraction(1, 2 * 10**self.num_decimals)

    def rounds(self, low: Fraction, high: Fraction) -> bool:
        """Whether this is a decimal with enough digits, within one unit of its last place of [low, high]."""
        if self.num_decimals is None or self.num_digits < MIN_DIGITS:
            return False
        unit = Fraction(1, 10**self.num_decimals)
        return low - unit < self.value < high + unit


def parse_number(text: str) -> ExactNumber | None:
    r"""The number that the complete text is (integer, decimal, fraction, mixed, power of ten); None for other text.

    >>> [str(parse_number(text).value) for text in ("1,000", "1000.0", ".5", "\\frac{1}{2}", "-1\\frac{1}{2}", "1e3")]
    ['1000', '1000', '1/2', '1/2', '-3/2', '1000']
    >>> parse_number("15x") is parse_number("1/0") is parse_number("1,00") is parse_number("100, 200") is None
    True
    """
    if ", " in text:  # a list
        return None
    text = compact(text)
    sign, text = (-1, text[1:].lstrip()) if text.startswith("-") else (1, text.removeprefix("+"))
    if match := _PLAIN.fullmatch(text) or _POWER.fullmatch(text):
        digits = re.sub("[ ,]", "", match["number"])
        value = Fraction(digits) * Fraction(10) ** int(match["e"] or 0)
        if match["e"]:
            return ExactNumber(sign * value)
        after = len(digits.partition(".")[2])
        return ExactNumber(sign * value, after, len(digits.replace(".", "").lstrip("0")))
    value = _parse_repeating(text) if "overline" in text else _parse_fraction(text)
    return None if value is None else ExactNumber(sign * value)


def expand_number_words(text: str, *, k_is_letter: bool = False, counts_dozens: bool = False) -> str:
    """Multiply out a number before hundred, thousand, million, billion, trillion, dozen, or k.

    With `k_is_letter`, k is a variable: the gold answer contains one. `counts_dozens`: the question asks for dozens.

    >>> [expand_number_words(text) for text in ("$1.5 million", "2 dozen eggs", "70k")]
    ['$1500000', '24 eggs', '70000']
    >>> expand_number_words("70k", k_is_letter=True)
    '70k'
    """
    match = _MULTIPLIED.fullmatch(text)
    number = parse_number(match["number"]) if match else None
    if match is None or number is None or (k_is_letter and match["word"] in "kK"):
        return text
    if counts_dozens and match["word"] == "dozen":
        return text
    value = number.value * _MULTIPLIERS.get(match["word"], 1000)
    written = str(value) if value.denominator == 1 else f"{float(value):.15g}"
    return expand_number_words(match["front"] + written + match["rest"], k_is_letter=k_is_letter)


def same_number(answer: ExactNumber, gold: ExactNumber) -> bool:
    """Whether the numbers are equal, or the answer rounds a gold number without a finite decimal (1/3, not 1/4).

    >>> one_third = parse_number("1/3")
    >>> same_number(parse_number("0.333333"), one_third), same_number(parse_number("0.33"), one_third)
    (True, False)
    """
    if answer.value == gold.value:
        return True
    return not _is_finite_decimal(gold.value) and answer.rounds(gold.value, gold.value)


def _parse_repeating(text: str) -> Fraction | None:
    if not (match := _REPEATING.fullmatch(text)):
        return None
    whole, fixed, cycle = match.group("whole", "fixed", "cycle")
    cycle_value = Fraction(int(cycle), 10 ** len(cycle) - 1)
    return int(whole or 0) + (int(fixed or 0) + cycle_value) / 10 ** len(fixed)


def _parse_fraction(text: str) -> Fraction | None:
    whole = Fraction(0)
    if match := _MIXED.fullmatch(text):
        whole = Fraction(match["whole"])
    elif not (match := _FRACTION.fullmatch(text)):
        return None
    numerator, denominator = (Fraction(re.sub("[ ,]", "", match[a] or match[b])) for a, b in ("ac", "bd"))
    return None if denominator == 0 else whole + numerator / denominator


def _is_finite_decimal(value: Fraction) -> bool:
    """Whether the denominator divides a power of ten."""
    return pow(10, value.denominator.bit_length(), value.denominator) == 0
