"""Logged metrics against counts by hand, and one process against many."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpo.core.initial_entropy import InitialEntropy, entropy_totals
from gtpo.core.metrics import logged_metrics, metric_totals
from tests.core.rollouts import BATCHES, KNOBS, ORACLE_NAMES, shape, tensors
from tests.oracle import paper


def totals(batch, initial_entropy=0.5, rows=slice(None), layout=None, **knobs):
    ids, mask, advantages, _, group_ids = tensors(batch, **(layout or {}))[0]
    shaped = shape(batch, initial_entropy, layout, **knobs)
    return metric_totals(shaped, ids, mask, advantages, group_ids, rows)


def logged(batch, *args, **kwargs):
    return logged_metrics(totals(batch, *args, **kwargs).unsqueeze(0))


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
    assert logged(batch) == pytest.approx(
        {
            "gtpo/entropy_mean": (0.2 + 0.4 + 1.4 + 0.6 + 0.6) / 5,
            "gtpo/entropy_max": 1.4,
            "gtpo/token_entropy": (4 * 0.2 + 3 * 0.4 + 3 * 1.4 + 2 * 0.6) / 12,
            "gtpo/frac_kept": 5 / 6,
            "gtpo/fully_filtered": 0.0,
            "gtpo/frac_conflict": 6 / 12,
            "gtpo/frac_conflict_prefix": 3 / 12,
            "gtpo/frac_conflict_suffix": 3 / 12,
            "gtpo/num_tokens_skipped": 2,
            "gtpo/num_tokens_amplified": 2,
            "gtpo/frac_push_removed": (push[1] * 2 / 3 + push[2]) / sum(push),
            "gtpo/frac_push_added": push[0] * 2 / 4 / sum(push),
            "gtpo/frac_sign_flipped": 0.0,
            "gtpo/frac_tied_groups": 2 / 3,
            "gtpo/frac_distinct": 5 / 6,  # the two 7s are one
        },
        rel=1e-5,
    )


def pushes(
    batch, initial_entropy, *, edges, match, positive, negative, filter_mode, threshold, gamma, center, relative
):
    """The push of all tokens, and what δ and λ remove and add, token by token in plain loops."""
    names = ("push", "removed", "added", "tokens", "conflict", "skipped", "amplified", "completions", "flipped")
    sums = dict.fromkeys(names, 0.0)
    for me in batch:
        push = me.advantage - paper.penalty(batch, me, gamma, center, relative)
        sums["completions"] += me.valid
        sums["flipped"] += (paper.sign(me) > 0 > push) or (paper.sign(me) < 0 < push)
        in_conflict = paper.conflicts(batch, me, edges, match)
        trained = [t for t in range(len(me.tokens)) if me.valid and me.is_trained(t)]
        for t in trained:
            share = abs(push) / len(trained)
            weight = (positive if me.advantage > 0 else negative) if in_conflict[t] else 1.0
            sums["push"] += share
            sums["tokens"] += 1
            sums["conflict"] += in_conflict[t]
            if not paper.is_kept(me, filter_mode, threshold, initial_entropy):
                sums["removed"] += share
            elif weight < 1:
                sums["removed"] += share * (1 - weight)
                sums["skipped"] += 1
            elif weight > 1:
                sums["added"] += share * (weight - 1)
                sums["amplified"] += 1
    return sums


@settings(max_examples=200)
@given(BATCHES, KNOBS, st.sampled_from([0.2, 0.9]))
def test_removed_and_added_push_equal_plain_loops(batch, knobs, initial_entropy):
    metrics = logged(batch, initial_entropy, **knobs)
    wanted = pushes(batch, initial_entropy, **{ORACLE_NAMES[name]: value for name, value in knobs.items()})
    push, tokens = wanted["push"] or 1.0, wanted["tokens"] or 1.0
    assert metrics["gtpo/frac_push_removed"] == pytest.approx(wanted["removed"] / push, rel=1e-4, abs=1e-6)
    assert metrics["gtpo/frac_push_added"] == pytest.approx(wanted["added"] / push, rel=1e-4, abs=1e-6)
    assert metrics["gtpo/frac_conflict"] == pytest.approx(wanted["conflict"] / tokens)
    assert metrics["gtpo/frac_sign_flipped"] == pytest.approx(wanted["flipped"] / (wanted["completions"] or 1.0))
    assert metrics["gtpo/num_tokens_skipped"] == wanted["skipped"]
    assert metrics["gtpo/num_tokens_amplified"] == wanted["amplified"]


def test_a_batch_without_a_kept_completion_is_fully_filtered():
    batch = [paper.Completion([1], a, 0, [1.0]) for a in (1.0, -1.0)]
    assert logged(batch)["gtpo/fully_filtered"] == 1.0


@settings(max_examples=100)
@given(BATCHES, st.integers(1, 3))
def test_many_processes_log_what_a_single_process_would(batch, size):
    parts = [totals(batch, rows=slice(first, first + size)) for first in range(0, len(batch), size)]
    assert logged_metrics(torch.stack(parts)) == pytest.approx(logged(batch), rel=1e-5, abs=1e-6)


@settings(max_examples=100)
@given(BATCHES, st.sampled_from([torch.int64, torch.int32, torch.int16]), st.integers(0, 3))
def test_distinct_completions_are_counted_by_their_tokens(batch, ids_dtype, extra_padding):
    layout = {"ids_dtype": ids_dtype, "extra_padding": extra_padding}
    completions = [(completion.group, tuple(completion.tokens)) for completion in batch if completion.valid]
    wanted = len(set(completions)) / len(completions) if completions else 0.0
    assert logged(batch, layout=layout)["gtpo/frac_distinct"] == pytest.approx(wanted)


def test_no_rows_log_zeros():
    batch = [paper.Completion([1], 1.0, 0, [0.1])]
    assert set(logged(batch, rows=slice(0, 0)).values()) == {0.0}


def test_the_initial_entropy_is_a_mean_that_freezes_after_enough_prompts():
    initial = InitialEntropy(num_prompts_needed=3)
    assert initial.value is None
    counted = torch.tensor([True, True, False, True])
    batch = entropy_totals(torch.tensor([0.1, 0.3, 50.0, 0.8]), counted, torch.tensor([4, 4, 5, 6]))
    initial.add(batch[:1].sum(0) + batch[1:].sum(0))  # two processes that share group 4
    assert initial.value == pytest.approx(1.2 / 3)
    assert not initial.is_frozen  # group 5 had nothing to measure
    initial.add(batch.sum(0))
    assert initial.is_frozen


def test_a_given_initial_entropy_is_not_measured():
    initial = InitialEntropy(given=0.7)
    assert initial.is_frozen
    assert initial.value == 0.7
