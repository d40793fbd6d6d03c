"""Logged numbers against counts made by hand, and one process against many."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gtpo
from gtpo.core.initial_entropy import InitialEntropy, entropy_totals
from gtpo.core.metrics import logged_metrics, metric_totals
from tests.core.rollouts import KNOBS, ORACLE_NAMES, groups, shape, tensors
from tests.oracle import paper


def logged(shaped):
    return logged_metrics(metric_totals(shaped).unsqueeze(0))


def test_every_number_of_a_small_batch():
    batch = [
        paper.Completion([1, 2, 3, 9], 1.0, 0, [0.2] * 4),
        paper.Completion([1, 5, 9], -1.0, 0, [0.4] * 3),
        paper.Completion([1, 6, 9], -1.0, 0, [1.4] * 3),  # filtered
        paper.Completion([7], 0.0, 1, [0.6]),
        paper.Completion([7], 0.0, 1, [0.6]),
        paper.Completion([], 0.0, 2, []),
        paper.Completion([7], 5.0, 2, [9.0], valid=False),
    ]
    push = [1 - 0.02, 1 + 0.04, 1 + 0.14, 0.06, 0.06]
    assert logged(shape(batch)) == pytest.approx(
        {
            "gtpo/entropy_mean": (0.2 + 0.4 + 1.4 + 0.6 + 0.6) / 5,
            "gtpo/entropy_max": 1.4,
            "gtpo/frac_kept": 5 / 6,
            "gtpo/fully_filtered": 0.0,
            "gtpo/frac_conflict": 6 / 12,
            "gtpo/frac_conflict_prefix": 3 / 12,
            "gtpo/frac_conflict_suffix": 3 / 12,
            "gtpo/num_tokens_skipped": 2,
            "gtpo/num_tokens_amplified": 2,
            "gtpo/frac_push_removed": (push[1] * 2 / 3 + push[2]) / sum(push),
            "gtpo/frac_push_added": push[0] * 2 / 4 / sum(push),
            "gtpo/frac_tied_groups": 2 / 3,
            "gtpo/frac_distinct": 5 / 6,  # the two 7s are one
        },
        rel=1e-5,
    )


def pushes(batch, initial_entropy, *, edges, match, positive, negative, filter_mode, threshold, gamma, center):
    """How much every token is pushed, and what δ and λ take away and add, token by token in plain loops."""
    found = dict.fromkeys(("push", "removed", "added", "tokens", "conflict", "skipped", "amplified"), 0.0)
    for me in batch:
        in_conflict = paper.conflicts(batch, me, edges, match)
        trained = [t for t in range(len(me.tokens)) if me.valid and me.is_trained(t)]
        for t in trained:
            share = abs(me.advantage - paper.penalty(batch, me, gamma, center)) / len(trained)
            weight = (positive if me.advantage > 0 else negative) if in_conflict[t] else 1.0
            found["push"] += share
            found["tokens"] += 1
            found["conflict"] += in_conflict[t]
            if not paper.is_kept(me, filter_mode, threshold, initial_entropy):
                found["removed"] += share
            elif weight < 1:
                found["removed"] += share * (1 - weight)
                found["skipped"] += 1
            elif weight > 1:
                found["added"] += share * (weight - 1)
                found["amplified"] += 1
    return found


@settings(max_examples=500)
@given(groups(), KNOBS, st.sampled_from([0.2, 0.9]))
def test_what_is_taken_away_and_added_equals_plain_loops(batch, knobs, initial_entropy):
    metrics = logged(shape(batch, initial_entropy, **knobs))
    wanted = pushes(batch, initial_entropy, **{ORACLE_NAMES[name]: value for name, value in knobs.items()})
    push, tokens = wanted["push"] or 1.0, wanted["tokens"] or 1.0
    assert metrics["gtpo/frac_push_removed"] == pytest.approx(wanted["removed"] / push, rel=1e-4, abs=1e-6)
    assert metrics["gtpo/frac_push_added"] == pytest.approx(wanted["added"] / push, rel=1e-4, abs=1e-6)
    assert metrics["gtpo/frac_conflict"] == pytest.approx(wanted["conflict"] / tokens)
    assert metrics["gtpo/num_tokens_skipped"] == wanted["skipped"]
    assert metrics["gtpo/num_tokens_amplified"] == wanted["amplified"]


def test_a_batch_without_a_kept_completion_says_so():
    batch = [paper.Completion([1], a, 0, [1.0]) for a in (1.0, -1.0)]
    assert logged(shape(batch))["gtpo/fully_filtered"] == 1.0


@settings(max_examples=200)
@given(groups(), st.integers(1, 3))
def test_many_processes_log_what_one_would(batch, size):
    whole = shape(batch)
    parts = [metric_totals(whole.rows(slice(i, i + size))) for i in range(0, len(batch), size)]
    assert logged_metrics(torch.stack(parts)) == pytest.approx(logged(whole), rel=1e-5, abs=1e-6)


@settings(max_examples=200)
@given(groups(), st.sampled_from([torch.int64, torch.int32, torch.int16]), st.integers(0, 3))
def test_different_completions_are_counted_by_their_tokens(batch, ids_dtype, extra_padding):
    positional, masks = tensors(batch, extra_padding, ids_dtype)
    shaped = gtpo.shape_advantages(*positional[:-1], positional[-1].int(), initial_entropy=0.5, **masks)
    said = [(one.group, tuple(one.tokens)) for one in batch if one.valid]
    wanted = len(set(said)) / len(said) if said else 0.0
    assert logged(shaped)["gtpo/frac_distinct"] == pytest.approx(wanted)


def test_no_rows_log_zeros():
    assert set(logged(shape([paper.Completion([1], 1.0, 0, [0.1])]).rows(slice(0, 0))).values()) == {0.0}


def test_the_initial_entropy_is_a_mean_that_freezes_once_enough_prompts_were_seen():
    initial = InitialEntropy(num_prompts_needed=3)
    assert initial.value is None
    counted = torch.tensor([True, True, False, True])
    batch = entropy_totals(torch.tensor([0.1, 0.3, 50.0, 0.8]), counted, torch.tensor([4, 4, 5, 6]))
    initial.add(batch[:1].sum(0) + batch[1:].sum(0))  # from two processes that share group 4
    assert initial.value == pytest.approx(1.2 / 3)
    assert not initial.is_frozen  # group 5 had nothing to measure
    initial.add(batch.sum(0))
    assert initial.is_frozen


def test_a_given_initial_entropy_is_not_measured():
    initial = InitialEntropy(given=0.7)
    assert initial.is_frozen
    assert initial.value == 0.7
