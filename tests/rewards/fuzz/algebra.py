"""Expressions in letters, equations and assignments: truth is the equality of coefficients."""

from collections.abc import Iterator
from random import Random

from tests.rewards.fuzz.pairs import Pair, category, right, wrong
from tests.rewards.fuzz.writing import coefficient, near_miss, number, plain, rational, sum_of

VALUE = "expressions are compared by value"
LETTER = "letters are compared by name and case"
SIDES = "every side of an equation must be right"
LETTERS = "xyztnabk"
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def term(rng: Random, k: int, letter: str, power: int) -> str:
    if k == 0:
        return ""
    if power == 0:
        return str(k)
    raised = {1: ("",), 2: ("^2", "^{2}", "²")}.get(power, (f"^{{{power}}}", str(power).translate(SUPERSCRIPTS)))
    return f"{coefficient(k)}{letter}{rng.choice(raised)}"


def polynomial(rng: Random, coefficients: list[int], letter: str, *, shuffle: bool = False) -> str:
    """A polynomial from the coefficients, that of the highest power first."""
    terms = [term(rng, k, letter, len(coefficients) - 1 - place) for place, k in enumerate(coefficients)]
    if shuffle:
        rng.shuffle(terms)
    return sum_of(terms)


def times(p: list[int], q: list[int]) -> list[int]:
    product = [0] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            product[i + j] += a * b
    return product


def nonzero(rng: Random, most: int = 12) -> int:
    return rng.randrange(1, most) * rng.choice((1, -1))


@category
def polynomials(rng: Random) -> Iterator[Pair]:
    letter = rng.choice(LETTERS)
    coefficients = [nonzero(rng), *(rng.randrange(-15, 16) for _ in range(rng.randrange(1, 4)))]
    gold = polynomial(rng, coefficients, letter)
    yield right(polynomial(rng, coefficients, letter, shuffle=True), gold, VALUE)
    yield right(gold.replace(" ", ""), gold, VALUE)
    place = rng.randrange(len(coefficients))
    bumped = [*coefficients[:place], coefficients[place] + rng.choice((1, -1, 10)), *coefficients[place + 1 :]]
    for other in (bumped, [-k for k in coefficients], [*coefficients, 0], coefficients[::-1]):
        if other != coefficients and any(other):
            yield wrong(polynomial(rng, other, letter), gold, VALUE)
    yield wrong(polynomial(rng, coefficients, letter.upper()), gold, LETTER)
    yield wrong(polynomial(rng, coefficients, "w"), gold, LETTER)
    yield wrong(str(sum(coefficients)), gold, VALUE)


@category
def factored(rng: Random) -> Iterator[Pair]:
    letter, scale = rng.choice(LETTERS), rng.choice((1, 1, 2, 3, -1))
    first, second = [rng.choice((1, 1, 2, 3)), nonzero(rng)], [rng.choice((1, 1, 1, 5)), nonzero(rng)]
    product = [scale * k for k in times(first, second)]
    factors = f"{coefficient(scale)}({polynomial(rng, first, letter)})({polynomial(rng, second, letter)})"
    swapped = f"{coefficient(scale)}({polynomial(rng, second, letter)})({polynomial(rng, first, letter)})"
    expanded = polynomial(rng, product, letter)
    yield right(factors, expanded, "the form of an expression is not graded")
    yield right(expanded, factors, "the form of an expression is not graded")
    yield right(swapped, factors, VALUE)
    flipped = [second[0], -second[1]]
    yield wrong(
        f"{coefficient(scale)}({polynomial(rng, first, letter)})({polynomial(rng, flipped, letter)})", factors, VALUE
    )
    yield wrong(f"{coefficient(scale)}({polynomial(rng, first, letter)})", factors, VALUE)
    yield wrong(polynomial(rng, [*product[:-1], product[-1] + 1], letter), factors, VALUE)


@category
def sums_of_products(rng: Random) -> Iterator[Pair]:
    letter = rng.choice(LETTERS)
    first, second, third = [rng.choice((1, 2, 3)), nonzero(rng)], [1, nonzero(rng)], [nonzero(rng), nonzero(rng)]
    product = times(first, second)
    total = [product[0], product[1] + third[0], product[2] + third[1]]
    factors = f"({polynomial(rng, first, letter)})({polynomial(rng, second, letter)})"
    text = sum_of([factors, polynomial(rng, third, letter)])
    yield right(text, polynomial(rng, total, letter), "the form of an expression is not graded")
    yield right(polynomial(rng, total, letter), text, VALUE)
    for place in range(3):
        other = [k + (place == at) for at, k in enumerate(total)]
        yield wrong(text, polynomial(rng, other, letter), VALUE)
        yield wrong(polynomial(rng, other, letter), text, VALUE)


@category
def fractions_with_letters(rng: Random) -> Iterator[Pair]:
    letter, k = rng.choice("xyztn"), rng.randrange(2, 9)
    a, b = rng.sample([n for n in range(-12, 13) if n], 2)
    top, bottom = polynomial(rng, [1, a], letter), polynomial(rng, [1, b], letter)
    gold = f"\\frac{{{top}}}{{{bottom}}}"
    yield right(f"({top})/({bottom})", gold, VALUE)
    scaled = f"\\frac{{{polynomial(rng, [k, k * a], letter)}}}{{{polynomial(rng, [k, k * b], letter)}}}"
    yield right(scaled, gold, VALUE)
    yield wrong(f"\\frac{{{bottom}}}{{{top}}}", gold, VALUE)
    yield wrong(f"\\frac{{{top}}}{{{polynomial(rng, [1, b + 13], letter)}}}", gold, VALUE)
    yield wrong(f"-{gold}", gold, VALUE)
    yield right(f"1/{k}{letter}", f"\\frac{{{letter}}}{{{k}}}", "a fraction of two integers binds tighter")
    yield wrong(f"1/{k}{letter}", f"\\frac{{1}}{{{k}{letter}}}", "a fraction of two integers binds tighter")
    yield right(f"1/({k}{letter})", f"\\frac{{1}}{{{k}{letter}}}", "a fraction of two integers binds tighter")


@category
def functions(rng: Random) -> Iterator[Pair]:
    letter, k, m = rng.choice("xyt"), rng.randrange(2, 30), rng.randrange(2, 30)
    name, other = rng.sample(("sin", "cos", "tan", "ln"), 2)
    gold = f"{k}\\{name}({letter}) + {m}"
    yield right(f"{m} + {k}\\{name}({letter})", gold, VALUE)
    yield right(f"{k}{name}({letter}) + {m}", gold, "functions mean the same without their backslash")
    yield right(f"{k} \\{name} {letter} + {m}", gold, VALUE)
    yield wrong(f"{k}\\{other}({letter}) + {m}", gold, VALUE)
    yield wrong(f"{k}\\{name}({letter}) - {m}", gold, VALUE)
    yield wrong(f"{k}\\{name}({k}{letter}) + {m}", gold, VALUE)
    yield wrong(f"y = {m} - \\{name}{{\\left(x \\right)}}", f"z = {m} - \\{name}{{\\left(x \\right)}}", LETTER)
    yield right(f"{m}exp({k}{letter})", f"{m}e^{{{k}{letter}}}", VALUE)
    yield wrong(f"{m}e^{{{k}}}{letter}", f"{m}e^{{{k}{letter}}}", VALUE)


@category
def equations(rng: Random) -> Iterator[Pair]:
    slope, shift = nonzero(rng), nonzero(rng, 40)
    gold = f"y = {polynomial(rng, [slope, shift], 'x')}"
    yield right(f"y = {sum_of([str(shift), f'{coefficient(slope)}x'])}", gold, "equations agree side by side")
    yield wrong(f"y = {polynomial(rng, [slope, -shift], 'x')}", gold, VALUE)
    yield wrong(f"y = {polynomial(rng, [slope + 13, shift], 'x')}", gold, VALUE)
    yield wrong(f"z = {polynomial(rng, [slope, shift], 'x')}", gold, LETTER)
    k = rng.randrange(2, 20)
    yield wrong(f"{k}x = {k * shift}", f"x = {shift}", "an equation that is not solved")
    yield wrong(f"{k}x = {k * shift}", str(shift), "an equation that is not solved")
    a, b = rng.randrange(1, 200), rng.randrange(1, 200)
    yield right(f"{a} + {b} = {a + b}", str(a + b), "the sum was done")
    yield right(f"{a} \\times {b} = {a * b}", str(a * b), "the product was done")
    yield wrong(f"{a} + {b} = {a + b + 1}", str(a + b + 1), SIDES)
    yield wrong(f"{a} + {b} = {a + b + 1}", str(a + b), SIDES)
    yield wrong(f"{a} + {b} = {a + b}", str(a), SIDES)
    yield wrong(f"{a} = {a + b}", str(a), SIDES)
    yield wrong(f"{a} = {a + b}", str(a + b), SIDES)


@category
def assignments(rng: Random) -> Iterator[Pair]:
    q = rational(rng)
    letter, other = rng.sample("xynkmt", 2)
    text = number(rng, q)
    spoiled = number(rng, near_miss(rng, q))
    yield right(f"{letter} = {text}", plain(q), "a name may be left out")
    yield right(text, f"{letter} = {plain(q)}", "a name may be left out")
    yield right(f"{letter} = {text}", f"{letter} = {plain(q)}", "the same name")
    yield wrong(f"{other} = {text}", f"{letter} = {plain(q)}", LETTER)
    yield wrong(f"{letter} = {spoiled}", plain(q), "another value")
    yield wrong(f"{letter} = {spoiled}", f"{letter} = {plain(q)}", "another value")
    argument = rng.randrange(-9, 10)
    yield right(f"f({argument}) = {text}", plain(q), "a name may be left out")
    yield wrong(f"f({argument}) = {spoiled}", plain(q), "another value")
    yield wrong(f"{letter} + 1 = {text}", plain(q), "a condition is not a value")


@category
def letters(rng: Random) -> Iterator[Pair]:
    first, second = rng.sample("nuvwxzpq", 2)
    k = rng.randrange(2, 60)
    gold = f"{k}{first}{second}"
    yield right(f"{k}{second}{first}", gold, VALUE)
    yield right(f"{k} {first} {second}", gold, VALUE)
    for other in (f"{k}{first.upper()}{second}", f"{k}{first}", f"{k + 1}{first}{second}", f"{k}{first}^2{second}"):
        yield wrong(other, gold, LETTER)
    yield wrong(str(k), gold, LETTER)
    yield wrong(f"{k}{first}", str(k), "a lone letter is a variable")
    yield right(f"{k}theta", f"{k}\\theta", "theta means the same without its backslash")
    greek, other = rng.sample(("alpha", "beta", "gamma", "theta", "lambda", "omega"), 2)
    yield wrong(f"{k}\\{other}", f"{k}\\{greek}", LETTER)
