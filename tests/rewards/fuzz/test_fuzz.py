"""The error rates of the grader on random pairs, and whether the fuzzer that measures them is honest."""

import hashlib
import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from scipy.stats import binom

from tests.rewards.fuzz import CATEGORIES, Pair, draw, draw_category
from tests.rewards.fuzz.__main__ import grade_with_gtpo
from tests.rewards.fuzz.rates import Grade, Rate, failures, grade, rates, table
from tests.rewards.fuzz.reading import have_equal_values

SEEDS = (11, 12, 13)
MAX_RATE = 0.001
SAMPLE = draw(seed=7, num_pairs=3000)
COMPARED_BY_VALUE = (
    "integers", "decimals", "fractions", "mixed_numbers", "scientific", "big_numbers", "surds", "sums_of_surds",
    "multiples_of_pi", "complex_numbers", "polynomials", "factored", "fractions_with_letters", "functions",
)  # fmt: skip
"""Categories where an answer is right exactly if it has the value of the gold answer."""


@pytest.mark.slow
def test_the_grader_errs_on_at_most_one_answer_in_a_thousand():
    graded = grade([pair for seed in SEEDS for pair in draw(seed, 3500)], grade_with_gtpo)
    measured = rates(graded)
    assert measured.credited.pairs + measured.refused.pairs >= 10_000
    errors = (measured.credited.value, measured.refused.value, (measured.timeouts + measured.crashes) / len(graded))
    assert max(errors) <= MAX_RATE, f"{failures(graded)}\n{table(graded)}"


def last_number_matches(pair: Pair) -> bool:
    """Grades as a search for the last number does."""
    numbers = [re.findall(r"-?\d+(?:\.\d+)?", text) for text in (pair.answer, pair.gold)]
    return bool(numbers[0] and numbers[1]) and numbers[0][-1] == numbers[1][-1]


def is_close(pair: Pair) -> bool:
    """Grades by floating-point numbers."""
    try:
        return abs(float(pair.answer) - float(pair.gold)) < 1e-6
    except ValueError:
        return pair.is_right


WRONG_GRADERS: dict[str, Callable[[Pair], bool]] = {
    "everything is right": lambda pair: True,
    "nothing is right": lambda pair: False,
    "equal strings": lambda pair: pair.answer == pair.gold,
    "gold answer inside the answer": lambda pair: pair.gold in pair.answer,
    "last number": last_number_matches,
    "floating point": is_close,
    "one calculation taken for its value": lambda pair: pair.is_right or "\\binom" in pair.answer,
    "first word": lambda pair: pair.is_right or pair.answer.split()[:1] == pair.gold.split()[:1],
    "no copies recognised": lambda pair: pair.is_right or pair.category == "copied_expressions",
    "no Unicode minus": lambda pair: pair.is_right and "−" not in pair.answer,
}


def grading(is_right: Callable[[Pair], bool]) -> Grade:
    def grade_all(pairs: Sequence[Pair]) -> list[str]:
        return ["right" if is_right(pair) else "wrong" for pair in pairs]

    return grade_all


@pytest.mark.parametrize("name", WRONG_GRADERS)
def test_a_wrong_grader_is_caught(name: str):
    measured = rates(grade(SAMPLE, grading(WRONG_GRADERS[name])))
    assert max(measured.credited.value, measured.refused.value) > MAX_RATE


def test_a_perfect_grader_has_no_errors_and_timeouts_of_right_answers_are_errors():
    perfect = rates(grade(SAMPLE, grading(lambda pair: pair.is_right)))
    assert (perfect.credited.errors, perfect.refused.errors, perfect.timeouts, perfect.crashes) == (0, 0, 0, 0)
    num_right = sum(pair.is_right for pair in SAMPLE)
    hanging = rates(grade(SAMPLE, lambda pairs: ["timeout"] * len(pairs)))
    assert (hanging.credited.errors, hanging.refused.errors, hanging.timeouts) == (0, num_right, len(SAMPLE))


def test_a_failure_names_the_pair_its_truth_and_the_reason():
    pair = Pair("6", "5", False, "another number", "How many?", "integers")
    assert failures(grade([pair], lambda _: ["right"])) == (
        "integers: '6' for '5' asked 'How many?' is wrong (another number): graded right"
    )


@pytest.mark.parametrize("name", COMPARED_BY_VALUE)
def test_truth_agrees_with_values_that_sympy_parses(name: str):
    pairs = [pair for pair in SAMPLE if pair.category == name][:40]
    equal = {pair: have_equal_values(pair) for pair in pairs}
    parsed = [pair for pair in pairs if equal[pair] is not None]
    assert len(parsed) >= 0.6 * len(pairs)
    assert [pair for pair in parsed if equal[pair] != pair.is_right] == []


def test_every_category_draws_its_share_of_distinct_pairs_with_right_and_wrong_answers():
    share = math.ceil(3000 / len(CATEGORIES))
    for name in CATEGORIES:
        pairs = [pair for pair in SAMPLE if pair.category == name]
        assert {pair.is_right for pair in pairs} == {True, False}, name
        assert len({(pair.answer, pair.gold, pair.question) for pair in pairs}) == len(pairs) == share, name


def test_no_pair_has_two_truths():
    truths: dict[tuple[str, str, str | None], bool] = {}
    for pair in SAMPLE:
        assert truths.setdefault((pair.answer, pair.gold, pair.question), pair.is_right) == pair.is_right, pair


def test_pairs_depend_on_the_seed_only():
    assert draw_category("units", seed=1, num_pairs=50) != draw_category("units", seed=2, num_pairs=50)
    script = "from tests.rewards.fuzz import draw; import sys; sys.stdout.write(repr(draw(seed=7, num_pairs=3000)))"
    other = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        check=True,
    )
    assert hashlib.sha256(other.stdout).hexdigest() == hashlib.sha256(repr(SAMPLE).encode()).hexdigest()


@pytest.mark.parametrize(("errors", "pairs"), [(0, 1000), (1, 100), (7, 5000)])
def test_the_upper_bound_is_the_rate_that_gives_so_few_errors_in_one_of_twenty_samples(errors: int, pairs: int):
    assert binom.cdf(errors, pairs, Rate(errors, pairs).upper) == pytest.approx(0.05)
