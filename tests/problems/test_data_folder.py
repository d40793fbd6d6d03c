"""The benchmark files in the folder GTPO_DATA, if it is set: complete, disjoint, and with the published answers."""

import os

import pytest

from gtpo.problems import load_problems
from gtpo.text import boxed

pytestmark = pytest.mark.skipif("GTPO_DATA" not in os.environ, reason="GTPO_DATA is not set")

COUNTS = {
    ("gsm8k", "train"): 7473,
    ("gsm8k", "test"): 1319,
    ("math", "train"): 7496,
    ("math", "test"): 5000,
    ("math500", "test"): 500,
    ("aime24", "test"): 30,
    ("aime25", "test"): 30,
    ("amc23", "test"): 40,
}


def test_every_file_is_complete_and_train_and_test_do_not_overlap():
    loaded = {key: load_problems(key[0], split=key[1]) for key in COUNTS}
    assert {key: len(problems) for key, problems in loaded.items()} == COUNTS
    questions = {key: {" ".join(problem.question.split()) for problem in loaded[key]} for key in COUNTS}
    for train in (("gsm8k", "train"), ("math", "train")):
        for test in COUNTS:
            if test[1] == "test":
                assert questions[train].isdisjoint(questions[test]), f"{train} overlaps {test}"
    assert questions["math500", "test"] <= questions["math", "test"]


def test_the_answer_of_every_math_problem_is_the_last_box_of_its_solution():
    for split in ("train", "test"):
        for problem in load_problems("math", split=split):
            assert boxed(problem.solution) == problem.answer
