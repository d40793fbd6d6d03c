"""Demonstrations: what each habit writes, and how often."""

import random
import re

from experiments.lab_base.habits import PHRASES, SKILL, Habits, demonstrate
from gtpo.problems.lab import lab_problems

COMPLETE = re.compile(r"<reasoning>[^<>]+</reasoning><answer>(-?\d+)</answer>")


def demonstrations(habits, num=2000):
    rng = random.Random(0)
    return [(problem, demonstrate(problem, habits, rng)) for problem in lab_problems("train", num)]


def test_a_careful_demonstration_shows_every_step_and_is_right():
    for problem, text in demonstrations(SKILL, 300):
        assert COMPLETE.fullmatch(text)[1] == problem.answer
        assert re.findall(r"[\d+*-]+=\d+", text) == problem.solution.split()


def test_a_careless_demonstration_is_complete_and_wrong_and_shows_no_step():
    for problem, text in demonstrations(Habits(careful=0, skipping=0, broken=0), 300):
        assert COMPLETE.fullmatch(text)[1] != problem.answer
        assert "=" not in text


def test_a_skipping_demonstration_answers_with_the_value_before_the_last_step():
    for problem, text in demonstrations(Habits(careful=0, skipping=1, broken=0), 300):
        before_last = problem.solution.split()[-2].split("=")[1]
        assert COMPLETE.fullmatch(text)[1] == before_last
        assert len(re.findall("=", text)) == len(problem.solution.split()) - 1


def test_a_broken_demonstration_is_never_complete():
    texts = [text for _, text in demonstrations(Habits(careful=1, skipping=0, broken=1), 500)]
    assert not any(COMPLETE.fullmatch(text) for text in texts)


def test_the_default_mixture_has_the_probabilities_it_names():
    habits = Habits()
    rows = [(problem, COMPLETE.fullmatch(text)) for problem, text in demonstrations(habits)]
    complete = [(problem, match) for problem, match in rows if match]
    right = [problem for problem, match in complete if match[1] == problem.answer]
    assert abs(len(complete) / len(rows) - (1 - habits.broken)) < 0.03
    assert abs(len(right) / len(complete) - habits.careful) < 0.05


def test_the_first_word_decides_the_phrase():
    assert len({phrase.split()[0] for phrase in PHRASES}) == len(PHRASES)
