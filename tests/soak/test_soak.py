"""One round of `make soak`: every kind of fault, once."""

import random

import pytest

from tests.soak.rounds import ROUNDS, Soak, soak_test


@pytest.mark.slow
def test_runs_that_are_killed_and_damaged_end_with_the_same_weights(tiny_model, tmp_path):
    losses = dict(soak_test(Soak(tmp_path, tiny_model, random.Random(1)), num_rounds=1))
    assert losses == dict.fromkeys(ROUNDS)
