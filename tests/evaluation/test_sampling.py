"""Sampling settings resolve their defaults and refuse values that make no sense."""

import pytest

from gtpo.errors import ConfigError
from gtpo.evaluation.sampling import SamplingSettings, row_seed


def test_one_sample_is_greedy_and_several_have_temperature_0_9_and_top_p_1():
    assert SamplingSettings(num_samples=1).temperature == 0.0
    assert SamplingSettings(num_samples=1).is_greedy
    several = SamplingSettings(num_samples=2)
    assert (several.temperature, several.top_p, several.is_greedy) == (0.9, 1.0, False)
    assert SamplingSettings(num_samples=1, temperature=0.5).temperature == 0.5
    assert SamplingSettings(num_samples=8, temperature=0.5).temperature == 0.5


def test_max_new_tokens_is_1500_or_what_the_context_leaves():
    assert SamplingSettings().fitted(100, None).max_new_tokens == 1500
    assert SamplingSettings().fitted(100, 32_768).max_new_tokens == 1500
    assert SamplingSettings().fitted(100, 256).max_new_tokens == 156
    assert SamplingSettings(max_new_tokens=4000).fitted(100, None).max_new_tokens == 4000
    with pytest.raises(ConfigError, match="at most 156"):
        SamplingSettings(max_new_tokens=157).fitted(100, 256)
    with pytest.raises(ConfigError, match="Remove such problems"):
        SamplingSettings().fitted(256, 256)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_samples": 0}, "samples must be at least 1"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"num_samples": 4, "temperature": 0.0}, "all 4 samples of a problem are the same"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        SamplingSettings(**changes)


def test_every_sample_has_its_own_seed():
    seeds = {row_seed(seed, problem, sample) for seed in (0, 1, -5) for problem in range(40) for sample in range(40)}
    assert len(seeds) == 3 * 40 * 40
    assert all(0 <= seed < 2**63 for seed in seeds)
