"""Completions vote for values, not for spellings."""

import pytest

import gtpo.rewards
from gtpo.evaluation.estimators import maj_at_k
from gtpo.evaluation.evaluate import no_progress
from gtpo.evaluation.graders import find_grader
from gtpo.evaluation.samples import Sample
from gtpo.evaluation.votes import grade, merge_answers


def samples(*answers, gold="1", question=None):
    texts = [f"<reasoning>r</reasoning><answer>{a}</answer>" if a is not None else "no tags" for a in answers]
    return [Sample(0, i, gold, text, 5, False, None, None if i else question) for i, text in enumerate(texts)]


def graded(*answers, gold="1", question=None):
    (votes,) = grade([samples(*answers, gold=gold, question=question)], find_grader("answer"), no_progress)
    return votes


def test_equal_values_in_different_spellings_vote_together():
    answers, is_correct = graded("7", "1/2", "0.5", "7.0", "0.50", gold="3")
    assert answers == ["7", "1/2", "1/2", "7", "1/2"]
    assert is_correct == [False] * 5


def test_a_correct_answer_in_three_spellings_beats_a_wrong_answer_in_one():
    answers = ["3", "0.5", "3", "1/2", "0.50"]
    merged, is_correct = graded(*answers, gold="1/2")
    assert is_correct == [False, True, False, True, True]
    assert maj_at_k(merged, is_correct, 5) == 1.0
    assert maj_at_k(answers, is_correct, 5) == 0.0


def test_the_question_decides_on_copied_formulas_and_on_nouns():
    question = "How many eggs are $3!$ eggs?"
    assert graded("3!", "6 eggs", "7 eggs", "7", gold="3!", question=question) == (
        ["3!", "3!", "7 eggs", "7 eggs"],
        [True, True, False, False],
    )
    assert graded("3!", "1+5", gold="6", question=question)[1] == [False, False]
    assert graded("2x+x", "3 x", gold="3x", question="Simplify $2x + x$.")[1] == [False, True]


def test_a_completion_without_a_tag_or_with_an_empty_tag_has_no_answer():
    assert graded(None, "", "  ", "1") == ([None, None, None, "1"], [False, False, False, True])


def test_each_distinct_answer_is_graded_once_and_plain_numbers_are_compared_without_the_grader(monkeypatch):
    pairs = []

    def counting(answers, golds, *, questions):
        assert not any(questions)
        pairs.extend(zip(answers, golds, strict=True))
        return [answer == gold for answer, gold in zip(answers, golds, strict=True)]

    monkeypatch.setattr(gtpo.rewards, "are_correct", counting)
    graded("4", "4", "5", "6", "x", "1", "1")
    with_gold = [(answer, "1") for answer in ("4", "5", "6", "x", "1")]
    with_each_other = [("x", answer) for answer in ("4", "5", "6")]
    assert sorted(pairs) == sorted(with_gold + with_each_other)


def test_answers_are_merged_within_a_problem_only():
    first, second = merge_answers(
        [{"a": False, "1": False, "1.0": False}, {"1.0": False, "b": True, "c": True}], [None, None], no_progress
    )
    assert first == {"a": "a", "1": "1", "1.0": "1"}
    assert second == {"b": "b", "c": "b", "1.0": "1.0"}


def test_very_long_answers_are_compared_as_text(monkeypatch):
    graded_answers = []

    def grade_nothing(answers, golds, *, questions):
        graded_answers.extend(answers)
        return [False] * len(answers)

    monkeypatch.setattr(gtpo.rewards, "are_correct", grade_nothing)
    long = "9" * 1_000_000
    (spelling,) = merge_answers([{long: False, long + "1": False, "x": False, "y": False}], [None], no_progress)
    assert len(set(spelling.values())) == 4
    assert graded_answers == ["y"]


@pytest.mark.parametrize("num_answers", [0, 1])
def test_progress_counts_distinct_answers(num_answers):
    calls = []
    grade([samples(*["2"] * num_answers, None)], find_grader("answer"), lambda *call: calls.append(call))
    assert calls == [(task, n, num_answers) for task in ("grading", "merging") for n in range(num_answers + 1)]
