"""Answers as models write them: boxes after names, money with words, chains with units, names of objects."""

from collections.abc import Iterator
from random import Random

from tests.rewards.fuzz.algebra import nonzero, polynomial
from tests.rewards.fuzz.pairs import Pair, category, right, wrong
from tests.rewards.fuzz.several import entries, joined, spoiled
from tests.rewards.fuzz.writing import grouped

BOX = "a box after a name holds the value"
MONEY = "words that change nothing may follow an amount of money"
CHAIN = "each step of a chain has the value of the gold answer"
NAME = "a name may be left out"
COUNTED = "a noun that the question counts may follow the number"
ABSOLUTE = "an absolute value is another expression"
UNSOLVED = "an inequality must be solved"


@category
def boxes_after_names(rng: Random) -> Iterator[Pair]:
    parts = entries(rng)
    other = next(change for change in spoiled(rng, parts) if change != parts)
    rows = "\\begin{{pmatrix}} {} \\end{{pmatrix}}"
    for name, shape, separator in (
        ("P =", "({})", ", "),
        ("x \\in", "\\{{{}\\}}", ", "),
        ("x =", "{}", ", "),
        (rng.choice(("A =", "\\mathbf{A} =", "\\text{A} =", "\\vec{v} =")), rows, " \\\\ "),
    ):
        gold, changed = (shape.format(separator.join(joined([part]) for part in group)) for group in (parts, other))
        before, after = rng.choice((("", ""), ("$", "$"), ("", "."), ("\\(", "\\)")))
        yield right(f"{before}{name} \\boxed{{{gold}}}{after}", gold, BOX)
        yield wrong(f"{before}{name} \\boxed{{{changed}}}{after}", gold, BOX)
        if name != "x \\in" and shape != "{}":
            yield right(f"{name} {gold}", gold, NAME)


@category
def money_and_words(rng: Random) -> Iterator[Pair]:
    n = rng.randrange(2, 90_000)
    text = rng.choice((grouped(n), str(n), f"{grouped(n)}.00"))
    words = rng.choice(("left", "in total", "total", "each", "more", "altogether", "remaining", "left over", "in all"))
    for template in ("${} {}", "\\${} {}", "\\${}\\text{{ {}}}"):
        yield right(template.format(text, words), str(n), MONEY)
        yield wrong(template.format(n + 1, words), str(n), MONEY)
        yield wrong(template.format(text, rng.choice(("less", "doubled", "or more", "million left"))), str(n), MONEY)
    for template in ("$\\boxed{{\\${}}}$", "\\text{{\\$}}{}", "\\({}\\) dollars", "**{}** dollars", "\\(\\${}\\)"):
        yield right(template.format(text), str(n), MONEY)
        yield wrong(template.format(n + 1), str(n), MONEY)


@category
def chains_with_units(rng: Random) -> Iterator[Pair]:
    a, b = rng.randrange(2, 5000), rng.randrange(2, 5000)
    for template in ("{}^\\circ", "\\${}", "{}"):
        first, second, total, more, gold = (
            template.format(grouped(n) if template != "{}^\\circ" else n) for n in (a, b, a + b, a + b + 1, a + b)
        )
        gold = rng.choice((gold, str(a + b)))
        yield right(f"{first} + {second} = {total}", gold, CHAIN)
        yield right(f"{total} - {second} = {first}", str(a), CHAIN)
        yield wrong(f"{first} + {second} = {more}", gold, CHAIN)
        yield wrong(f"{first} + {total} = {total}", gold, CHAIN)
        yield wrong(f"{first} + {second}", gold, "the sum was not carried out")
        yield wrong(f"{first} + {second} = {total}", str(a + b + 1), CHAIN)


@category
def names_of_objects(rng: Random) -> Iterator[Pair]:
    n = rng.randrange(2, 900)
    first, second = rng.sample("ABCDEFGH", 2)
    for name in (f"\\overline{{{first}{second}}}", f"|{first}{second}|", f"{first}{second}", "\\text{Area}"):
        yield right(f"{name} = {n}", str(n), NAME)
        yield wrong(f"{name} = {n + 1}", str(n), NAME)
    word = rng.choice(("not", "wrong", "no", "false", "reciprocal", "negative", "opposite", "maybe", "x \\neq y"))
    yield wrong(f"{word} = {n}", str(n), "a word that takes the value back is not a name")


@category
def counted_nouns(rng: Random) -> Iterator[Pair]:
    n, word = rng.randrange(2, 300), rng.choice(("times", "pairs", "quarters", "halves", "dozen"))
    asked = rng.choice((f"How many {word} are there?", f"How many more {word} does she need?"))
    other = f"There are {n + 3} {word} of eggs. Find the number of hens."
    yield right(f"{n} {word}", str(n), COUNTED, asked)
    yield right(f"{n}\\text{{ {word}}}", str(n), COUNTED, asked)
    yield wrong(f"{n + 1} {word}", str(n), COUNTED, asked)
    yield wrong(f"{n} {word}", str(n), COUNTED, other)
    yield wrong(f"{n} {word} or {n + 1} {word}", str(n), COUNTED, asked)


@category
def absolute_values(rng: Random) -> Iterator[Pair]:
    """A polynomial of odd degree is negative somewhere, and so is a square minus a positive number."""
    letter, k = rng.choice("xyzt"), rng.randrange(1, 60)
    odd = polynomial(rng, [rng.choice((1, 2, 3)), nonzero(rng)], letter)
    for gold in (odd, f"{letter}^2 - {k}", f"{k}{letter}^3", f"a{letter}"):
        yield wrong(f"|{gold}|", gold, ABSOLUTE)
        yield wrong(f"\\sqrt{{({gold})^2}}", gold, ABSOLUTE)
        yield right(f"({gold})", gold, "brackets change nothing")
    yield right(f"|-{letter}^2|", f"{letter}^2", "a square is not negative")


@category
def unsolved_inequalities(rng: Random) -> Iterator[Pair]:
    letter, n, k = rng.choice("xyzt"), rng.randrange(-60, 60), rng.randrange(2, 60)
    sign, turned = rng.choice((("<", ">"), (">", "<"), ("\\le", "\\ge"), ("\\ge", "\\le")))
    gold = f"{letter} {sign} {n}"
    yield right(f"{n} {turned} {letter}", gold, "one inequality from both sides")
    yield right(f"{letter} {sign} {n}.0", gold, "the same number")
    yield wrong(f"{letter} + {k} {sign} {n + k}", gold, UNSOLVED)
    yield wrong(f"{letter} - {k} {sign} {n - k}", gold, UNSOLVED)
    yield wrong(f"-{letter} {turned} {-n}", gold, UNSOLVED)
    yield wrong(f"{k}{letter} {sign} {n * k}", gold, UNSOLVED)
    yield wrong(f"{letter} {sign} {n + 1}", gold, "another number")
