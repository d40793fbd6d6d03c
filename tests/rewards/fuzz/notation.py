"""What stands around an answer: wrappers that do not count, and hedges that do."""

from collections.abc import Iterator
from fractions import Fraction
from random import Random

from tests.rewards.fuzz.forms import pi_multiple, root
from tests.rewards.fuzz.pairs import Pair, category, right, wrong
from tests.rewards.fuzz.writing import WRAPPERS, near_miss, number, plain, proper, rational

NOISE = "notation around the answer is ignored"
UNICODE = "Unicode signs mean the same as their LaTeX"
HEDGE = "several answers are not one answer"


@category
def wrappers(rng: Random) -> Iterator[Pair]:
    q = rational(rng)
    spoiled = near_miss(rng, q)
    wrapper = rng.choice(WRAPPERS)
    yield right(wrapper.format(number(rng, q)), plain(q), NOISE)
    yield wrong(wrapper.format(number(rng, spoiled)), plain(q), "another number, in the same notation")
    inner = rng.choice(("{}", "\\left({}\\right)", "({})", "\\text{{{}}}"))
    n = str(abs(round(q)) + 1)
    yield right(inner.format(n), n, NOISE)
    gold = pi_multiple(rng, proper(rng)) if rng.random() < 0.5 else root(rng, rng.randrange(1, 30), 7)
    yield right(wrapper.format(gold), gold, NOISE)
    yield wrong(wrapper.format(f"-{gold}"), gold, "another number, in the same notation")
    yield wrong(f"-\\boxed{{{plain(abs(q))}}}", plain(abs(q)), "what stands around a box counts")
    yield right(f"-\\boxed{{{plain(abs(q))}}}", plain(-abs(q)), "what stands around a box counts")


VULGAR = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅛": (1, 8), "⅞": (7, 8)}


@category
def unicode_signs(rng: Random) -> Iterator[Pair]:
    sign, other = rng.sample(sorted(VULGAR), 2)
    n, part = rng.randrange(1, 300), Fraction(*VULGAR[sign])
    yield right(sign, plain(part), UNICODE)
    yield right(f"{n}{sign}", plain(n + part), UNICODE)
    yield wrong(f"{n}{sign}", plain(n * part), "a whole number and a fraction are a sum")
    yield wrong(f"{n}{other}", plain(n + part), UNICODE)
    yield right(f"−{n}{sign}", plain(-n - part), UNICODE)
    yield wrong(f"−{n}{sign}", plain(part - n), UNICODE)
    for text, gold in (("−{}π", "-{}\\pi"), ("x ≤ {}", "x \\le {}"), ("[{}, ∞)", "[{}, \\infty)"), ("{}x²", "{}x^2")):
        yield right(text.format(n + 1), gold.format(n + 1), UNICODE)
        yield wrong(text.format(n + 2), gold.format(n + 1), UNICODE)
    yield wrong(f"x ≥ {n}", f"x \\le {n}", UNICODE)
    yield wrong(f"{n + 1}x³", f"{n + 1}x^2", UNICODE)


HEDGES = (
    "{} or {}", "{} \\approx {}", "{}≈{}", "{} ≈ {}", "{}, {}", "{} and {}", "\\boxed{{{}}} \\boxed{{{}}}",
    "\\boxed{{{}}} or \\boxed{{{}}}", "{} (or {})", "either {} or {}", "{}; {}", "{} = {}", "{}\n{}",
    "{} \\text{{ or }} {}", "not {} but {}", "{}, not {}", "{} \\neq {}", "{} \\pm {}", "between {} and {}",
    "{} to {}", "{} < {}", "{} \\sim {}", "\\boxed{{{}}}, \\boxed{{{}}}", "$\\boxed{{{}}}$ and $\\boxed{{{}}}$",
    "{} | {}", "{} \\to {}", "{} \\equiv {}", "\\{{{}, {}\\}}", "({}, {})", "[{}, {}]", "{} \\lor {}",
    "{} or maybe {}", "{} #### {}", "{} -> {}", "{} => {}", "The answer is {}. No, {}", "{}\\quad {}",
    "{} & {}", "\\text{{{} or {}}}", "{} \\\\ {}", "{}\\, or {}", "{} \\text{{ vs }} {}", "{} <br> {}",
    "{} \\text{{ or possibly }} {}", "{}. {}", "{} / {} or so",
)  # fmt: skip
"""Two different values in one answer. None of them is an answer in either order."""


@category
def hedges(rng: Random) -> Iterator[Pair]:
    q = rational(rng)
    other = near_miss(rng, q)
    if abs(q - other) < max(2, abs(q) / 10):  # 20.5 ≈ 20 is not a hedge
        other = q + 1000
    a, b = plain(q), plain(other)
    for template in rng.sample(HEDGES, 4):
        yield wrong(template.format(a, b), a, HEDGE)
        yield wrong(template.format(b, a), a, HEDGE)
    yield right(a, a, "one answer")
    radical = root(rng, rng.randrange(2, 30), 7)
    sign = rng.choice(("\\approx", "≈", "=", "or"))
    yield wrong(f"{radical} {sign} {rng.randrange(300, 900)}", radical, HEDGE)


DAMAGES = (
    "{}+", "{}*", "{}/", "{}^", "{}?", "{}-", "{}_", "{}&", "{}\\", "1/{}", "{}/0", "{}i", "{}x", "{}\\pi",
    "{}^2", "-{}", "\\sqrt{{{}}}", "\\neg {}", "≠{}", "\\ne {}", "<{}", ">{}", "\\le {}", "≥ {}", "x > {}",
    "x \\ne {}", "{}!", "0.{}", "not {}", "{} is wrong", "{}\\text{{ is wrong}}", "\\text{{not {}}}",
    "{}^{{-1}}", "{}\\cdot 2", "2{}", "{}.5", "f({})", "+-{}", "\\pm {}", "\\sin {}", "\\ln {}", "e^{{{}}}",
    "{}_{{12}}", "{}\\ldots", "{}...", "1{}", "{}0", "{}\\infty", "{}/2", "\\infty - {}",
    "{} \\text{{ or none}}", "none or {}", "{}, etc", "x^{{{}}}",
    "\\begin{{pmatrix}} {} \\\\ 1 \\end{{pmatrix}}",
)  # fmt: skip
"""What turns a number into another value, a condition, or nothing that can be parsed."""


@category
def damaged(rng: Random) -> Iterator[Pair]:
    n = rng.randrange(3, 10 ** rng.randrange(1, 5) + 3)
    for template in rng.sample(DAMAGES, 6):
        yield wrong(template.format(n), str(n), "what stands next to the number counts")
    yield right(rng.choice(WRAPPERS).format(n), str(n), NOISE)
    yield right(rng.choice(("0", "0.0", "0.00", f"0/{n}", f"\\frac{{0}}{{{n}}}")), "0", "zero is zero")
    yield wrong(rng.choice((f"1/{n}", f"0.0{n}", f"{n} - {n - 1}", f"10^{{-{n % 50 + 1}}}")), "0", "zero is zero")


@category
def no_answer(rng: Random) -> Iterator[Pair]:
    """Nothing, refusals, and answers that carry no value."""
    gold = plain(rational(rng))
    texts = ("", " ", "?", "...", "none", "unknown", "I don't know", "x", "the answer", "\\boxed{}", "$$", "-", "()")
    texts += ("NaN", "nan", "inf", "\\infty", "True", "\\text{}", "{}", "\\frac{}{}", "0/0", "1/0", "gold", "answer")
    yield wrong(rng.choice(texts), gold, "not an answer")
    yield (
        wrong(gold[:-1], gold, "a part of the gold answer") if len(gold) > 1 else wrong(gold * 2, gold, "digits twice")
    )
    yield right(gold, gold, "the gold answer itself")
