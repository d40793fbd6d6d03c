"""Votes are for values, not for spellings."""

import pytest

import gtpo.rewards
from gtpo.evaluation.estimators import maj_at_k
from gtpo.evaluation.grading import grade, merge_answers
from gtpo.evaluation.samples import Sample


def quiet(what, done, total):
    pass


def said(*answers, gold="1"):
    texts = [f"<reasoning>r</reasoning><answer>{a}</answer>" if a is not None else "no tags" for a in answers]
    return [Sample(0, i, gold, text, 5, False, None) for i, text in enumerate(texts)]


def graded(*answers, gold="1"):
    (problem,) = grade([said(*answers, gold=gold)], quiet)
    return problem


def test_equal_values_in_different_spelling_vote_together():
    problem = graded("7", "1/2", "0.5", "7.0", "0.50", gold="3")
    assert problem.answers == ["7", "1/2", "1/2", "7", "1/2"]
    assert problem.is_correct == [False] * 5


def test_merging_lets_a_right_answer_in_three_spellings_beat_a_wrong_one_in_one():
    answers = ["3", "0.5", "3", "1/2", "0.50"]
    problem = graded(*answers, gold="1/2")
    assert problem.is_correct == [False, True, False, True, True]
    assert maj_at_k(problem.answers, problem.is_correct, 5) == 1.0
    assert maj_at_k(answers, problem.is_correct, 5) == 0.0


def test_no_tag_and_an_empty_tag_are_no_answer():
    problem = graded(None, "", "  ", "1")
    assert problem.answers == [None, None, None, "1"]
    assert problem.is_correct == [False, False, False, True]
    assert problem.has_format[0] is False
    assert problem.has_format[3] is True


def test_the_grader_is_asked_once_for_each_distinct_answer_and_never_for_two_plain_numbers(monkeypatch):
    asked = []

    def counting(answers, golds):
        asked.extend(zip(answers, golds, strict=True))
        return [answer == gold for answer, gold in zip(answers, golds, strict=True)]

    monkeypatch.setattr(gtpo.rewards, "are_correct", counting)
    graded("4", "4", "5", "6", "x", "1", "1")
    with_gold = [(answer, "1") for answer in ("4", "5", "6", "x", "1")]
    with_each_other = [("x", answer) for answer in ("4", "5", "6")]
    assert sorted(asked) == sorted(with_gold + with_each_other)


def test_problems_are_merged_together_but_do_not_mix():
    first, second = merge_answers(
        [{"a": False, "1": False, "1.0": False}, {"1.0": False, "b": True, "c": True}], quiet
    )
    assert first == {"a": "a", "1": "1", "1.0": "1"}
    assert second == {"b": "b", "c": "b", "1.0": "1.0"}


def test_a_megabyte_of_answer_is_compared_as_text(monkeypatch):
    seen = []
    monkeypatch.setattr(
        gtpo.rewards,
        "are_correct",
        lambda a, g: [seen.append(max(map(len, p))) or False for p in zip(a, g, strict=True)],
    )
    long = "9" * 1_000_000
    (spelling,) = merge_answers([{long: False, long + "1": False, "x": False, "y": False}], quiet)
    assert len(set(spelling.values())) == 4
    assert seen == [1]


@pytest.mark.parametrize("num_answers", [0, 1])
def test_progress_counts_distinct_answers(num_answers):
    seen = []
    grade([said(*["2"] * num_answers, None)], lambda *what: seen.append(what))
    assert seen == [(what, n, num_answers) for what in ("grading", "merging") for n in range(num_answers + 1)]
