"""Formulas copied from the question, and formulas that the question asks for."""

from collections.abc import Iterator
from random import Random

from tests.rewards.fuzz.algebra import nonzero, polynomial, times
from tests.rewards.fuzz.pairs import NEUTRAL_QUESTION, Pair, category, right, wrong
from tests.rewards.fuzz.undone import COPIED, undone
from tests.rewards.fuzz.writing import plain, sum_of


@category
def copied_numbers(rng: Random) -> Iterator[Pair]:
    text, value = undone(rng)
    asked = ("Compute ${}$.", "What is the value of ${}$?", "Evaluate \\[{}.\\]", "What is {}?")
    question = rng.choice(asked).format(text)
    gold = plain(value)
    yield wrong(text, gold, COPIED, question)
    yield wrong(f"${text}$", gold, COPIED, question)
    yield wrong(f"\\boxed{{{text}}}", gold, COPIED, question)
    yield right(gold, gold, "the value itself", question)
    if "x" not in text and "mod" not in text:
        yield right(f"{text} = {gold}", gold, "the calculation was carried out", question)
    a, b = rng.randrange(10, 900), rng.randrange(10, 900)
    question = f"Which is larger, ${a}$ or ${b}$?"
    yield right(str(max(a, b)), str(max(a, b)), "a number of the question may be the answer", question)
    power = f"{rng.randrange(2, 9)}^{{{rng.randrange(40, 90)}}}"
    other = f"{rng.randrange(11, 20)}^{{{rng.randrange(2, 9)}}}"
    question = f"Which is larger, ${power}$ or ${other}$?"
    yield right(power, power, "the copied formula is the gold answer", question)
    yield wrong(other, power, "another formula of the question", question)


def in_other_notation(rng: Random, text: str) -> str:
    """The same formula with other spaces, braces or brackets, with a name or a unit."""
    return rng.choice((
        text.replace(" ", ""),
        text.replace("^2", "^{2}").replace("²", "^2"),
        text.replace("(", "\\left(").replace(")", "\\right)"),
        f"${text}$",
        f"\\boxed{{{text}}}",
        f"The answer is {text}.",
        f"w = {text}",
        f"({text})",
        f"{text}\\text{{ cm}}",
    ))  # fmt: skip


@category
def copied_expressions(rng: Random) -> Iterator[Pair]:
    letter = rng.choice("xyzt")
    first, second = [1, nonzero(rng)], [rng.choice((1, 1, 2, 3)), nonzero(rng)]
    factors = f"({polynomial(rng, first, letter)})({polynomial(rng, second, letter)})"
    product = times(first, second)
    expanded = polynomial(rng, product, letter)
    reordered = sum_of([str(product[-1]), polynomial(rng, [*product[:-1], 0], letter)])
    for verb, given, gold in (("Expand", factors, expanded), ("Factor", expanded, factors)):
        question = f"{verb} ${given}$."
        yield wrong(given, gold, COPIED, question)
        yield wrong(in_other_notation(rng, given), gold, COPIED, question)
        yield right(gold, gold, "the form that was asked for", question)
        yield right(given, gold, "the form of an expression is not graded", NEUTRAL_QUESTION)
    yield right(reordered, expanded, "the terms may come in any order", f"Expand ${factors}$.")
    solution, shift = rng.randrange(-40, 40), rng.randrange(2, 40)
    equation = f"{letter} + {shift} = {solution + shift}"
    question = f"Solve ${equation}$ for ${letter}$."
    yield wrong(equation, str(solution), COPIED, question)
    yield wrong(equation, f"{letter} = {solution}", COPIED, question)
    yield right(f"{letter} = {solution}", str(solution), "a name may be left out", question)
    yield wrong(letter, str(solution), COPIED, question)
    k, m, at = rng.randrange(2, 20), rng.randrange(2, 20), rng.randrange(2, 20)
    question = f"If $f(x) = {k}x + {m}$, find $f({at})$."
    for copy in (f"f({at})", f"f(x) = {k}x + {m}", f"{k}x + {m}", f"{k}({at}) + {m}"):
        yield wrong(copy, str(k * at + m), COPIED, question)
    yield right(f"f({at}) = {k * at + m}", str(k * at + m), "a name may be left out", question)
    question = f"Solve ${letter} + {k} > {m}$."
    yield wrong(f"{letter} + {k} > {m}", f"({m - k}, \\infty)", COPIED, question)
    yield right(f"{letter} > {m - k}", f"({m - k}, \\infty)", "inequalities are compared with intervals", question)
    yield right(expanded, expanded, "literally the gold answer", f"Is ${expanded}$ or ${factors} + 1$ larger?")


NEUTRAL_OPERATIONS = (
    "\\{{{}\\}}", "({})", "(({}))", "[{}]", "{}+0", "0+{}", "\\frac{{{}}}{{1}}", "1\\cdot({})", "{} \\cdot 1",
    "-(-({}))", "{}\\phantom{{1}}", "\\text{{}}{}", "w = [{}]",
)  # fmt: skip
"""Ways to write a formula that do not change it, with {} for the formula."""


@category
def disguised_copies(rng: Random) -> Iterator[Pair]:
    letter = rng.choice("xyzt")
    first, second = [1, nonzero(rng)], [rng.choice((1, 1, 2, 3)), nonzero(rng)]
    factors = f"({polynomial(rng, first, letter)})({polynomial(rng, second, letter)})"
    expanded = polynomial(rng, times(first, second), letter)
    question = f"Expand ${factors}$."
    for template in rng.sample(NEUTRAL_OPERATIONS, 4):
        yield wrong(template.format(factors), expanded, COPIED, question)
    yield wrong(factors.replace("(", "[").replace(")", "]"), expanded, COPIED, question)
    yield wrong(factors.replace(letter, f"({letter})", 1), expanded, COPIED, question)
    yield wrong(f"{factors} \\approx {factors}", expanded, COPIED, question)
    yield right(f"({expanded})", expanded, "the form that was asked for", question)
    yield right(f"{expanded} + 0", expanded, "the value is the same", NEUTRAL_QUESTION)
    yield right(f"{factors} = {expanded}", expanded, "the expansion was carried out", question)


@category
def asked_expressions(rng: Random) -> Iterator[Pair]:
    """What the question asks for may stand on the left of its value; other expressions may not."""
    a, b, k = rng.randrange(2, 90), rng.randrange(2, 90), rng.randrange(2, 9)
    asked, value = rng.choice((("a + b", a + b), (f"{k}a + b", k * a + b), ("ab", a * b), ("a^2 - b", a * a - b)))
    verb = rng.choice(("find ${}$", "compute ${}$", "what is the value of ${}$", "determine \\[{}\\]"))
    question = f"If $a + 1 = {a + 1}$ and $2b = {2 * b}$, {verb.format(asked)}."
    shape = rng.choice(("{} = {}", "${} = {}$", "{} = \\boxed{{{}}}", "{}={}"))
    yield right(shape.format(asked, value), str(value), "what the question asks for, and its value", question)
    yield wrong(shape.format(asked, value + 1), str(value), "another value", question)
    yield wrong(shape.format(asked, value), str(value + 1), "another value", question)
    yield wrong(asked, str(value), COPIED, question)
    yield wrong(f"a + b + {k}a^3 = {value}", str(value), "an expression that the question does not ask for", question)
    yield wrong(f"2b = {2 * b}", str(b), "an equation that is not solved", f"If $2b = {2 * b}$, find $b$.")
    yield right(f"b = {b}", str(b), "a name may be left out", f"If $x^b={b}$ and $2b = {2 * b}$, find $b$.")
