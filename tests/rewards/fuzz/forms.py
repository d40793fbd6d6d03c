"""Irrational and complex numbers: truth is the equality of rational components."""

import math
from collections.abc import Iterator
from fractions import Fraction
from random import Random

from tests.rewards.fuzz.pairs import Pair, category, right, wrong
from tests.rewards.fuzz.writing import coefficient, frac, near_miss, plain, proper, sum_of

VALUE = "compared by value"
SQUARE_FREE = (2, 3, 5, 6, 7, 10, 11, 13, 14, 15, 17, 19, 21, 22, 23, 26)


def root(rng: Random, k: int, n: int) -> str:
    """k√n for integers, n square-free."""
    sign, size = "-" if k < 0 else "", abs(k)
    bare = coefficient(size)
    ways = [f"{bare}\\sqrt{{{n}}}"] * 2 + [f"{bare}√{n}", f"{bare}sqrt({n})", f"\\sqrt{{{size * size * n}}}"]
    if size > 1:
        ways += [f"{size} \\sqrt{{{n}}}", f"{size}\\cdot\\sqrt{{{n}}}"]
    return sign + rng.choice(ways)


def root_over(rng: Random, q: Fraction, n: int) -> str:
    """q√n, with the denominator below, before or in front of the root."""
    top, bottom, sign = abs(q.numerator), q.denominator, "-" if q < 0 else ""
    if bottom == 1:
        return root(rng, int(q), n)
    below = frac(rng, root(rng, top, n), bottom)
    before = frac(rng, top, bottom) + f"\\sqrt{{{n}}}"
    under = frac(rng, top * n, f"{coefficient(bottom)}\\sqrt{{{n}}}")
    return sign + rng.choice((below, before, under, f"{coefficient(top)}\\sqrt{{{n}}}/{bottom}"))


@category
def surds(rng: Random) -> Iterator[Pair]:
    n, q = rng.choice(SQUARE_FREE), proper(rng) if rng.random() < 0.5 else Fraction(rng.randrange(1, 40))
    q *= rng.choice((1, 1, -1))
    gold = root_over(rng, q, n)
    yield right(root_over(rng, q, n), gold, VALUE)
    others = [(q + 1, n), (-q, n), (1 / q, n), (q, rng.choice(SQUARE_FREE)), (q * n, n), (q * q, n), (q / n, n)]
    for other, inside in others:
        if other and (other, inside) != (q, n):
            yield wrong(root_over(rng, other, inside), gold, VALUE)
    yield wrong(plain(q), gold, VALUE)
    yield wrong(plain(q * q * n), gold, VALUE)
    yield wrong(f"\\sqrt[3]{{{n}}}", f"\\sqrt{{{n}}}", VALUE)


@category
def sums_of_surds(rng: Random) -> Iterator[Pair]:
    m, k = (rng.randrange(1, 60) * rng.choice((1, -1)) for _ in range(2))
    n = rng.choice(SQUARE_FREE)
    gold = sum_of([str(m), f"{coefficient(k)}\\sqrt{{{n}}}"])
    yield right(sum_of([root(rng, k, n), str(m)]), gold, VALUE)
    yield right(sum_of([str(m), root(rng, k, n)]), gold, VALUE)
    for a, b in ((m, -k), (-m, k), (m + 1, k), (m, k + 1), (k, m)):
        if (a, b) != (m, k) and b:
            yield wrong(sum_of([str(a), root(rng, b, n)]), gold, VALUE)
    yield wrong(f"\\sqrt{{{abs(m) + n}}}", gold, VALUE)
    other = rng.choice([r for r in SQUARE_FREE if r != n])
    two = f"\\sqrt{{{n}}} + \\sqrt{{{other}}}"
    yield right(f"\\sqrt{{{other}}} + \\sqrt{{{n}}}", two, VALUE)
    yield wrong(f"\\sqrt{{{n + other}}}", two, VALUE)


@category
def multiples_of_pi(rng: Random) -> Iterator[Pair]:
    q = proper(rng) if rng.random() < 0.5 else Fraction(rng.randrange(1, 200))
    gold = pi_multiple(rng, q)
    yield right(pi_multiple(rng, q), gold, VALUE)
    for other in (q + 1, 2 * q, 1 / q, near_miss(rng, q)):
        if other > 0 and other != q:
            yield wrong(pi_multiple(rng, other), gold, VALUE)
    yield wrong("-" + pi_multiple(rng, q), gold, VALUE)
    yield wrong(plain(q), gold, VALUE)
    yield wrong(f"{coefficient(q.numerator)}\\pi^2", gold, VALUE)
    yield wrong(f"{q.numerator / q.denominator * 3.14:.2f}", gold, "3.14 is not π")


def pi_multiple(rng: Random, q: Fraction) -> str:
    """qπ for a positive q."""
    top, bottom = q.numerator, q.denominator
    if bottom > 1:
        ways = [frac(rng, coefficient(top) + "\\pi", bottom), frac(rng, top, bottom) + "\\pi"]
        return rng.choice([*ways, f"{coefficient(top)}\\pi/{bottom}", f"{coefficient(top)}π/{bottom}"])
    ways = ["{}\\pi", "{}\\pi", "{} \\pi", "{}π", "{}pi", "{}\\cdot\\pi"]
    return rng.choice(ways if top > 1 else ways[:2]).format(coefficient(top))


@category
def complex_numbers(rng: Random) -> Iterator[Pair]:
    a, b = (rng.randrange(1, 40) * rng.choice((1, -1)) for _ in range(2))
    gold = complex_number(a, b)
    yield right(sum_of([f"{coefficient(b)}i", str(a)]), gold, VALUE)
    yield right(complex_number(a, b).replace(" ", ""), gold, VALUE)
    for c, d in ((a, -b), (-a, b), (b, a), (a + 1, b), (a, b - 1), (a - b, b)):
        if (c, d) != (a, b) and d:
            yield wrong(complex_number(c, d), gold, VALUE)
    yield wrong(str(a), gold, VALUE)
    yield wrong(f"{coefficient(b)}i", gold, VALUE)
    yield wrong(str(a + b), gold, VALUE)
    yield wrong(gold.replace("i", "x"), gold, VALUE)
    k = rng.randrange(2, 9)
    yield right(frac(rng, complex_number(a, b), k), f"\\frac{{{a}}}{{{k}}} + \\frac{{{b}}}{{{k}}}i", VALUE)
    yield wrong(frac(rng, complex_number(a, b), k + 1), f"\\frac{{{a}}}{{{k}}} + \\frac{{{b}}}{{{k}}}i", VALUE)


def complex_number(a: int, b: int) -> str:
    return sum_of([str(a) if a else "", f"{coefficient(b)}i"])


@category
def powers_of_e_and_logs(rng: Random) -> Iterator[Pair]:
    """Numbers that have no other closed form, so the gold answer is written this way too."""
    n, k = rng.choice((2, 3, 5, 6, 7, 10, 11, 13)), rng.randrange(3, 20)
    for gold, same, others in (
        (f"e^{{{k}}}", f"e^{k}" if k < 10 else f"e^{{ {k} }}", (f"e^{{{k + 1}}}", f"e^{{-{k}}}", f"{k}e", str(k))),
        (f"{k}\\ln {n}", f"{k} \\ln({n})", (f"{k + 1}\\ln {n}", f"\\ln {n}", f"{k}\\ln {n + 1}", f"\\ln {n * k}")),
        (f"\\log_{{{n}}} {n + 1}", f"\\log_{{{n}}}({n + 1})", (f"\\log_{{{n + 1}}} {n}", f"\\log_{{{n}}} {n + 2}")),
    ):
        yield right(same, gold, VALUE)
        for other in others:
            yield wrong(other, gold, VALUE)


@category
def towers(rng: Random) -> Iterator[Pair]:
    """A power of a power is evaluated from the top: 2^3^2 is 2^9."""
    a, b, c = rng.randrange(2, 6), rng.randrange(2, 5), rng.randrange(2, 4)
    why = "powers associate to the right"
    yield right(f"{a}^{b}^{c}", f"{a}^{{{b**c}}}", why)
    yield right(f"{a}^{{{b}^{c}}}", f"{a}^{{{b**c}}}", why)
    letter = rng.choice("xyznt")
    yield right(f"{letter}^{b}^{c}", f"{letter}^{{{b**c}}}", why)
    yield right(f"{letter}^{b}^{c}", f"{letter}^{{{b}^{c}}}", why)
    yield right(f"{letter}^{{{b**c}}}", f"{letter}^{b}^{c}", why)
    for flat in sorted({b * c, b**c + 1} - {b**c}):
        yield wrong(f"{a}^{b}^{c}", f"{a}^{{{flat}}}", why)
        yield wrong(f"{letter}^{b}^{c}", f"{letter}^{{{flat}}}", why)
        yield wrong(f"{a}^{b}^{c}", str(a**flat), why)


@category
def ratios(rng: Random) -> Iterator[Pair]:
    a, b = rng.sample(range(1, 60), 2)
    if math.gcd(a, b) > 1:
        return
    gold = f"{a}:{b}"
    yield right(gold, gold, "ratios as written")
    yield right(f"{a} : {b}", gold, "ratios as written")
    for other in (f"{b}:{a}", f"{a + 1}:{b}", f"{a}:{b + 1}", str(a), f"{a}{b}"):
        yield wrong(other, gold, "ratios as written")
    yield wrong(gold, f"\\frac{{{a}}}{{{b}}}", "a ratio is not a fraction")
