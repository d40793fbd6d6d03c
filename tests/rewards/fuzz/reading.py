"""The values of plain answers by sympy's parser: an independent check of pairs that are built from values."""

import re

import sympy
from sympy.parsing.sympy_parser import (
    convert_xor,
    implicit_multiplication_application,
    parse_expr,
    rationalize,
    standard_transformations,
)

from tests.rewards.fuzz.pairs import Pair

FRACTION = r"\\[dt]?frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}"
REWRITES = (
    ("−", "-"),
    (r"(?<=\d)(,|\{,\}|,\\!)(?=\d{3}(?!\d))", ""),
    (rf"(\d+){FRACTION}(?!\\sqrt|\\pi)", r"(\1+(\2)/(\3))"),
    (FRACTION, r"((\1)/(\2))"),
    (r"(\d+) (\d+)/(\d+)", r"(\1+\2/\3)"),
    (r"√(\d+)", r"sqrt(\1)"),
    (r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)"),
    (r"\\sqrt\[3\]\{([^{}]*)\}", r"cbrt(\1)"),
    (r"(?<=\d)[eE](?=-?\d)", "*10^"),
    (r"\\times|\\cdot|×", "*"),
    (r"\\pi|π", "pi"),
    (r"\\(sin|cos|tan|ln)", r"\1"),
    ("²", "^2"),
    ("³", "^3"),
    (r"\^\{([^{}]*)\}", r"^(\1)"),
)
TRANSFORMATIONS = (*standard_transformations, convert_xor, rationalize, implicit_multiplication_application)
LETTERS = [sympy.Symbol(letter) for letter in "abknptuvwxyzABKNTXYZ"]
NAMES = {letter.name: letter for letter in LETTERS} | {"i": sympy.I, "e": sympy.E}
POINT = {letter: sympy.Rational(101 + 7 * place, 97) for place, letter in enumerate(LETTERS)}


def value(text: str) -> sympy.Expr | None:
    """The value of the text at one point, or None where it is not in the plain notation of REWRITES."""
    for pattern, replacement in REWRITES:
        text = re.sub(pattern, replacement, text)
    if re.search(r"[\\{}=<>,_%]|\d \d|\b0\d", text):
        return None
    return parse_expr(text, local_dict=NAMES, transformations=TRANSFORMATIONS).subs(POINT)


def have_equal_values(pair: Pair) -> bool | None:
    """Whether both are equal: exactly if rational, to 120 places if not. None where one of them is not plain."""
    answer, gold = value(pair.answer), value(pair.gold)
    if answer is None or gold is None:
        return None
    difference = answer - gold
    return difference == 0 if difference.is_rational else bool(abs(sympy.N(difference, 150)) < sympy.Float("1e-120"))
