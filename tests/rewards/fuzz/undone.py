"""Calculations that were not carried out."""

import math
from collections.abc import Iterator
from fractions import Fraction
from random import Random

from tests.rewards.fuzz.pairs import Pair, category, right, wrong
from tests.rewards.fuzz.writing import plain, proper

UNDONE = "a calculation that was not carried out is not a number"
SAME_FORM = "the gold answer is written in this form too"
COPIED = "a formula copied from the question is not an answer"


def undone(rng: Random) -> tuple[str, Fraction]:
    """A calculation that is not carried out, and its value."""
    a, b, c = rng.randrange(2, 30), rng.randrange(2, 30), rng.randrange(2, 12)
    p, q = proper(rng), proper(rng)
    n, k, base = rng.randrange(4, 12), rng.randrange(2, 4), rng.choice((2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13))
    ways = (
        (f"{a} + {b}", a + b),
        (f"{a}+{b}-{c}", a + b - c),
        (f"{a} - {b}", a - b),
        (f"{a} \\times {b}", a * b),
        (f"{a} \\cdot {b}", a * b),
        (f"{a}*{b}", a * b),
        (f"{a} × {b}", a * b),
        (f"{a}({b})", a * b),
        (f"({a})({b})", a * b),
        (f"{a}({b})({c})", a * b * c),
        (f"{a}{{{b}}}", a * b),
        (f"({a} + {b}) \\cdot {c}", (a + b) * c),
        (f"{c}({a} + {b})", (a + b) * c),
        (f"\\frac{{{a} + {b}}}{{{c}}}", Fraction(a + b, c)),
        (f"({a}+{b})/{c}", Fraction(a + b, c)),
        (f"{plain(p)} + {plain(q)}", p + q),
        (f"{plain(p)} \\cdot {plain(q)}", p * q),
        (plain(p) + plain(q), p * q),
        (f"({plain(p)})({plain(q)})", p * q),
        (f"1 - {plain(p)}", 1 - p),
        (f"{n}!", math.factorial(n)),
        (f"{n}! - {n - 1}!", math.factorial(n) - math.factorial(n - 1)),
        (f"\\frac{{{n}!}}{{{n - 2}!}}", n * (n - 1)),
        (f"\\binom{{{n}}}{{{k}}}", math.comb(n, k)),
        (f"{a}\\binom{{{n}}}{{{k}}}", a * math.comb(n, k)),
        (f"\\dbinom{{{n}}}{{{k}}}\\dbinom{{{n + 1}}}{{{k}}}", math.comb(n, k) * math.comb(n + 1, k)),
        (f"{base}^{k}", base**k),
        (f"{base}^{{{n}}}", base**n),
        (f"{c}^2 + {a}^2", c * c + a * a),
        (f"2^{{{n}}} - 1", 2**n - 1),
        (f"\\left({plain(p)}\\right)^{k}", p**k),
        (f"2^{{-{n}}}", Fraction(1, 2**n)),
        (f"\\log_{{{c}}} {c**k}", k),
        (f"\\log_{{{c}}}({c**k})", k),
        (f"\\lfloor {a}.{b} \\rfloor", a),
        (f"\\lceil {a}.{b} \\rceil", a + 1),
        (f"\\lfloor {a}.5 \\rfloor + \\lceil {c}.25 \\rceil", a + c + 1),
        (f"\\sum_{{k=1}}^{{{a}}} k", a * (a + 1) // 2),
        (f"\\sum_{{i=1}}^{{{c}}} i^2", c * (c + 1) * (2 * c + 1) // 6),
        (f"\\prod_{{k=1}}^{{{n}}} k", math.factorial(n)),
        (f"{a} + {b} + \\pi - \\pi", a + b),
        (f"x + {a} - x", a),
        (f"{a * c} \\div {c}", a),
        (f"{a * 10 + b} \\bmod {c + 1}", (a * 10 + b) % (c + 1)),
        (f"{a * 10 + b} \\mod {c + 1}", (a * 10 + b) % (c + 1)),
        (f"\\cos 0^\\circ + {a}\\cos 0^\\circ", a + 1),
        (f"\\gcd({a * c}, {(a + 1) * c})", c),
        (f"\\max({a}, {a + b})", a + b),
        (f"\\int_0^1 {2 * a}x dx", a),
        (f"\\sqrt{{{a * a}}} \\cdot \\sqrt{{{b * b}}}", a * b),
        ("(1+i)^4", -4),
        (f"\\sqrt{{{3 * a}^2 + {4 * a}^2}}", 5 * a),
        (f"\\sqrt{{{9 * c * c} + {16 * c * c}}}", 5 * c),
        (f"|{a} - {a + b}|", b),
        (f"{a} + {b}i - {b}i + {c}", a + c),
    )
    text, value = rng.choice(ways)
    return text, Fraction(value)


def tree(rng: Random, depth: int) -> tuple[str, Fraction]:
    """A random calculation in full brackets, and its value."""
    if depth == 0:
        n = rng.randrange(1, 30)
        return rng.choice(((str(n), Fraction(n)), (f"\\frac{{{n}}}{{7}}", Fraction(n, 7))))
    (left, a), (right_side, b) = tree(rng, depth - 1), tree(rng, rng.randrange(depth))
    operations = [
        (f"({left}) + ({right_side})", a + b),
        (f"({left}) - ({right_side})", a - b),
        (f"({left}) \\cdot ({right_side})", a * b),
        (f"({left})({right_side})", a * b),
        (f"{left} + {right_side}", a + b),
        (f"\\left({left}\\right)^2", a * a),
        (f"|{left} + {right_side}|", abs(a + b)),
    ]
    if b:
        operations.append((f"\\frac{{{left} + 1}}{{{right_side}}}", (a + 1) / b))
    return rng.choice(operations)


@category
def calculations(rng: Random) -> Iterator[Pair]:
    text, value = tree(rng, rng.randrange(1, 4))
    yield wrong(text, plain(value), UNDONE)
    yield wrong(text, plain(value), COPIED, f"Compute ${text}$.")
    yield wrong(f"{text} = {plain(value + 1)}", plain(value + 1), "the left side has another value")
    yield wrong(f"{text} = {plain(value + 1)}", plain(value), "the right side has another value")
    yield right(f"{text} = {plain(value)}", plain(value), "the calculation was carried out")
    yield right(plain(value), plain(value), "the value itself", f"Compute ${text}$.")


@category
def unevaluated(rng: Random) -> Iterator[Pair]:
    text, value = undone(rng)
    yield wrong(text, plain(value), UNDONE)
    wrapped = rng.choice(("${}$", "\\boxed{{{}}}", "The answer is {}", "x = {}", "({})", "{} dollars")).format(text)
    yield wrong(wrapped, plain(value), UNDONE)
    yield right(plain(value), plain(value), "the value itself")
    yield wrong(text, plain(value + 1), "another value")
    n = rng.randrange(-60, 60)
    yield wrong(f"({n}, {text})", f"({n}, {plain(value)})", UNDONE)


@category
def unevaluated_golds(rng: Random) -> Iterator[Pair]:
    """Where the gold answer is such a calculation, both the calculation and its value are right."""
    n, k, c = rng.randrange(5, 30), rng.randrange(2, 4), rng.randrange(2, 9)
    factorial, choose = math.factorial(n), math.comb(n, k)
    for gold, same, value in (
        (f"{n}!", f"{n}\\cdot {n - 1}!", factorial),
        (f"\\binom{{{n}}}{{{k}}}", f"\\binom{{{n}}}{{{n - k}}}", choose),
        (f"{c}^{{{n}}}", f"{c}^{{{n - 1}}} \\cdot {c}", c**n),
        (f"{c}^{{{n}}} - 1", f"-1 + {c}^{{{n}}}", c**n - 1),
        (f"{n}! - {k}", f"-{k} + {n}!", factorial - k),
        (f"{c} \\cdot {n}!", f"{n}! \\cdot {c}", c * factorial),
    ):
        yield right(gold, gold, SAME_FORM)
        yield right(gold.replace(" ", ""), gold, SAME_FORM)
        yield right(same, gold, SAME_FORM)
        yield right(str(value), gold, "the value of the gold answer")
        yield wrong(str(value + 1), gold, "another value")
        yield wrong(f"{gold} + 1", gold, "another value")
        yield wrong(gold, str(value), UNDONE)
    yield wrong(f"{n + 1}!", f"{n}!", "another value")
    yield wrong(f"{c}^{{{n + 1}}}", f"{c}^{{{n}}}", "another value")
    yield wrong(f"\\binom{{{n + 1}}}{{{k}}}", f"\\binom{{{n}}}{{{k}}}", "another value")


@category
def divisions(rng: Random) -> Iterator[Pair]:
    """With the question at hand, a division that gives an integer is work left undone."""
    n, k = rng.randrange(2, 900), rng.randrange(2, 60)
    question = f"{n * k} cards are dealt to {k} players. How many cards does each player get?"
    division = rng.choice((f"{n * k}/{k}", f"\\frac{{{n * k}}}{{{k}}}", f"\\dfrac{{{n * k}}}{{{k}}}"))
    around = rng.choice(("{}", "${}$", "\\boxed{{{}}}", "x = {}", "{} cards"))
    yield wrong(around.format(division), str(n), UNDONE, question)
    yield right(around.format(n), str(n), "the value itself", question)
    yield right(f"{division} = {n}", str(n), "the division was carried out", question)
    yield wrong(f"{division} = {n + 1}", str(n), "another value", question)
    q = proper(rng)
    yield right(f"\\frac{{{q.numerator * k}}}{{{q.denominator * k}}}", plain(q), "a fraction is a value", question)
