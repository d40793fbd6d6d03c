"""Answers of several parts: tuples, lists, sets, intervals, matrices."""

from collections.abc import Iterator
from fractions import Fraction
from random import Random

from tests.rewards.fuzz.forms import pi_multiple, root_over
from tests.rewards.fuzz.pairs import Pair, category, right, wrong
from tests.rewards.fuzz.writing import near_miss, number, plain, proper

TUPLE = "tuples agree in brackets, order and length"
LIST = "the members agree in number and value, in any order"
INTERVAL = "intervals agree in both ends and both brackets"
UNION = "unions of intervals in any order"
MATRIX = "matrices agree entry by entry"


def entry(rng: Random) -> Fraction:
    return proper(rng) if rng.random() < 0.25 else Fraction(rng.randrange(-60, 60))


def entries(rng: Random, least: int = 2, most: int = 4) -> list[Fraction]:
    """Distinct numbers without groups of three digits, which a comma could join."""
    numbers: dict[Fraction, None] = {}
    size = rng.randrange(least, most + 1)
    while len(numbers) < size:
        numbers[entry(rng)] = None
    return list(numbers)


def joined(parts: list[Fraction], rng: Random | None = None) -> str:
    return ", ".join(plain(part) if rng is None else number(rng, part) for part in parts)


def spoiled(rng: Random, parts: list[Fraction]) -> list[list[Fraction]]:
    """The parts with one changed to a value that no part has, one dropped, one added."""
    place = rng.randrange(len(parts))
    new = near_miss(rng, parts[place])
    while new in parts:
        new += 7
    return [[*parts[:place], new, *parts[place + 1 :]], parts[:-1], [*parts, new]]


@category
def tuples(rng: Random) -> Iterator[Pair]:
    parts = entries(rng)
    gold = f"({joined(parts)})"
    yield right(f"({joined(parts, rng)})", gold, TUPLE)
    yield right(f"\\left({joined(parts, rng)}\\right)", gold, TUPLE)
    for other in (*spoiled(rng, parts)[::2], parts[::-1], [-part for part in parts]):
        if other != parts:
            yield wrong(f"({joined(other, rng)})", gold, TUPLE)
    if len(parts) > 2:
        yield wrong(f"({joined(parts[:-1])})", gold, TUPLE)
    yield wrong(f"\\{{{joined(parts)}\\}}", gold, TUPLE)
    yield wrong(joined(parts), gold, "a list is not a tuple")
    yield wrong(f"({joined(parts)})", joined(parts), "a tuple is not a list")
    a, b = parts[:2]
    yield right(f"(x, y) = ({joined([a, b], rng)})", f"({joined([a, b])})", TUPLE)
    yield right(f"x = {plain(a)}, y = {plain(b)}", f"({joined([a, b])})", "x=1, y=2 is the pair (1, 2)")
    yield wrong(f"x = {plain(b)}, y = {plain(a)}", f"({joined([a, b])})", TUPLE)
    yield wrong(f"[{joined([a, b])}]", f"({joined([a, b])})", TUPLE)


def irrational(rng: Random) -> tuple[str, str, str]:
    """A number in two notations, and a different number."""
    q, n = proper(rng) if rng.random() < 0.5 else Fraction(rng.randrange(1, 40)), rng.choice((2, 3, 5, 6, 7, 10))
    kind = rng.randrange(3)
    if kind == 0:
        return pi_multiple(rng, q), pi_multiple(rng, q), pi_multiple(rng, q + 1)
    if kind == 1:
        return root_over(rng, q, n), root_over(rng, q, n), root_over(rng, q + 1, n)
    return plain(q), number(rng, q), plain(q + 1)


@category
def several_irrationals(rng: Random) -> Iterator[Pair]:
    size = rng.randrange(2, 4)
    golds, same, others = (list(column) for column in zip(*(irrational(rng) for _ in range(size)), strict=True))
    place = rng.randrange(size)
    spoiled_parts = [*same[:place], others[place], *same[place + 1 :]]
    for shape in ("({})", "{}", "\\{{{}\\}}"):
        gold = shape.format(", ".join(golds))
        yield right(shape.format(", ".join(same)), gold, "members are compared by value")
        yield wrong(shape.format(", ".join(spoiled_parts)), gold, "another member")
        yield wrong(shape.format(", ".join([*same, "1000"])), gold, "one member more")
        yield wrong(same[0], gold, "one member")
    yield right(", ".join(same[::-1]), ", ".join(golds), LIST)


@category
def lists(rng: Random) -> Iterator[Pair]:
    parts = entries(rng)
    gold = joined(parts)
    shuffled = rng.sample(parts, len(parts))
    yield right(joined(shuffled, rng), gold, LIST)
    words = rng.choice((" and ", " or ", " \\text{ and } ", " \\text{ or } "))
    yield right(joined(shuffled[:-1]) + words + plain(shuffled[-1]), gold, LIST)
    yield right(" or ".join(f"x = {plain(part)}" for part in shuffled), gold, LIST)
    for other in spoiled(rng, parts):
        yield wrong(joined(rng.sample(other, len(other)), rng), gold, LIST)
    yield wrong(joined([parts[0]] * len(parts)), gold, LIST)
    yield wrong(plain(parts[-1]), gold, LIST)
    n = rng.randrange(1, 99)
    yield right(f"\\pm {n}", rng.choice((f"{n}, -{n}", f"-{n}, {n}")), "plus-minus stands for two members")
    yield right(f"-{n}, {n}", f"\\pm {n}", "plus-minus stands for two members")
    yield wrong(f"\\pm {n + 1}", f"{n}, -{n}", LIST)
    yield wrong(str(n), f"\\pm {n}", LIST)
    yield wrong(f"\\pm {n}", str(n), LIST)


@category
def glued_lists(rng: Random) -> Iterator[Pair]:
    """A list whose comma is dropped, or is taken for a separator of thousands."""
    why = "a list is not a number"
    parts = [rng.randrange(1, 1000), *(rng.randrange(100, 1000) for _ in range(rng.randrange(1, 3)))]
    gold = ", ".join(map(str, parts))
    yield wrong("".join(map(str, parts)), gold, why)
    yield wrong(str(sum(parts)), gold, why)
    yield wrong(gold, "".join(map(str, parts)), why)
    yield wrong("".join(map(str, parts)), f"\\{{{gold}\\}}", why)
    yield right(", ".join(map(str, parts[::-1])), gold, LIST)
    short = [rng.randrange(1, 100) for _ in range(rng.randrange(2, 5))]
    yield wrong("".join(map(str, short)), ", ".join(map(str, short)), why)
    yield wrong(", ".join(map(str, short)), "".join(map(str, short)), why)
    yield right(", ".join(map(str, short[::-1])), ", ".join(map(str, short)), LIST)


@category
def sets(rng: Random) -> Iterator[Pair]:
    parts = entries(rng)
    gold = f"\\{{{joined(parts)}\\}}"
    yield right(f"\\{{{joined(rng.sample(parts, len(parts)), rng)}\\}}", gold, LIST)
    yield right(f"\\left\\{{{joined(parts[::-1])}\\right\\}}", gold, LIST)
    for other in spoiled(rng, parts):
        yield wrong(f"\\{{{joined(other, rng)}\\}}", gold, LIST)
    yield wrong(f"({joined(parts)})", gold, TUPLE)
    yield wrong(f"[{joined(parts)}]", gold, TUPLE)
    yield wrong(plain(parts[0]), gold, LIST)


def ends(rng: Random) -> tuple[Fraction, Fraction]:
    low, high = sorted(entries(rng, 2, 2))
    return low, high


def interval(rng: Random | None, low: Fraction | None, high: Fraction | None, brackets: str) -> str:
    """An interval; None is infinity, which takes a round bracket."""
    left = "-\\infty" if low is None else joined([low], rng)
    right_end = "\\infty" if high is None else joined([high], rng)
    return f"{'(' if low is None else brackets[0]}{left}, {right_end}{')' if high is None else brackets[1]}"


def inequality(rng: Random, letter: str, low: Fraction | None, high: Fraction | None, brackets: str) -> str:
    """The inequality that the interval solves. At least one end is finite."""
    less, more = rng.choice((("\\le", "\\ge"), ("\\leq", "\\geq"), ("≤", "≥"), ("<=", ">=")))
    left, right_sign = ("<" if brackets[0] == "(" else less), ("<" if brackets[1] == ")" else less)
    if low is None and high is not None:
        return f"{letter} {right_sign} {plain(high)}"
    if high is None and low is not None:
        return f"{letter} {'>' if brackets[0] == '(' else more} {plain(low)}"
    assert low is not None
    assert high is not None
    return f"{plain(low)} {left} {letter} {right_sign} {plain(high)}"


BRACKETS = ("()", "[]", "(]", "[)")


@category
def intervals(rng: Random) -> Iterator[Pair]:
    low, high = ends(rng)
    a, b = rng.choice(((low, high), (low, high), (None, high), (low, None)))
    brackets, other = rng.sample(BRACKETS, 2)
    gold = interval(None, a, b, brackets)
    yield right(interval(rng, a, b, brackets), gold, INTERVAL)
    yield right(f"x \\in {interval(rng, a, b, brackets)}", gold, INTERVAL)
    yield right(interval(None, a, b, brackets).replace("\\infty", "∞"), gold, INTERVAL)
    if interval(None, a, b, other) != gold:
        yield wrong(interval(rng, a, b, other), gold, INTERVAL)
    yield wrong(interval(rng, low - 1, high, brackets), gold, INTERVAL)
    yield wrong(interval(rng, low, high + 1, brackets), gold, INTERVAL)
    yield wrong(interval(rng, None, None, brackets), gold, INTERVAL)
    yield wrong(plain(low), gold, INTERVAL)
    if low != -high:
        yield wrong(interval(None, -high, -low, brackets), gold, INTERVAL)


@category
def unions(rng: Random) -> Iterator[Pair]:
    p, q, r, s = sorted(entries(rng, 4, 4))
    low, high = rng.choice(((p, q), (None, q))), rng.choice(((r, s), (r, None)))
    first, second, other = rng.choice(BRACKETS), rng.choice(BRACKETS), rng.choice(BRACKETS)
    left, right_part = interval(None, *low, first), interval(None, *high, second)
    gold = f"{left} \\cup {right_part}"
    yield right(f"{right_part} \\cup {left}", gold, UNION)
    yield right(f"{left}∪{right_part}", gold, UNION)
    yield wrong(left, gold, UNION)
    yield wrong(right_part, gold, UNION)
    yield wrong(gold, left, UNION)
    yield wrong(f"{left} \\cap {right_part}", gold, UNION)
    yield wrong(f"{left} \\cup {interval(None, high[0], s + 1, second)}", gold, UNION)
    if interval(None, *low, other) != left:
        yield wrong(f"{interval(None, *low, other)} \\cup {right_part}", gold, UNION)


@category
def inequalities(rng: Random) -> Iterator[Pair]:
    low, high = ends(rng)
    a, b = rng.choice(((low, high), (None, high), (low, None)))
    brackets, other = rng.sample(BRACKETS, 2)
    letter = rng.choice("xxytn")
    gold = rng.choice((interval(None, a, b, brackets), inequality(rng, letter, a, b, brackets)))
    yield right(inequality(rng, letter, a, b, brackets), gold, INTERVAL)
    yield right(interval(rng, a, b, brackets), gold, INTERVAL)
    if interval(None, a, b, other) != interval(None, a, b, brackets):
        yield wrong(inequality(rng, letter, a, b, other), gold, INTERVAL)
    yield wrong(inequality(rng, letter, low, high + 1, brackets), gold, INTERVAL)
    yield wrong(inequality(rng, letter, low - 1, b, brackets), gold, INTERVAL)
    if a is None or b is None:
        yield wrong(inequality(rng, letter, b, a, brackets[::-1].translate(MIRROR)), gold, INTERVAL)
    yield wrong(f"{letter} = {plain(low)}", gold, INTERVAL)


MIRROR = str.maketrans("()[]", ")(][")


def matrix(rng: Random | None, rows: list[list[Fraction]], kind: str = "pmatrix") -> str:
    body = " \\\\ ".join(" & ".join(plain(q) if rng is None else number(rng, q) for q in row) for row in rows)
    return f"\\begin{{{kind}}} {body} \\end{{{kind}}}"


@category
def matrices(rng: Random) -> Iterator[Pair]:
    height, width = rng.choice(((2, 2), (2, 2), (3, 1), (2, 1), (1, 3), (2, 3), (3, 3)))
    rows = [[entry(rng) for _ in range(width)] for _ in range(height)]
    gold = matrix(None, rows)
    yield right(matrix(rng, rows), gold, MATRIX)
    yield right(matrix(rng, rows, "bmatrix"), gold, MATRIX)
    columns = [list(column) for column in zip(*rows, strict=True)]
    changed = [row[:] for row in rows]
    changed[-1][rng.randrange(width)] += rng.choice((1, -1))
    negative = [[-q for q in row] for row in rows]
    for other in (columns, changed, negative, rows[::-1], [*rows, rows[0]], [row[::-1] for row in rows]):
        if other != rows:
            yield wrong(matrix(rng, other, rng.choice(("pmatrix", "bmatrix"))), gold, MATRIX)
    if height == width:
        yield wrong(gold, matrix(None, rows, "vmatrix"), "a determinant is not a matrix")
