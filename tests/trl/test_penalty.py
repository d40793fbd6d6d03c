"""The warning about an entropy penalty that is too large for the rewards."""

import logging
import re

import pytest
import torch

import gtpo
from gtpo.trl.penalty import PenaltyCheck
from tests.trl.checked import last_log, parity_reward, settings, train


def checking(entropy_penalty, **options):
    return PenaltyCheck(gtpo.ShapingConfig(entropy_penalty=entropy_penalty, **options))


def warnings_of(check, advantages, entropy, caplog):
    """What a batch of one group adds to the log, if all tokens of a completion have the same entropy."""
    size = len(advantages)
    ids, group = torch.arange(2 * size).reshape(size, 2), torch.zeros(size, dtype=torch.int64)
    values = torch.tensor(advantages)
    spread_out = torch.tensor(entropy).unsqueeze(1).expand(size, 2)
    shaped = gtpo.shape_advantages(
        ids, torch.ones_like(ids), values, spread_out, group, initial_entropy=9.0, config=check.config
    )
    caplog.clear()
    check.check(values, shaped, group)
    return [record.message for record in caplog.records]


def test_a_penalty_of_more_than_a_tenth_of_the_spread_is_warned_about_with_the_value_to_set(caplog):
    advantages, entropy = [0.75, -0.25, -0.25, -0.25], [0.2, 0.4, 0.6, 0.8]
    spread = (sum(a * a for a in advantages) / 4) ** 0.5
    limit = 0.1 * spread / 0.5  # γ·⟨H⟩ is a tenth of the spread there
    assert not warnings_of(checking(0.99 * limit), advantages, entropy, caplog)
    (text,) = warnings_of(checking(1.01 * limit), advantages, entropy, caplog)
    assert f"entropy_penalty={1.01 * limit:g} is large" in text
    suggested = float(re.search(r"Set entropy_penalty=([^,]+), or", text).group(1))
    assert suggested == pytest.approx(0.01 * spread / 0.5, rel=0.1)
    assert not warnings_of(checking(suggested), advantages, entropy, caplog)
    relative = float(re.search(r"or entropy_penalty=(\S+) with entropy_penalty_relative=True", text).group(1))
    assert relative == pytest.approx(0.01 / 0.5)
    assert not warnings_of(checking(relative, entropy_penalty_relative=True), advantages, entropy, caplog)
    assert f"advantages have a standard deviation of {spread:.2g}" in text


def test_the_paper_and_a_relative_penalty_are_not_warned_about(caplog):
    assert not warnings_of(checking(0.1), [5.0, -5.0], [0.6, 0.6], caplog)
    assert not warnings_of(checking(0.1, entropy_penalty_relative=True), [0.1, -0.1], [0.6, 0.6], caplog)
    assert not warnings_of(checking(0.1, entropy_penalty_center=True), [0.1, -0.1], [0.6, 0.6], caplog)
    assert not warnings_of(checking(0.0), [0.1, -0.1], [0.6, 0.6], caplog)


def test_tied_groups_are_not_counted_and_only_the_first_batches_are(caplog):
    check = PenaltyCheck(gtpo.ShapingConfig(), num_batches=2)
    for advantages in ([0.0, 0.0], [5.0, -5.0], [0.0, 0.0], [5.0, -5.0]):
        assert not warnings_of(check, advantages, [0.5, 0.5], caplog)
    assert not warnings_of(check, [0.1, -0.1], [0.5, 0.5], caplog)


def test_a_run_on_rewards_of_0_and_1_is_warned_once_and_counts_flipped_signs(tiny_model, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        trainer = train(tiny_model, parity_reward, **settings(tmp_path, entropy_penalty=1.0))
    assert sum("is large for these rewards" in record.message for record in caplog.records) == 1
    assert last_log(trainer)["gtpo/frac_sign_flipped"] > 0
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        trainer = train(tiny_model, parity_reward, **settings(tmp_path, entropy_penalty=0.005))
    assert "is large for these rewards" not in caplog.text
    assert last_log(trainer)["gtpo/frac_sign_flipped"] == 0
