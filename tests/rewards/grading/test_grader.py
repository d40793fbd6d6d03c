"""The grader in front of the workers: cache, invalid input, and the error for too many failures."""

import pytest

from gtpo.errors import ConfigError, DataError, GradingError
from gtpo.rewards import Grader, are_correct
from gtpo.rewards.grading import Pair, Verdict
from gtpo.rewards.grading.grader import MAX_ANSWER_CHARS, MAX_QUESTION_CHARS


class ScriptedPool:
    """Returns the same verdict for every pair and records the pairs."""

    timeout = 1.0

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked: list[Pair] = []

    def grade(self, pairs: list[Pair]) -> list[Verdict]:
        self.asked += pairs
        return [self.verdict] * len(pairs)


def scripted(verdict: Verdict, **settings: float) -> tuple[Grader, ScriptedPool]:
    grader, pool = Grader(**settings), ScriptedPool(verdict)  # type: ignore[arg-type]
    grader.pool = pool  # type: ignore[assignment]
    return grader, pool


def test_equal_pairs_are_graded_once():
    grader, pool = scripted("right")
    assert grader.grade(["1", "1", "2"], ["1", "1", "1"]) == ["right"] * 3
    assert grader.grade(["1", "2", "3"], ["1", "1", "1"]) == ["right"] * 3
    assert pool.asked == [("1", "1"), ("2", "1"), ("3", "1")]


def test_one_answer_to_two_questions_is_graded_twice():
    grader, pool = scripted("right")
    for _ in range(2):
        grader.grade(["1", "1", "1"], ["1", "1", "1"], ["What?", None, "Which?"])
    assert pool.asked == [("1", "1", "What?"), ("1", "1"), ("1", "1", "Which?")]


def test_only_the_end_of_a_very_long_question_is_sent():
    grader, pool = scripted("right")
    grader.grade(["1"], ["1"], ["a" * MAX_QUESTION_CHARS + "b"])
    assert [pair[2:] for pair in pool.asked] == [("a" * (MAX_QUESTION_CHARS - 1) + "b",)]


def test_a_failure_is_not_cached():
    grader, pool = scripted("timeout")
    assert grader.grade(["1"], ["1"]) == ["timeout"]
    pool.verdict = "right"
    assert grader.grade(["1"], ["1"]) == ["right"]


def test_a_long_answer_is_wrong_without_grading_unless_the_gold_answer_is_as_long():
    grader, pool = scripted("right")
    long = "1" * (MAX_ANSWER_CHARS + 1)
    assert grader.grade([long, long, long[1:]], ["1", long, "1"]) == ["wrong", "right", "right"]
    assert pool.asked == [(long, long), (long[1:], "1")]


def test_failures_are_logged_with_an_example(caplog: pytest.LogCaptureFixture):
    grader, _ = scripted("crash")
    grader.grade(["strange", "thing"], ["1", "1"])
    assert "2 of 2 answers could not be graded (0 timeouts, 2 crashes)" in caplog.text
    assert "'strange'" in caplog.text


def test_too_many_failures_raise_an_error():
    grader, pool = scripted("right", max_failure_fraction=0.25)
    grader.grade([f"good {number}" for number in range(200)], ["1"] * 200)
    pool.verdict = "crash"
    assert grader.grade([f"bad {number}" for number in range(6)], ["1"] * 6) == ["crash"] * 6
    pool.verdict = "timeout"
    assert grader.grade([f"late {number}" for number in range(60)], ["1"] * 60) == ["timeout"] * 60
    message = r"67 of the last 267 distinct answers could not be graded \(61 took more than 1\.0 s, 6 crashed\)"
    with pytest.raises(GradingError, match=message):
        grader.grade(["late 60"], ["1"])
    assert grader.grade(["late 61"], ["1"]) == ["timeout"]


def test_copies_of_one_answer_count_as_one_failure():
    grader, _ = scripted("timeout")
    for _ in range(31):
        assert grader.grade(["9^{9^{9^9}}"] * 64, ["1"] * 64) == ["timeout"] * 64


def test_a_handful_of_failures_in_the_first_batch_does_not_end_a_run():
    grader, pool = scripted("timeout", max_failure_fraction=0.25)
    assert grader.grade([str(number) for number in range(64)], ["1"] * 64) == ["timeout"] * 64
    assert len(pool.asked) == 64


def test_a_broken_grader_raises_before_the_batch_ends():
    grader, pool = scripted("timeout")
    with pytest.raises(GradingError, match="of the last 128 distinct answers"):
        grader.grade([str(number) for number in range(4096)], ["1"] * 4096)
    assert len(pool.asked) == 128


def test_the_fraction_of_failures_is_that_of_the_last_1024_pairs():
    grader, pool = scripted("right", max_failure_fraction=0.5)
    grader.grade([f"good {number}" for number in range(5000)], ["1"] * 5000)
    pool.verdict = "crash"
    with pytest.raises(GradingError, match="of the last 1024"):
        grader.grade([f"bad {number}" for number in range(513)], ["1"] * 513)


def test_lists_of_unequal_length_and_values_that_are_not_text_are_refused():
    with pytest.raises(DataError, match="equal length"):
        are_correct(["1"], ["1", "2"])
    with pytest.raises(DataError, match="equal length"):
        are_correct("1", "1")
    with pytest.raises(DataError, match="one question per answer, or None, got 1 for 2"):
        are_correct(["1", "2"], ["1", "2"], questions=["What?"])
    with pytest.raises(DataError, match="must be text"):
        are_correct(["1"], [1])  # type: ignore[list-item]
    with pytest.raises(DataError, match="must be text"):
        are_correct(["1"], ["1"], questions=[1])  # type: ignore[list-item]
    assert are_correct([], []) == []


@pytest.mark.parametrize("setting", [{"num_workers": 0}, {"timeout": 0.0}, {"max_failure_fraction": 2.0}])
def test_settings_out_of_range_are_refused(setting: dict[str, float]):
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Grader(**setting)  # type: ignore[arg-type]
