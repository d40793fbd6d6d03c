"""Intervals cover what they should, and pairing takes out what two sides share."""

import numpy as np
import pytest

from gtpo.errors import ConfigError, DataError
from gtpo.statistics import bootstrap_interval, bootstrap_means, paired_difference


def test_the_interval_covers_the_true_mean_about_95_times_of_100():
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(400):
        low, high = bootstrap_interval(rng.random(60) < 0.3, seed=trial, num_resamples=800)
        covered += low <= 0.3 <= high
    assert 0.90 <= covered / 400 <= 0.98


def test_the_interval_is_that_of_the_normal_distribution_for_many_items():
    values = np.random.default_rng(2).normal(5.0, 2.0, size=4000)
    low, high = bootstrap_interval(values)
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = list(range(30))
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    assert bootstrap_interval(values, seed=3) != bootstrap_interval(values, seed=4)


def test_a_higher_level_gives_a_wider_interval():
    values = np.random.default_rng(0).random(50)
    narrow, wide = bootstrap_interval(values, level=0.5), bootstrap_interval(values, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_resampling_in_chunks_leaves_no_resample_out(monkeypatch):
    monkeypatch.setattr("gtpo.statistics._CHUNK_ELEMENTS", 25)
    means = bootstrap_means(range(10), num_resamples=7)
    assert means.shape == (7,)
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
def test_values_that_are_no_items_are_refused(values):
    with pytest.raises(DataError, match="values must be"):
        bootstrap_interval(values)


def test_sides_of_different_length_and_impossible_levels_are_refused():
    with pytest.raises(DataError, match="same items"):
        paired_difference([1.0], [1.0, 2.0])
    with pytest.raises(ConfigError, match="level"):
        bootstrap_interval([1.0], level=95)
    with pytest.raises(ConfigError, match="num_resamples"):
        bootstrap_interval([1.0], num_resamples=0)
