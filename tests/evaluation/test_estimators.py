"""pass@k and maj@k equal averages over all subsets, which are enumerated here."""

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtpo.errors import ConfigError, DataError
from gtpo.evaluation import maj_at_k, pass_at_k
from gtpo.evaluation.estimators import maj_at_ks


def enumerated_pass(flags, k):
    subsets = list(combinations(flags, k))
    return float(Fraction(sum(any(subset) for subset in subsets), len(subsets)))


def enumerated_majority(answers, flags, k):
    """Every subset counted: the most votes win, a tie goes to the first answer, None has no vote."""
    num_won = 0
    subsets = list(combinations(range(len(answers)), k))
    for subset in subsets:
        votes = {}
        for index in subset:
            if answers[index] is not None:
                votes.setdefault(answers[index], []).append(index)
        if votes:
            most = max(len(voters) for voters in votes.values())
            first = min(voters[0] for voters in votes.values() if len(voters) == most)
            num_won += flags[first]
    return float(Fraction(num_won, len(subsets)))


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_pass_at_k_equals_the_share_of_subsets_with_a_correct_sample(flags, data):
    k = data.draw(st.integers(1, len(flags)))
    assert pass_at_k(len(flags), sum(flags), k) == enumerated_pass(flags, k)


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.booleans()), min_size=1, max_size=9), st.data()
)
def test_maj_at_k_equals_the_share_of_subsets_with_a_correct_majority(samples, data):
    answers, flags = [answer for answer, _ in samples], [flag for _, flag in samples]
    k = data.draw(st.integers(1, len(samples)))
    assert maj_at_k(answers, flags, k) == enumerated_majority(answers, flags, k)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=12, max_size=12))
def test_maj_at_k_is_exact_for_twelve_samples_and_every_k_at_once(answers):
    flags = [answer == "a" for answer in answers]
    ks = [1, 2, 5, 6, 12]
    assert maj_at_ks(answers, flags, ks) == [enumerated_majority(answers, flags, k) for k in ks]


@pytest.mark.parametrize(
    ("num_samples", "num_correct", "k", "value"),
    [
        (1, 0, 1, 0.0),
        (1, 1, 1, 1.0),
        (10, 3, 1, 0.3),
        (4, 2, 2, 5 / 6),
        (64, 1, 64, 1.0),
        (64, 1, 32, 0.5),
        (64, 0, 64, 0.0),
        (64, 63, 2, 1.0),
        (200, 50, 10, 1 - math.prod((150 - i) / (200 - i) for i in range(10))),
    ],
)
def test_pass_at_k_for_known_counts(num_samples, num_correct, k, value):
    assert pass_at_k(num_samples, num_correct, k) == pytest.approx(value, rel=1e-14)


def test_pass_at_k_stays_exact_where_floats_would_overflow():
    assert pass_at_k(20_000, 1, 10_000) == 0.5
    assert pass_at_k(20_000, 2, 10_000) == pytest.approx(0.75, abs=1e-4)


def test_a_tie_goes_to_the_first_answer():
    assert maj_at_k(["a", "b"], [True, False], 2) == 1.0
    assert maj_at_k(["b", "a"], [False, True], 2) == 0.0


def test_maj_at_1_is_pass_at_1_and_a_clear_majority_wins_at_n():
    answers = ["7"] * 30 + [str(i) for i in range(100, 134)]
    flags = [answer == "7" for answer in answers]
    at_1, at_64 = maj_at_ks(answers, flags, [1, 64])
    assert at_1 == pass_at_k(64, 30, 1) == 30 / 64
    assert at_64 == 1.0


def test_a_popular_wrong_answer_makes_the_majority_worse_than_one_sample():
    answers = ["9", "7", "9", "9", "7", "9"] * 5
    flags = [answer == "7" for answer in answers]
    assert maj_at_k(answers, flags, 15) < pass_at_k(30, 10, 1)


def test_samples_without_an_answer_do_not_vote():
    assert maj_at_k([None, None, "7"], [False, False, True], 3) == 1.0
    assert maj_at_k([None, None], [False, False], 2) == 0.0


@pytest.mark.parametrize("k", [0, -1, 5])
def test_k_outside_the_samples_is_refused(k):
    with pytest.raises(ConfigError, match="from 1 to the number of samples"):
        pass_at_k(4, 2, k)
    with pytest.raises(ConfigError, match="from 1 to the number of samples"):
        maj_at_k(["a"] * 4, [True] * 4, k)


def test_impossible_counts_are_refused():
    with pytest.raises(ConfigError, match="num_correct"):
        pass_at_k(4, 5, 1)
    with pytest.raises(ConfigError, match="num_samples"):
        pass_at_k(0, 0, 1)
    with pytest.raises(DataError, match="differ in length: 2 and 1"):
        maj_at_k(["a", "b"], [True], 1)
