"""Words next to numbers, and answers in words: units, nouns, number words, choices."""

from collections.abc import Iterator
from fractions import Fraction
from random import Random

from tests.rewards.fuzz.forms import pi_multiple, root_over
from tests.rewards.fuzz.pairs import NEUTRAL_QUESTION, Pair, category, right, wrong
from tests.rewards.fuzz.writing import WRAPPERS, decimal, grouped, near_miss, number, plain, proper, rational

UNIT = "a unit may be left out or added, never changed"
NOUN = "a word behind a number is a unit or a noun of the question"
NUMBER_WORD = "hundred to trillion and dozen multiply exactly; other number words are not parsed"
WORDS = "words are compared as words"

UNITS = (
    ("mm", "millimeters"), ("cm", "centimeters"), ("decimeters",), ("meters",), ("km", "kilometers"), ("nanometers",),
    ("inches",), ("feet",), ("yards",), ("miles",), ("seconds",), ("minutes",), ("hours",), ("days",), ("weeks",),
    ("months",), ("years",), ("decades",), ("centuries",), ("grams",), ("kg", "kilograms"), ("mg", "milligrams"),
    ("ounces",), ("liters",), ("ml", "milliliters"), ("gallons",), ("mph", "miles per hour"),
    ("kilometers per hour",), ("feet per second",), ("bytes",),
    ("kilobytes",), ("megabytes",), ("gigabytes",), ("degrees",), ("cents",), ("square feet",), ("square inches",),
    ("square centimeters",), ("cubic feet",), ("cubic centimeters",), ("square meters",), ("cubic meters",),
)  # fmt: skip
"""Known measures. The names in one tuple are synonyms; different tuples are different answers."""

NOUNS = (
    "apples", "pencils", "marbles", "students", "cookies", "books", "tickets", "chairs", "stamps", "birds", "eggs",
    "flowers", "bottles", "coins", "cards", "toys", "trees", "oranges", "shirts", "candles", "balloons", "cupcakes",
    "puppies", "muffins", "tomatoes", "bracelets", "stickers", "boxes", "passengers", "goats", "lemons", "windows",
)  # fmt: skip

QUESTIONS = (
    "Ann has {a} {noun} and buys {b} more. How many {noun} does she have now?",
    "There are {a} {noun} here and {b} there. How many {noun} are there in all?",
    "A shop sold {a} {noun} on Monday and {b} {noun} on Tuesday. Find the total.",
)

CHANGING_WORDS = (
    "doubled", "tripled", "halved", "quadrupled", "squared", "cubed", "reciprocal", "negated", "inverted", "myriad",
    "mega", "giga", "kilo", "milli", "fewer", "nope", "invalid", "imaginary", "binary", "hex", "hexadecimal", "octal",
    "impossible", "wrong", "twelfths", "thirds", "tenths", "fold", "tenfold", "grand", "gross", "lakh", "crore",
    "without", "except", "factorial", "twice", "thrice", "negative", "modulo", "plus one", "minus one",
    "times two", "over two", "or more", "at least", "at most", "raised to two", "incorrect",
)  # fmt: skip
"""Words that change the value of the number before them, or take it back."""


PARTICIPLES = ("doubled", "tripled", "halved", "quadrupled", "squared", "cubed", "negated", "inverted")


def count(rng: Random) -> Fraction:
    return Fraction(rng.randrange(2, 10 ** rng.randrange(1, 5) + 2))


@category
def units(rng: Random) -> Iterator[Pair]:
    names, others = rng.sample(UNITS, 2)
    q = abs(rational(rng)) if rng.random() < 0.3 else count(rng)
    value, name = plain(q), rng.choice(names)
    gold = rng.choice((f"{value}\\text{{ {name}}}", f"{value} {name}", f"{value}\\mbox{{ {name}}}"))
    spoiled = near_miss(rng, q)
    yield right(value, gold, UNIT)
    yield right(f"{number(rng, q)} {rng.choice(names)}", gold, UNIT)
    yield right(f"{value}\\text{{ {rng.choice(names)}}}", value, UNIT)
    yield right(f"{value} {name}", value, UNIT)
    yield wrong(f"{value} {rng.choice(others)}", gold, UNIT)
    yield wrong(f"{value}\\text{{ {rng.choice(others)}}}", gold, UNIT)
    yield wrong(f"{number(rng, spoiled)} {name}", gold, UNIT)
    yield wrong(f"{number(rng, spoiled)} {name}", value, UNIT)


@category
def wrapped_units(rng: Random) -> Iterator[Pair]:
    """A number in any notation, with a unit, in any wrapper."""
    q, wrapper, (names, others) = rational(rng), rng.choice(WRAPPERS), rng.sample(UNITS, 2)
    text, other = number(rng, q), near_miss(rng, q)
    spoiled = number(rng, other)
    unit, name = rng.choice(("{} {}", "{}\\text{{ {}}}", "{}~\\text{{{}}}", "{}\\ \\text{{{}}}")), rng.choice(names)
    gold = rng.choice((plain(q), f"{plain(q)}\\text{{ {rng.choice(names)}}}"))
    yield right(wrapper.format(unit.format(text, name)), gold, UNIT)
    yield wrong(wrapper.format(unit.format(spoiled, name)), gold, "another number")
    yield wrong(wrapper.format(unit.format(text, rng.choice(others))), f"{plain(q)}\\text{{ {name}}}", UNIT)
    hedge = f"{unit.format(text, name)} {rng.choice(('or', 'and', 'to', '='))} {unit.format(spoiled, name)}"
    yield wrong(wrapper.format(hedge), gold, "two answers")
    yield wrong(wrapper.format(f"{unit.format(text, name)} {rng.choice(CHANGING_WORDS)}"), gold, NOUN)


@category
def irrational_units(rng: Random) -> Iterator[Pair]:
    """Lengths and areas with π or a root."""
    q, n = proper(rng) if rng.random() < 0.3 else Fraction(rng.randrange(2, 90)), rng.choice((2, 3, 5, 6, 7))
    is_root = rng.random() < 0.5

    def write(q: Fraction) -> str:
        return root_over(rng, q, n) if is_root else pi_multiple(rng, q)

    names, others = rng.sample(UNITS, 2)
    gold = f"{write(q)}\\text{{ {names[0]}}}"
    yield right(write(q), gold, UNIT)
    yield right(f"{write(q)} \\text{{ {rng.choice(names)}}}", gold, UNIT)
    yield right(f"{write(q)}\\text{{ {rng.choice(names)}}}", write(q), UNIT)
    yield wrong(f"{write(q)}\\text{{ {rng.choice(others)}}}", gold, UNIT)
    yield wrong(f"{write(q + 1)}\\text{{ {names[0]}}}", gold, "another number")
    yield wrong(f"{plain(q)}\\text{{ {names[0]}}}", gold, "another number")
    yield wrong(f"{write(q)}\\text{{ {rng.choice(CHANGING_WORDS)}}}", write(q), NOUN)


@category
def powers_of_units(rng: Random) -> Iterator[Pair]:
    n, unit = count(rng), rng.choice(("cm", "mm", "km", "ft", "in"))
    gold = f"{n}\\text{{ {unit}}}^2"
    yield right(f"{n} \\text{{ {unit}}}^{{2}}", gold, UNIT)
    yield right(str(n), gold, UNIT)
    yield right(f"{n} {unit}²", gold, UNIT)
    yield wrong(f"{n}\\text{{ {unit}}}^3", gold, UNIT)
    yield wrong(f"{n}\\text{{ {unit}}}", gold, UNIT)
    yield wrong(str(n * n), gold, UNIT)


@category
def money_and_degrees(rng: Random) -> Iterator[Pair]:
    cents = Fraction(rng.randrange(1, 100_000), 100)
    text = f"{cents.numerator / cents.denominator:.2f}"
    gold = rng.choice((f"\\${text}", text, decimal(cents)))
    for answer in (f"\\${text}", f"${text}", text, f"{text} dollars", decimal(cents)):
        yield right(answer, gold, UNIT)
    for sign in ("€", "£"):
        yield wrong(f"{sign}{text}", f"\\${text}", UNIT)
    yield wrong(f"\\${decimal(cents + Fraction(1, 100))}", gold, UNIT)
    yield wrong(f"-\\${text}", gold, UNIT)
    yield wrong(f"{text} cents", f"\\${text}", UNIT)
    n = rng.randrange(1, 360)
    for answer in (f"{n}^\\circ", f"{n}°", f"{n} degrees", f"{n}^{{\\circ}}"):
        yield right(answer, rng.choice((f"{n}^\\circ", str(n))), UNIT)
    yield wrong(f"{n + 1}^\\circ", f"{n}^\\circ", UNIT)
    yield wrong(f"\\frac{{{n}\\pi}}{{180}}", f"{n}^\\circ", "degrees are not converted")


@category
def nouns(rng: Random) -> Iterator[Pair]:
    """A noun of the question may follow the number; one that the question does not have may not."""
    noun, other = rng.sample(NOUNS, 2)
    a, b = rng.randrange(2, 300), rng.randrange(2, 300)
    question = rng.choice(QUESTIONS).format(a=a, b=b, noun=noun)
    n = Fraction(a + b)
    text = number(rng, n)
    yield right(f"{text} {noun}", str(n), NOUN, question)
    yield right(f"{n}\\text{{ {noun}}}", str(n), NOUN, question)
    yield right(str(n), str(n), NOUN, question)
    yield right(f"{n} {noun}", f"{n}\\text{{ {noun}}}", NOUN, question)
    yield wrong(f"{n} {other}", str(n), NOUN, question)
    yield wrong(f"{n}\\text{{ {other}}}", str(n), NOUN, question)
    yield wrong(f"{n} {other}", str(n), NOUN, NEUTRAL_QUESTION)
    yield wrong(f"{near_miss(rng, n)} {noun}", str(n), "another number", question)
    yield wrong(f"{n} {noun} {rng.choice(('or', 'and', 'and not'))} {b} {noun}", str(n), "two answers", question)
    yield wrong(f"{n} {rng.choice(CHANGING_WORDS)} {noun}", str(n), NOUN, question)
    yield wrong(f"{n} {noun} {rng.choice(CHANGING_WORDS)}", str(n), NOUN, question)


@category
def words_behind_numbers(rng: Random) -> Iterator[Pair]:
    n, word, noun = count(rng), rng.choice(CHANGING_WORDS), rng.choice(NOUNS)
    question = rng.choice((None, NEUTRAL_QUESTION, QUESTIONS[0].format(a=3, b=4, noun=noun)))
    gold = rng.choice((str(n), str(n), f"{n}\\text{{ cm}}", f"{n} hours"))
    yield wrong(f"{n} {word}", str(n), NOUN, question)
    yield wrong(f"{n} {word}", gold, NOUN, question)
    yield wrong(f"{n}\\text{{ {word}}}", str(n), NOUN, question)
    yield wrong(f"{word} {n}", str(n), NOUN, question)
    yield right(str(n), gold, UNIT, question)
    yield right(f"{n} cm", str(n), UNIT, question)
    done = rng.choice(PARTICIPLES)
    yield wrong(f"{n} {done}", str(n), "a verb of the question is not a noun", f"A number is {done}. Find the result.")


@category
def number_words(rng: Random) -> Iterator[Pair]:
    factor = rng.choice((("hundred", 100), ("thousand", 1000), ("million", 10**6), ("billion", 10**9), ("dozen", 12)))
    q = Fraction(rng.randrange(11, 2000), 10)
    if (q * factor[1]).denominator > 1:
        q = Fraction(int(q))
    word, n = factor[0], int(q * factor[1])
    yield right(f"{decimal(q)} {word}", str(n), NUMBER_WORD)
    yield right(f"{decimal(q)} {word}", grouped(n), NUMBER_WORD)
    yield right(f"\\${decimal(q)} {word}", f"\\${n}", NUMBER_WORD)
    yield wrong(f"{decimal(q)} {word}", decimal(q), NUMBER_WORD)
    yield wrong(f"{decimal(q + 1)} {word}", str(n), NUMBER_WORD)
    yield wrong(f"{decimal(q)} {word}", str(n + 1), NUMBER_WORD)
    yield wrong(decimal(q), str(n), NUMBER_WORD)
    k = rng.randrange(2, 900)
    yield right(f"{k}k", str(1000 * k), NUMBER_WORD)
    yield wrong(f"{k}k", str(k), NUMBER_WORD)
    short, size = rng.choice((("M", 10**6), ("bn", 10**9), ("lakh", 10**5), ("crore", 10**7), ("dozens", 12)))
    yield wrong(f"{k} {short}", str(k * size), NUMBER_WORD)
    yield wrong(f"{k} {short}", str(k), NUMBER_WORD)
    tens, ones = rng.randrange(2, 10), rng.randrange(1, 10)
    yield wrong(f"{TENS[tens - 2]}-{ONES[ones - 1]}", str(10 * tens + ones), NUMBER_WORD)


TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

ANSWERS_IN_WORDS = (
    "Monday", "Tuesday", "Friday", "north", "south", "red", "blue", "green", "Alice", "Robert", "even", "odd", "true",
    "false", "yes", "no", "isosceles", "hyperbola", "ellipse", "parabola", "circle", "triangle", "Saturday", "January",
    "rational", "irrational", "Carla", "Denise", "orange", "neither", "both", "Sunday", "cylinder", "cone", "sphere",
)  # fmt: skip


@category
def words(rng: Random) -> Iterator[Pair]:
    word, other = rng.sample(ANSWERS_IN_WORDS, 2)
    gold = rng.choice((f"\\text{{{word}}}", word))
    for answer in (word, word.lower(), word.upper(), f"{word}.", f"\\text{{{word}}}", f"The answer is {word}."):
        yield right(answer, gold, WORDS)
    for answer in (other, f"not {word}", f"{word} or {other}", f"{word}, {other}", word[:-1], str(rng.randrange(99))):
        yield wrong(answer, gold, WORDS)


@category
def choices(rng: Random) -> Iterator[Pair]:
    letter, other = rng.sample("ABCDE", 2)
    gold = rng.choice((f"\\text{{({letter})}}", letter, f"({letter})", f"\\textbf{{({letter})}}"))
    wrapped = rng.choice(("{}", "${}$", "The answer is {}", "\\boxed{{{}}}", "{}.", "**{}**"))
    for shape in ("{}", "({})", "\\text{{({})}}", "\\text{{{}}}"):
        yield right(wrapped.format(shape.format(letter)), gold, "choices agree with and without brackets")
        yield wrong(wrapped.format(shape.format(other)), gold, "another choice")
    yield right(letter.lower(), f"\\text{{({letter})}}", "choices agree without case")
    both = rng.choice(("{} or {}", "{}, {}", "{} and {}", "({}) ({})", "{}{}", "not {} but {}", "{}/{}"))
    yield wrong(both.format(letter, other), gold, "two choices")
    yield wrong(both.format(other, letter), gold, "two choices")
