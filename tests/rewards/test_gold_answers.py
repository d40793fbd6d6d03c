"""All gold answers of MATH, where GTPO_DATA names a folder: each equals itself, two of different problems almost never."""

import os
import random
from collections import defaultdict

import pytest

from gtpo.problems import load_problems
from gtpo.rewards import GradingPool
from gtpo.rewards.units import split_unit

pytestmark = pytest.mark.skipif("GTPO_DATA" not in os.environ, reason="GTPO_DATA names no folder of benchmark files")


def test_every_gold_answer_equals_itself_in_its_own_dress_and_in_another():
    pool = GradingPool()
    try:
        for name, split in (("math", "test"), ("math", "train"), ("gsm8k", "test"), ("amc23", "test")):
            golds = [problem.answer for problem in load_problems(name, split=split)]
            pairs = [
                (answer, gold) for gold in golds for answer in (gold, f"\\[ \\displaystyle {gold} \\]", f"${gold}$.")
            ]
            verdicts = pool.grade(pairs)
            assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != "right"] == []
    finally:
        pool.close()


def test_answers_of_different_problems_match_only_as_one_value_in_two_dresses():
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
    assert len(matches) <= 0.001 * len(pairs)
    assert not {"timeout", "crash"} & set(verdicts)
    for answer, gold in matches:
        assert digits_of(answer) == digits_of(gold), f"{answer!r} was paid for {gold!r}"


def digits_of(answer: str) -> float:
    """The value of a dressed number, read without the code under test but for dropping its unit."""
    bare = split_unit(answer.replace("\\;", " "))[0].split("=")[-1].split("_")[0]
    for dress in ("\\dfrac", "\\tfrac", "\\frac"):
        bare = bare.replace(dress, "")
    digits = [part for part in bare.replace("{", " ").replace("}", " ").replace("\\sqrt", "").split() if part]
    if len(digits) == 1 and "frac" in answer and len(digits[0]) == 2:
        digits = list(digits[0])
    return float(digits[0]) / float(digits[1]) if len(digits) == 2 else float(digits[0])
