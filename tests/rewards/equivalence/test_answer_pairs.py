"""A table of answers and verdicts. The workers grade every pair as the table says, in one call."""

import csv
from pathlib import Path

import pytest

from gtpo.rewards import are_correct

PAIRS = list(csv.DictReader(Path(__file__).with_name("answer_pairs.csv").open(encoding="utf-8", newline="")))


@pytest.fixture(scope="module")
def graded() -> list[bool]:
    answers, golds = [pair["answer"] for pair in PAIRS], [pair["gold"] for pair in PAIRS]
    return are_correct(answers, golds, questions=[pair["question"] or None for pair in PAIRS])


def test_the_table_is_large_has_both_verdicts_and_a_reason_for_each_pair():
    assert len(PAIRS) >= 150
    assert sum(pair["verdict"] == "right" for pair in PAIRS) >= 75
    assert sum(pair["verdict"] == "wrong" for pair in PAIRS) >= 75
    assert all(pair["verdict"] in ("right", "wrong") and pair["reason"] for pair in PAIRS)
    assert len({(pair["answer"], pair["gold"], pair["question"]) for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("row", range(len(PAIRS)), ids=[f"{p['answer'][:30]!r} for {p['gold'][:30]!r}" for p in PAIRS])
def test_each_pair_gets_its_verdict(row: int, graded: list[bool]):
    pair = PAIRS[row]
    assert graded[row] == (pair["verdict"] == "right"), f"{pair['answer']!r} for {pair['gold']!r}: {pair['reason']}"
