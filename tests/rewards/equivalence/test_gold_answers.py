"""Gold answers, where GTPO_DATA names a folder: each equals itself, those of different problems almost never match."""

import os
import random
from collections import defaultdict

import pytest

from gtpo.problems import load_problems
from gtpo.rewards import GradingPool

pytestmark = pytest.mark.skipif("GTPO_DATA" not in os.environ, reason="GTPO_DATA names no folder of benchmark files")


def test_every_gold_answer_equals_itself_in_its_own_dress_and_in_another():
    pool = GradingPool()
    try:
        for name, split in (("math", "test"), ("math", "train"), ("gsm8k", "test"), ("amc23", "test")):
            golds = [problem.answer for problem in load_problems(name, split=split)]
            dresses = ("{}", "\\[ \\displaystyle {} \\]", "${}$.")
            pairs = [(dress.replace("{}", gold), gold) for gold in golds for dress in dresses]
            verdicts = pool.grade(pairs)
            assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != "right"] == []
    finally:
        pool.close()


def test_answers_of_different_problems_of_one_subject_almost_never_match():
    by_subject: dict[str | None, list[str]] = defaultdict(list)
    for problem in load_problems("math"):
        by_subject[problem.subject].append(problem.answer)
    draw = random.Random(1)
    drawn = [draw.sample(by_subject[draw.choice(list(by_subject))], 2) for _ in range(10_000)]
    pairs = [(answer, gold) for answer, gold in drawn if answer != gold]
    pool = GradingPool()
    try:
        verdicts = pool.grade(pairs)
    finally:
        pool.close()
    matches = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict == "right"]
    assert len(matches) <= 0.001 * len(pairs), matches
    assert not {"timeout", "crash"} & set(verdicts)
