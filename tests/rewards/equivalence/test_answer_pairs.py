"""A table of answers and verdicts. The workers grade every pair as the table says, in one call."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from gtpo.rewards import Grader

PAIRS = list(csv.DictReader(Path(__file__).with_name("answer_pairs.csv").open(encoding="utf-8", newline="")))


@pytest.fixture(scope="module")
def verdicts() -> Iterator[list[str]]:
    """With a limit that a busy machine does not reach: this is about equality."""
    answers, golds = [pair["answer"] for pair in PAIRS], [pair["gold"] for pair in PAIRS]
    grader = Grader(timeout=60.0)
    yield grader.grade(answers, golds, [pair["question"] or None for pair in PAIRS])
    grader.pool.close()


def test_the_table_is_large_has_both_verdicts_and_a_reason_for_each_pair():
    assert len(PAIRS) >= 150
    assert sum(pair["verdict"] == "right" for pair in PAIRS) >= 75
    assert sum(pair["verdict"] == "wrong" for pair in PAIRS) >= 75
    assert all(pair["verdict"] in ("right", "wrong") and pair["reason"] for pair in PAIRS)
    assert len({(pair["answer"], pair["gold"], pair["question"]) for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("row", range(len(PAIRS)), ids=[f"{p['answer'][:30]!r} for {p['gold'][:30]!r}" for p in PAIRS])
def test_each_pair_gets_its_verdict(row: int, verdicts: list[str]):
    pair = PAIRS[row]
    assert verdicts[row] == pair["verdict"], f"{pair['answer']!r} for {pair['gold']!r}: {pair['reason']}"
