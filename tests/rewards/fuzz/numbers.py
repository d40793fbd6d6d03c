"""Numbers in digits: integers, decimals, fractions, roundings, percent, powers of ten, digits in a base."""

import math
from collections.abc import Iterator
from fractions import Fraction
from random import Random

from tests.rewards.fuzz.pairs import Pair, category, right, wrong
from tests.rewards.fuzz.writing import (
    decimal,
    fraction,
    grouped,
    is_finite,
    mixed,
    near_miss,
    number,
    plain,
    proper,
    rational,
    repeating,
    rounded,
)

EXACT = "numbers are exact"
ROUNDED = "a rounded decimal needs a gold answer without finite decimal, six digits, and one unit of the last place"
PERCENT = "the gold answer sets the scale of percent"
BASE = "digits in a base keep their base"


@category
def integers(rng: Random) -> Iterator[Pair]:
    n = rng.choice((-1, 1, 1)) * rng.randrange(2, 10 ** rng.randrange(1, 10) + 2)
    digits = str(abs(n))
    yield right(number(rng, Fraction(n)), str(n), EXACT)
    yield right(number(rng, Fraction(n)), number(rng, Fraction(n)), EXACT)
    spoiled = {n + 1, n - 1, -n, n * 10, int(digits[::-1]), int(digits + digits[-1]), int("1" + digits), n + 10**6}
    for other in sorted(spoiled - {n}):
        yield wrong(number(rng, Fraction(other)), str(n), EXACT)


@category
def decimals(rng: Random) -> Iterator[Pair]:
    q = Fraction(rng.choice((-1, 1)) * rng.randrange(1, 10**6), 10 ** rng.randrange(1, 8))
    gold = decimal(q)
    yield right(gold + "0" if "." in gold else gold + ".0", gold, EXACT)
    yield right(number(rng, q), gold, EXACT)
    yield right(gold, fraction(rng, q), EXACT)
    places = len(gold.partition(".")[2])
    step = Fraction(1, 10 ** rng.randrange(places, places + 3))
    for other in (q + step, q - step, -q, q * 10, q / 10):
        yield wrong(decimal(other), gold, EXACT)


@category
def fractions(rng: Random) -> Iterator[Pair]:
    q = proper(rng) * rng.choice((-1, 1))
    yield right(fraction(rng, q), plain(q), EXACT)
    yield right(number(rng, q), fraction(rng, q), EXACT)
    a, b = q.numerator, q.denominator
    for other in (Fraction(b, a), Fraction(a + 1, b), Fraction(a, b + 1), -q, q + 1, Fraction(a + b, b + 1)):
        if other != q:
            yield wrong(fraction(rng, other), plain(q), EXACT)
    yield wrong(f"{a}{b}", plain(q), EXACT)


@category
def mixed_numbers(rng: Random) -> Iterator[Pair]:
    whole, part = rng.randrange(1, 60), proper(rng) % 1
    q = whole + part
    gold = rng.choice((plain(q), mixed(rng, q), decimal(q) if is_finite(q) else plain(q)))
    yield right(mixed(rng, q), gold, "mixed numbers are sums")
    yield right(mixed(rng, -q), plain(-q), "mixed numbers are sums")
    for other in (whole * part, part, q + 1, part - whole, whole + 1 - part, -q):
        if other != q:
            yield wrong(number(rng, other), gold, "mixed numbers are sums")
    if part.denominator != 10:  # 23/10 is 2 3/10
        slash = f"{whole}{part.numerator}/{part.denominator}"
        yield wrong(slash, gold, "without a space the whole number is a part of the numerator")


@category
def repeating_decimals(rng: Random) -> Iterator[Pair]:
    q = Fraction(rng.randrange(1, 300), rng.choice((3, 6, 7, 9, 11, 12, 13, 15, 22, 27, 30, 33, 36, 37, 99, 101, 990)))
    if is_finite(q):
        return
    text = repeating(q)
    yield right(text, plain(q), "a bar repeats its digits for ever")
    yield right(plain(q), text, "a bar repeats its digits for ever")
    if len(ended := text.replace("\\overline{", "").replace("}", "")) <= 6:  # with more digits it is a rounding
        yield wrong(ended, text, "digits without the bar end")
    yield wrong(repeating(q + 1), text, EXACT)
    yield wrong(plain(near_miss(rng, q)), text, EXACT)
    whole, digit, times = rng.randrange(90), rng.randrange(1, 9), rng.randrange(3, 9)
    dots, ninths = f"{whole}.{str(digit) * times}...", whole + Fraction(digit, 9)
    yield right(dots, plain(ninths), "three equal digits and dots repeat for ever")
    yield wrong(dots, plain(ninths + Fraction(1, 9)), EXACT)
    yield wrong(dots, dots.removesuffix("..."), EXACT)


@category
def roundings(rng: Random) -> Iterator[Pair]:
    """Decimals of fractions, roots and multiples of π, with more and fewer than six significant digits."""
    precision = 10**40
    kind = rng.randrange(3)
    if kind == 0:
        q = proper(rng)
        if is_finite(q):
            return
        gold, top, bottom = plain(q), q.numerator, q.denominator
    elif kind == 1:
        n = rng.choice([n for n in range(2, 900) if math.isqrt(n) ** 2 != n])
        gold, top, bottom = f"\\sqrt{{{n}}}", math.isqrt(n * precision**2), precision
    else:
        k = rng.randrange(1, 60)
        gold, bottom = f"{k if k > 1 else ''}\\pi", precision
        top = k * 31415926535897932384626433832795028841971
    leading = math.floor(math.log10(top / bottom))
    places = rng.randrange(6, 13) - 1 - leading
    good = rounded(top, bottom, places)
    yield right(good, gold, ROUNDED)
    yield right(f"{gold} \\approx {good}", gold, "both sides are right")
    yield wrong(gold, good, "a gold answer in digits is exact")
    off = Fraction(good) + Fraction(rng.choice((-1, 1)) * rng.randrange(2, 30), 10**places)
    yield wrong(rounded(off.numerator, off.denominator, places), gold, ROUNDED)
    few = rng.randrange(max(2, leading + 2), 6)
    yield wrong(rounded(top, bottom, few - 1 - leading), gold, ROUNDED)


@category
def finite_golds(rng: Random) -> Iterator[Pair]:
    """No rounding and no error of calculation is right for a gold answer with a finite decimal."""
    q = abs(rational(rng))
    if not is_finite(q):
        return
    tail = Fraction(rng.randrange(1, 10), 10 ** rng.randrange(4, 12)) / rng.choice((1, 10**3))
    for other in (q + tail, q - tail):
        if other != q:
            yield wrong(decimal(other), decimal(q), ROUNDED)
            yield wrong(decimal(other), plain(q), ROUNDED)
    yield right(decimal(q) + (".000000" if q.denominator == 1 else "000000"), plain(q), EXACT)
    places = len(decimal(q).partition(".")[2])
    if places > 1:
        yield wrong(rounded(q.numerator, q.denominator, places - 1), decimal(q), ROUNDED)


@category
def thousands(rng: Random) -> Iterator[Pair]:
    n = rng.randrange(1000, 10 ** rng.randrange(5, 13))
    for separator in (",", "{,}", ",\\!", " "):
        yield right(grouped(n, separator), str(n), "a comma groups thousands")
        yield wrong(grouped(near_integer(rng, n), separator), str(n), EXACT)
    yield right(str(n), grouped(n, rng.choice((",", "{,}", ",\\!"))), "a comma groups thousands")
    digits = str(n)
    yield wrong(f"{digits[:-2]},{digits[-2:]}", digits, "a group has three digits")
    if n >= 10_000:
        yield wrong(f"{digits[:-4]},{digits[-4:]}", digits, "a group has three digits")
    else:
        yield wrong(f"0,{digits[1:]}", digits[1:].lstrip("0") or digits, "a group does not follow a zero")


def near_integer(rng: Random, n: int) -> int:
    return rng.choice((n + 1, n - 1, n + 1000, n * 10, n + 10 ** (len(str(n)) - 1)))


@category
def percent(rng: Random) -> Iterator[Pair]:
    q = Fraction(rng.randrange(1, 2000), rng.choice((1, 1, 4, 10, 100)))
    text = decimal(q)
    gold = rng.choice((text, text + "\\%", text + "%"))
    for sign in ("\\%", "%", " percent", " %"):
        yield right(text + sign, gold, PERCENT)
        yield wrong(text + sign, decimal(q / 100), PERCENT)
        yield wrong(text + sign, decimal(q * 100), PERCENT)
        yield wrong(decimal(q + 1) + sign, gold, PERCENT)
    yield wrong(decimal(q / 100), text + "\\%", PERCENT)
    yield wrong(fraction(rng, q / 100), text + "\\%", PERCENT)
    yield wrong(text + rng.choice(("%%", "\\%\\%", "%\\%", " percent percent")), gold, "percent is written once")
    yield wrong(text + "\\%", text + rng.choice(("\\text{ cm}", " meters", " hours")), "percent is another unit")


@category
def scientific(rng: Random) -> Iterator[Pair]:
    mantissa, exponent = Fraction(rng.randrange(11, 100), 10), rng.randrange(2, 9) * rng.choice((1, 1, -1))
    q = mantissa * Fraction(10) ** exponent
    gold = rng.choice((decimal(q), f"{decimal(mantissa)} \\times 10^{{{exponent}}}"))
    templates = ("{}e{}", "{}\\times 10^{{{}}}", "{} \\cdot 10^{{{}}}", "{} × 10^{}", "{}E{}", "{}*10^{{{}}}")
    for template in templates:
        yield right(template.format(decimal(mantissa), exponent), gold, "a power of ten is a number")
        other = mantissa + Fraction(1, 10)
        yield wrong(template.format(decimal(other), exponent), gold, EXACT)
        yield wrong(template.format(decimal(mantissa), exponent + 1), gold, EXACT)
        yield wrong(template.format(decimal(mantissa), -exponent), gold, EXACT)
    power = rng.randrange(2, 99)
    yield right(f"10^{{{power}}}", str(10**power), "a power of ten is a number")
    yield right(str(10**power), f"10^{{{power}}}", EXACT)
    yield wrong(str(10 ** (power + 1)), f"10^{{{power}}}", EXACT)


@category
def bases(rng: Random) -> Iterator[Pair]:
    base, other = rng.sample(range(3, 10), 2)
    size = rng.randrange(2, 6)
    digits = "".join(str(rng.randrange(0 if place else 1, base)) for place in range(size))
    gold = rng.choice((f"{digits}_{base}", f"{digits}_{{{base}}}"))
    for text in (f"{digits}_{base}", f"{digits}_{{{base}}}", f"{digits} base {base}", digits):
        yield right(text, gold, BASE)
    yield wrong(f"{digits}_{{{other}}}", gold, BASE)
    yield wrong(f"{digits} base {other}", gold, BASE)
    yield wrong(str(int(digits, base)), gold, BASE)
    yield wrong(f"{digits[:-1]}{(int(digits[-1]) + 1) % base}_{base}", gold, BASE)
    yield wrong(rng.choice((f"{digits}_{base}", f"{digits} base {base}")), digits, "the gold answer has no base")
    yield wrong(
        rng.choice((f"{digits}_{base}", f"{digits} base {base}")), str(int(digits, base)), "no base in the gold"
    )


@category
def big_numbers(rng: Random) -> Iterator[Pair]:
    """Beyond the digits that a floating-point comparison sees."""
    n = rng.randrange(10**36, 10 ** rng.randrange(40, 90))
    yield right(grouped(n), str(n), EXACT)
    yield right(f"{n}.0", str(n), EXACT)
    for other in (n + 1, n - 1, n + 10, n * 10):
        yield wrong(str(other), str(n), EXACT)
    k = rng.randrange(2, 99)
    yield right(f"{n * k} / {k} = {n}", str(n), "the division was carried out")
    yield wrong(f"\\frac{{{n * k + 1}}}{{{k}}}", str(n), EXACT)
    yield wrong(f"\\frac{{{n + 1}}}{{{k * 10}}}", f"\\frac{{{n}}}{{{k * 10}}}", EXACT)
    base, power = rng.randrange(2, 20), rng.randrange(120, 200)
    symbolic, value = rng.choice(
        ((f"{base}^{{{power}}}", base**power), (f"{power // 3}!", math.factorial(power // 3)))
    )
    yield right(str(value), symbolic, EXACT)
    yield right(symbolic, symbolic, EXACT)
    yield wrong(str(value + 1), symbolic, EXACT)
    yield wrong(f"{symbolic}+1", symbolic, EXACT)
    yield wrong(symbolic, f"{symbolic}-1", EXACT)
    yield right(f"{symbolic} - 1", f"{symbolic}-1", EXACT)
    if k > 2:
        yield wrong(f"\\sqrt{{10^{{{2 * k}}}+1}}", f"10^{{{k}}}", EXACT)
    yield wrong(rng.choice((f"{k}+e^{{-{power}}}", f"{k} - 2^{{-{power}}}")), str(k), EXACT)
