"""Ways to write exact values. Everything here goes from a value to text; nothing is parsed."""

from fractions import Fraction
from random import Random

WRAPPERS = (
    "${}$", "\\({}\\)", "**{}**", "{}.", "{},", "{};", "The answer is {}", "The answer is {}.", "#### {}", "= {}",
    "\\boxed{{{}}}", "$\\boxed{{{}}}$", "The answer is $\\boxed{{{}}}$.", "\\boxed{{${}$}}", "\\[{}\\]", " {} ",
    "{}\n", "about {}", "≈ {}", "\\boxed{{\\boxed{{{}}}}}",
)  # fmt: skip
"""What may stand around a complete answer."""


def is_finite(q: Fraction) -> bool:
    """Whether q has a finite decimal."""
    rest = q.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def decimal(q: Fraction) -> str:
    """The finite decimal of q, exact."""
    places = 0
    while (q * 10**places).denominator != 1:
        places += 1
    digits = str(abs(q.numerator) * 10**places // q.denominator).zfill(places + 1)
    sign = "-" if q < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def rounded(numerator: int, denominator: int, places: int) -> str:
    """numerator / denominator, both positive, rounded to some places."""
    scaled = (2 * numerator * 10**places + denominator) // (2 * denominator)
    digits = str(scaled).zfill(places + 1)
    return f"{digits[:-places]}.{digits[-places:]}"


def repeating(q: Fraction) -> str:
    """The decimal of a positive q that never ends, with a bar over the digits that repeat."""
    whole, rest = divmod(q.numerator, q.denominator)
    digits, seen = "", dict[int, int]()
    while rest not in seen:
        seen[rest] = len(digits)
        digit, rest = divmod(rest * 10, q.denominator)
        digits += str(digit)
    start = seen[rest]
    return f"{whole}.{digits[:start]}\\overline{{{digits[start:]}}}"


def grouped(n: int, separator: str = ",") -> str:
    return f"{n:,}".replace(",", separator)


def frac(rng: Random, numerator: int | str, denominator: int | str) -> str:
    return f"\\{rng.choice(('frac', 'dfrac', 'tfrac'))}{{{numerator}}}{{{denominator}}}"


def fraction(rng: Random, q: Fraction) -> str:
    """q over a denominator, perhaps not in lowest terms."""
    sign, size, k = "-" if q < 0 else "", abs(q), rng.choice((1, 1, 1, 2, 3, 10))
    top, bottom = size.numerator * k, size.denominator * k
    slash, bar = f"{sign}{top}/{bottom}", sign + frac(rng, top, bottom)
    return rng.choice((slash, bar, frac(rng, f"{sign}{top}", bottom)))


def mixed(rng: Random, q: Fraction) -> str:
    """A whole number and a fraction; |q| > 1, q is not an integer."""
    sign, (whole, rest) = "-" if q < 0 else "", divmod(abs(q), 1)
    slash = f"{sign}{whole} {rest.numerator}/{rest.denominator}"
    return rng.choice((sign + str(whole) + frac(rng, rest.numerator, rest.denominator), slash))


def number(rng: Random, q: Fraction) -> str:
    """q in one of the usual notations."""
    ways = [fraction(rng, q)] if q.denominator > 1 else [str(q)] * 3 + [f"{q}.0"]
    if q.denominator == 1 and abs(q) >= 1000:
        ways += [grouped(int(q)), grouped(int(q), "{,}"), grouped(int(q), ",\\!")]
    if q.denominator > 1 and is_finite(q):
        ways += [decimal(q), decimal(q) + "0"]
    if q.denominator > 1 and abs(q) > 1:
        ways.append(mixed(rng, q))
    text = rng.choice(ways)
    return text.replace("-", "−", 1) if rng.random() < 0.1 else text


def plain(q: Fraction) -> str:
    """q as a gold answer is usually written."""
    if q.denominator == 1:
        return str(q)
    return f"{'-' if q < 0 else ''}\\frac{{{abs(q.numerator)}}}{{{q.denominator}}}"


def rational(rng: Random) -> Fraction:
    """An integer, a short decimal or a fraction of the size that answers have; never 0."""
    kind = rng.randrange(4)
    if kind == 0:
        return Fraction(rng.choice((-1, 1, 1)) * rng.randrange(1, 100))
    if kind == 1:
        return Fraction(rng.choice((-1, 1, 1)) * rng.randrange(100, 100_000))
    if kind == 2:
        return Fraction(rng.choice((-1, 1, 1)) * rng.randrange(1, 10_000), 10 ** rng.randrange(1, 4))
    return Fraction(rng.choice((-1, 1, 1)) * rng.randrange(1, 60), rng.randrange(2, 40))


def proper(rng: Random) -> Fraction:
    """A fraction that is not an integer."""
    q = Fraction(rng.randrange(1, 80), rng.randrange(2, 40))
    return q if q.denominator > 1 else proper(rng)


def near_miss(rng: Random, q: Fraction) -> Fraction:
    """Another value that looks like q: a neighbour, a sign, a factor of ten, a reciprocal, a digit."""
    unit = Fraction(1, q.denominator)
    misses = [q + 1, q - 1, -q, 10 * q, q / 10, q + unit, q - unit, 2 * q, q + Fraction(1, 1000), q * q]
    if q:
        misses += [1 / q, Fraction(q.numerator, q.denominator + 1), Fraction(int(str(abs(q.numerator))[::-1]))]
    return rng.choice([miss for miss in misses if miss != q])


def sum_of(terms: list[str]) -> str:
    """Terms joined by +, or by the sign that a term begins with. Empty terms are left out."""
    text = ""
    for term in terms:
        if term:
            text += f" - {term[1:]}" if text and term.startswith("-") else f" + {term}" if text else term
    return text or "0"


def coefficient(k: int) -> str:
    """What stands before a letter or a root: nothing for 1."""
    return {1: "", -1: "-"}.get(k, str(k))
