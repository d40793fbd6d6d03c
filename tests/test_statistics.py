"""Intervals cover what they should, and pairing removes what two sides share."""

import math

import numpy as np
import pytest
from scipy import stats

from gtpo.errors import DataError
from gtpo.statistics import (
    bootstrap_interval,
    bootstrap_means,
    fisher_p,
    holm,
    more_items,
    paired_difference,
    seed_interval,
    sign_flip_p,
)


def test_the_interval_covers_the_true_mean_about_95_times_in_100():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        low, high = bootstrap_interval(rng.random(60) < 0.3)
        covered += low <= 0.3 <= high
    assert 0.90 <= covered / 400 <= 0.98


def test_the_interval_is_that_of_the_normal_distribution_for_many_items():
    values = np.random.default_rng(2).normal(5.0, 2.0, size=4000)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_same_seed_draws_the_same_samples_and_another_seed_others():
    values = list(range(30))
    assert (bootstrap_means(values, seed=3) == bootstrap_means(values, seed=3)).all()
    assert (bootstrap_means(values, seed=3) != bootstrap_means(values, seed=4)).any()


def test_resampling_in_chunks_makes_every_resample(monkeypatch):
    monkeypatch.setattr("gtpo.statistics._CHUNK_ELEMENTS", 25)
    means = bootstrap_means(range(10))
    assert means.shape == (10_000,)
    assert len(set(means)) > 1


def test_equal_values_and_a_single_item_have_an_interval_of_no_width():
    assert bootstrap_interval([0.25] * 9) == (0.25, 0.25)
    assert bootstrap_interval([2.0]) == (2.0, 2.0)


def test_pairing_removes_the_spread_that_both_sides_share():
    hard = np.random.default_rng(0).random(40)
    paired = paired_difference(hard + 0.02, hard)
    assert paired.difference == pytest.approx(0.02)
    assert paired.excludes_zero
    assert paired.high - paired.low < 1e-9
    low, high = bootstrap_interval(hard)
    assert high - low > 0.1


def test_the_difference_is_the_first_minus_the_second_and_may_include_zero():
    paired = paired_difference([1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0])
    assert paired.difference == -0.25
    assert paired.low <= -0.25 <= paired.high == 0.0
    assert not paired.excludes_zero


@pytest.mark.parametrize("values", [[], [[1.0]], [1.0, float("nan")]])
def test_values_that_are_not_items_are_refused(values):
    with pytest.raises(DataError, match="values must be"):
        bootstrap_interval(values)


def test_sides_of_different_length_are_refused():
    with pytest.raises(DataError, match="a and b must have the same items in the same order, got 1 and 2"):
        paired_difference([1.0], [1.0, 2.0])


PAIRS = [0.02, 0.04, 0.01, 0.03]


def test_a_paired_seed_interval_is_never_narrower_than_students():
    half = 3.182446 * math.sqrt(5 / 3) * 0.01 / 2  # t(3) · s / √4, by hand
    first, second = [0.5 + difference for difference in PAIRS], [0.5] * 4
    assert seed_interval(first, second, is_paired=True) == pytest.approx((0.025 - half, 0.025 + half), abs=1e-7)


def test_an_unpaired_seed_interval_is_welchs_for_few_items():
    first, second = [0.9, 0.7, 0.8], [0.5, 0.2, 0.6, 0.1]
    variances = 0.01 / 3, np.var(second, ddof=1) / 4
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 2 + variances[1] ** 2 / 3)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(sum(variances))
    low, high = seed_interval(first, second, is_paired=False)
    assert (low, high) == pytest.approx((0.45 - half, 0.45 + half))


def test_each_end_of_a_seed_interval_is_the_wider_of_the_two():
    differences = np.array([0.0] * 19 + [1.0] * 6)  # skewed: the bootstrap's interval lies further to the right
    student = stats.ttest_1samp(differences, 0).confidence_interval()
    bootstrap = bootstrap_interval(differences)
    assert student.low < bootstrap[0]
    interval = seed_interval(differences, np.zeros(25), is_paired=True)
    assert interval == pytest.approx((student.low, max(student.high, bootstrap[1])))
    many = np.array([0.0] * 195 + [1.0] * 5)
    wide = stats.ttest_1samp(many, 0).confidence_interval().high
    assert bootstrap_interval(many)[1] > wide
    assert seed_interval(many, np.zeros(200), is_paired=True)[1] == bootstrap_interval(many)[1]


def test_one_item_or_no_spread_has_no_seed_interval():
    assert seed_interval([0.9], [0.1], is_paired=True) is None
    assert seed_interval([0.9, 0.8], [0.1], is_paired=False) is None
    assert seed_interval([0.3, 0.7], [0.1, 0.5], is_paired=True) is None  # 0.2 twice, up to rounding
    assert seed_interval([0.5, 0.5], [0.1, 0.1], is_paired=False) is None
    assert seed_interval([0.5, 0.5], [0.1, 0.2], is_paired=False) is not None


def test_fisher_counts_the_splits_that_are_no_likelier():
    ways = [math.comb(5, n) * math.comb(7, 4 - n) for n in range(5)]  # 4 of 12 items over sets of 5 and 7
    assert fisher_p(3, 5, 1, 7) == pytest.approx(sum(way for way in ways if way <= ways[3]) / sum(ways))


def test_more_items_is_the_smallest_sample_with_enough_power():
    sample = np.array([0.05, -0.03, 0.06, 0.0])
    needed = 4 + more_items([sample], 0.02)

    def margin(size):
        return (stats.t.ppf(0.975, size - 1) + stats.norm.ppf(0.8)) * sample.std(ddof=1) / math.sqrt(size)

    assert margin(needed) <= 0.02 < margin(needed - 1)
    assert more_items([sample], 1e-6) is None  # a thousand are not enough
    assert more_items([sample], 0.0) is None


@pytest.mark.parametrize("seed", range(5))
def test_the_sign_flip_p_is_that_of_scipys_exact_permutation_test(seed):
    differences = np.random.default_rng(seed).normal(0.4, 1.0, size=8).round(1)  # rounded: there are ties
    expected = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=2**8)
    assert sign_flip_p(differences) == pytest.approx(expected.pvalue)


def test_the_sign_flip_p_of_no_difference_is_1_and_many_items_are_refused():
    assert sign_flip_p([0.0] * 8) == 1.0
    with pytest.raises(DataError, match="at most 20 differences; got 21"):
        sign_flip_p([1.0] * 21)


def test_holms_p_values_reject_what_its_steps_reject():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p_values = (rng.random(5) ** 3).tolist()
        rejected = []
        for step, p in enumerate(sorted(p_values)):  # stop at the first that is not below its own level
            if p > 0.05 / (5 - step):
                break
            rejected.append(p)
        assert [p for p, adjusted in zip(p_values, holm(p_values), strict=True) if adjusted <= 0.05] == [
            p for p in p_values if p in rejected
        ]
    assert holm([]) == []
