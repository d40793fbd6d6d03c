"""Beginnings, copied words and whole-number answers are recognised."""

import pytest

from experiments.qwen.completion_style import common_beginning, copied_share, is_whole, takes_whole


def test_common_beginnings_and_copied_words_are_measured():
    texts = ["<reasoning>Tom has", "<reasoning>Tom had", "<reasoning>Tom"]
    assert common_beginning(texts) == pytest.approx((17 + 14 + 14) / 3)
    assert common_beginning(["", "a"]) == 0
    question = "Tom has three green pens."
    assert copied_share("<reasoning>\nTom has three green pens", question) == 1
    assert copied_share("<reasoning>tom has three green hats", question) == 0.5
    assert copied_share("No tag", question) == 0
    assert copied_share("x " * 100 + question, question) == 0  # after the beginning


def test_whole_numbers_are_distinguished_from_other_answers():
    assert all(map(is_whole, ("13", " -1,200 ", "$7$")))
    assert not any(map(is_whole, ("13/15", "2k + 2", "3.5", "x", "", "1 2", "3,5,7", "\\frac{1}{2}")))


def test_gold_answers_that_a_whole_number_can_match_are_found():
    taken = ["7", "90^\\circ", "x=5", "\\$32,\\!348", "52_8", "10,080", "1{,}000"]
    others = ["\\frac{13}{15}", "2k+2", "3, 5, 7", "-2,1", "0.5", "\\pi", "\\sqrt{2}"]
    assert takes_whole([*taken, *others]) == [True] * len(taken) + [False] * len(others)
