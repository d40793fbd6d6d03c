"""Gold answers of real data sets, if GTPO_DATA is set: each equals itself, and different ones almost never match."""

import os
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from gtpo.problems import load_problems
from gtpo.rewards import GradingPool
from gtpo.rewards.grading import Pair

pytestmark = pytest.mark.skipif("GTPO_DATA" not in os.environ, reason="GTPO_DATA is not set")

NOTATIONS = ("{}", "\\[ \\displaystyle {} \\]", "${}$.")


@pytest.fixture(scope="module")
def pool() -> Iterator[GradingPool]:
    pool = GradingPool()
    yield pool
    pool.close()


@pytest.mark.parametrize(
    ("name", "split"), [("math", "test"), ("math", "train"), ("gsm8k", "test"), ("amc23", "test")]
)
def test_every_gold_answer_equals_itself_with_and_without_its_question(pool: GradingPool, name: str, split: str):
    problems = load_problems(name, split=split)
    pairs: list[Pair] = []
    for problem in problems:
        answers = [notation.replace("{}", problem.answer) for notation in NOTATIONS]
        pairs += [(answer, problem.answer) for answer in answers]
        pairs += [(answer, problem.answer, problem.question) for answer in answers]
    verdicts = pool.grade(pairs)
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != "right"] == []


def test_answers_of_different_problems_of_one_subject_almost_never_match(pool: GradingPool):
    by_subject: dict[str | None, list[str]] = defaultdict(list)
    for problem in load_problems("math"):
        by_subject[problem.subject].append(problem.answer)
    rng = random.Random(1)
    draws = [rng.sample(by_subject[rng.choice(list(by_subject))], 2) for _ in range(10_000)]
    pairs = [(answer, gold) for answer, gold in draws if answer != gold]
    verdicts = pool.grade(pairs)
    matches = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict == "right"]
    assert len(matches) <= 0.001 * len(pairs), matches
    assert not {"timeout", "crash"} & set(verdicts)
