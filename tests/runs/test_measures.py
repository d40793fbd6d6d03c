"""Measures of a training curve, by hand-made curves."""

import math

import pytest

from gtpo.logged import Series
from gtpo.runs.measures import area, centred_mean, final, steps_to, trailing_mean, worst_drop

RISING = Series(list(range(1, 101)), [step / 100 for step in range(1, 101)])


def test_the_end_is_the_mean_of_the_last_tenth():
    assert final(RISING) == pytest.approx(0.955)  # 0.91 … 1.00
    assert final(Series([], [])) is None


def test_the_area_weighs_uneven_steps():
    assert area(RISING) == pytest.approx(0.505)
    assert area(Series([0, 1, 10], [0.0, 0.0, 1.0])) == pytest.approx(0.45)
    assert area(Series([3], [0.5])) == 0.5


def test_a_level_is_reached_by_the_trailing_mean_or_at_the_last_step():
    assert steps_to(RISING, 0.5) == 52  # the mean of 0.48 … 0.52
    assert steps_to(RISING, 2.0) == 100
    assert steps_to(Series([], []), 0.5) is None


def test_the_worst_drop_is_below_the_highest_value_so_far():
    assert worst_drop(Series(list(range(20)), [0.8] * 10 + [0.2] * 10)) == pytest.approx(0.6)
    assert worst_drop(RISING) == 0
    assert worst_drop(Series([1], [0.5])) is None


def test_a_centred_mean_keeps_a_straight_line_and_a_trailing_mean_lags():
    line = [float(step) for step in range(200)]
    assert centred_mean(line)[10:190] == pytest.approx(line[10:190])
    assert trailing_mean(line)[10:190] == pytest.approx([value - 4.5 for value in line[10:190]])
    assert len(centred_mean([1.0] * 7)) == len(trailing_mean([1.0] * 7)) == 7


@pytest.mark.parametrize("count", [0, 1, 4, 5, 19, 20, 41, 400, 2001])
def test_both_means_are_those_of_a_loop(count):
    values = [((step * 37) % 101) / 7 for step in range(count)]
    size = max(5, count // 20)
    reach = count // 40 if count >= 40 else 1 if count >= 20 else 0

    def mean(part):
        return math.fsum(part) / len(part)

    trailing = [mean(values[max(0, end - size) : end]) for end in range(1, count + 1)]
    centred = [mean(values[max(0, at - reach) : at + reach + 1]) for at in range(count)]
    assert trailing_mean(values) == pytest.approx(trailing)
    assert centred_mean(values) == pytest.approx(centred)
