"""Ã against the loops of tests/oracle, and the properties that every host relies on."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gtpo
from tests.core.rollouts import BATCHES, KNOBS, ORACLE_NAMES, shape, tensors
from tests.oracle import paper


@settings(max_examples=500)
@given(BATCHES, KNOBS, st.sampled_from([0.2, 0.9]))
def test_equals_the_paper_in_plain_loops(batch, knobs, initial_entropy):
    result = shape(batch, initial_entropy, **knobs)
    loops = {ORACLE_NAMES[name]: value for name, value in knobs.items()}
    for row, completion in enumerate(batch):
        expected = paper.shaped(batch, completion, initial_entropy=initial_entropy, **loops)
        got = result.advantages[row]
        assert got[: len(expected)].tolist() == pytest.approx(expected, abs=1e-6)
        assert not got[len(expected) :].any()
        assert result.entropy[row].item() == pytest.approx(paper.mean_entropy(completion), abs=1e-6)


@settings(max_examples=100)
@given(BATCHES, KNOBS, st.integers(1, 4))
def test_padding_and_integer_type_change_nothing(batch, knobs, extra):
    wide = shape(batch, layout={"extra_padding": extra, "ids_dtype": torch.int32}, **knobs)
    narrow = shape(batch, **knobs)
    assert wide.advantages[:, : narrow.advantages.shape[1]].allclose(narrow.advantages, atol=1e-6)
    assert wide.kept.equal(narrow.kept)


@settings(max_examples=100)
@given(BATCHES, KNOBS, st.randoms())
def test_row_order_changes_nothing(batch, knobs, random):
    order = list(range(len(batch)))
    random.shuffle(order)
    shuffled, straight = shape([batch[i] for i in order], **knobs), shape(batch, **knobs)
    for field in dataclasses.fields(gtpo.ShapedAdvantages):
        expected = getattr(straight, field.name)[torch.tensor(order)].float()
        assert getattr(shuffled, field.name).float().allclose(expected, atol=1e-6), field.name


@settings(max_examples=100)
@given(BATCHES)
def test_neutral_settings_equal_grpo_bit_for_bit(batch):
    neutral = {"conflict_positive_weight": 1.0, "conflict_negative_weight": 1.0, "entropy_penalty": 0.0}
    result = shape(batch, entropy_filter="off", **neutral)
    for row, completion in enumerate(batch):
        advantage = torch.tensor(completion.advantage if completion.valid else 0.0)
        trained = torch.tensor([completion.is_trained(t) for t in range(len(completion.tokens))], dtype=torch.bool)
        assert result.advantages[row, : len(trained)][trained].equal(advantage.expand(int(trained.sum())))


def test_a_token_in_both_runs_is_one_conflict():
    same = [paper.Completion([4, 5], a, 0, [0.1, 0.1]) for a in (1.0, -1.0)]
    assert shape(same).token_weight.tolist() == [[2.0, 2.0], [0.0, 0.0]]


def test_tool_output_continues_a_run_and_gets_no_weight():
    good = paper.Completion([1, 2, 3, 4], 1.0, 0, [0.1] * 4, [True, False, True, True])
    bad = paper.Completion([1, 2, 3, 9], -1.0, 0, [0.1] * 4, [True, False, True, True])
    result = shape([good, bad])
    assert result.prefix_mask[0].tolist() == [True, True, True, False]
    assert result.token_weight[0].tolist() == [2.0, 0.0, 2.0, 1.0]


def test_an_invalid_row_may_hold_anything_and_moves_nothing():
    batch = [paper.Completion([1, 2], a, 0, [0.3, 0.3]) for a in (1.0, -1.0)]
    broken = paper.Completion([1, 2], math.nan, 0, [math.nan, math.nan], valid=False)
    with_it, without = shape([*batch, broken], entropy_penalty_center=True), shape(batch, entropy_penalty_center=True)
    assert with_it.advantages[:2].equal(without.advantages)
    assert with_it.advantages[2].tolist() == [0.0, 0.0]
    assert not with_it.kept[2]


NOT_FINITE = {
    "an entropy, centred": (1.0, math.nan, {"entropy_penalty_center": True}, "Row 1 has the mean entropy nan"),
    "an entropy that the filter would drop": (1.0, math.nan, {"entropy_filter": "all"}, "logits of the model"),
    "an entropy of a penalty alone": (1.0, math.inf, {"entropy_filter": "off"}, "Row 1 has the mean entropy inf"),
    "an advantage": (math.nan, 0.3, {}, r"Row 1 has the advantage nan \(1 of 3 rows\)\. Its reward"),
    "an advantage on skipped tokens": (-math.inf, 0.3, {}, "Row 1 has the advantage -inf"),
    "an advantage without entropies": (
        math.nan,
        math.nan,
        {"entropy_filter": "off", "entropy_penalty": 0.0},
        "Row 1 has the advantage nan",
    ),
}


@pytest.mark.parametrize(("advantage", "entropy", "knobs", "message"), NOT_FINITE.values(), ids=NOT_FINITE.keys())
def test_what_is_not_finite_in_a_valid_row_is_refused(advantage, entropy, knobs, message):
    batch = [paper.Completion([1, 2], a, 0, [0.3, e]) for a, e in ((1.0, 0.3), (advantage, entropy), (-1.0, 0.3))]
    with pytest.raises(gtpo.DataError, match=message):
        shape(batch, **knobs)


def test_entropies_that_nothing_uses_may_hold_anything():
    batch = [paper.Completion([1], a, 0, [math.nan]) for a in (1.0, -1.0)]
    assert shape(batch, entropy_filter="off", entropy_penalty=0.0).advantages.isfinite().all()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_initial_entropy_that_is_not_finite_is_refused(value):
    with pytest.raises(gtpo.ConfigError, match=f"initial_entropy must be a finite number, in nats, got {value}"):
        shape([paper.Completion([1], 1.0, 0, [0.1])], initial_entropy=value)


@settings(max_examples=50)
@given(BATCHES, KNOBS)
def test_valid_may_be_integers(batch, knobs):
    positional, masks = tensors(batch)
    config = gtpo.ShapingConfig(**knobs)
    as_integers = {**masks, "valid": masks["valid"].int()}
    got = gtpo.shape_advantages(*positional, initial_entropy=0.5, config=config, **as_integers)
    assert got.advantages.equal(shape(batch, **knobs).advantages)
    ids, mask, advantages, _, group_ids = positional
    conflicts = [gtpo.conflict_mask(ids, mask, advantages, group_ids, valid=v["valid"]) for v in (masks, as_integers)]
    assert conflicts[0].equal(conflicts[1])


def test_half_precision_entropies_are_averaged_in_single():
    token_entropy = torch.full((1, 3000), 0.1, dtype=torch.bfloat16)
    entropy = gtpo.completion_entropy(token_entropy, torch.ones(1, 3000, dtype=torch.bool))
    assert entropy.item() == pytest.approx(token_entropy[0, 0].item(), rel=1e-5)


def test_the_result_has_no_gradient():
    positional, masks = tensors([paper.Completion([1], a, 0, [0.3]) for a in (1.0, -1.0)])
    ids, mask, advantages, entropy, group_ids = positional
    result = gtpo.shape_advantages(
        ids, mask, advantages.requires_grad_(), entropy.requires_grad_(), group_ids, initial_entropy=0.1, **masks
    )
    assert not result.advantages.requires_grad


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("conflict_edges", "middle"),
        ("conflict_match", "fuzzy"),
        ("conflict_positive_weight", -1.0),
        ("conflict_negative_weight", 1.5),
        ("entropy_filter", "on"),
        ("entropy_threshold", 0.0),
        ("entropy_penalty", -0.1),
        ("entropy_penalty", math.nan),
        ("entropy_penalty", "0.1"),
        ("entropy_penalty_center", "false"),
        ("entropy_penalty_relative", "false"),
    ],
)
def test_a_wrong_option_is_refused_by_name_and_value(knob, value):
    with pytest.raises(gtpo.ConfigError, match=f"{knob} must be .*got {value!r}"):
        gtpo.ShapingConfig(**{knob: value})


@pytest.mark.usefixtures("unchecked_types")
def test_integer_advantages_and_mismatched_shapes_are_refused():
    (ids, mask, advantages, entropy, group_ids), masks = tensors([paper.Completion([1], a, 0, [0.3]) for a in (1, -1)])
    with pytest.raises(gtpo.DataError, match="must be floating point"):
        gtpo.shape_advantages(ids, mask, advantages.long(), entropy, group_ids, initial_entropy=0.1, **masks)
    with pytest.raises(gtpo.DataError, match=r"must all be \(B, T\)"):
        gtpo.shape_advantages(ids, mask, advantages, entropy[:, :0], group_ids, initial_entropy=0.1, **masks)


def test_the_auto_filter_without_an_initial_entropy_is_refused():
    with pytest.raises(gtpo.ConfigError, match="initial_entropy is None"):
        shape([paper.Completion([1], 1.0, 0, [0.1])], initial_entropy=None)


def test_a_completion_at_the_threshold_is_kept():
    batch = [paper.Completion([1], a, 0, [0.5]) for a in (1.0, -1.0)]
    assert shape(batch, 0.5, entropy_threshold=0.5).kept.tolist() == [True, True]
    assert shape(batch, 0.5, entropy_threshold=0.49, entropy_filter="all").kept.tolist() == [False, False]


def test_other_filters_need_no_initial_entropy():
    batch = [paper.Completion([1], a, 0, [1.0]) for a in (1.0, -1.0)]
    assert shape(batch, None, entropy_filter="negative").kept.tolist() == [True, False]
    assert shape(batch, None, entropy_filter="all").kept.tolist() == [False, False]
    assert shape(batch, None, entropy_filter="off").kept.tolist() == [True, True]


@pytest.mark.parametrize(("positive", "share"), [(2.0, 1.0), (1.0, 0.5), (0.0, 0.0)])
def test_a_prefix_that_all_completions_share_is_pushed_up_unless_its_positive_weight_is_0(positive, share):
    """docs/method.md: GRPO's advantages add up to 0 there. With λ⁻ = 0 they do so only if λ⁺ is 0 too."""
    ids = torch.tensor([[1, 2, 3], [1, 2, 4], [1, 2, 5], [1, 2, 6]])
    advantages = torch.tensor([3.0, 1.0, 0.0, -4.0])
    shaped = gtpo.shape_advantages(
        ids,
        torch.ones_like(ids),
        advantages,
        torch.full(ids.shape, 0.5),
        torch.zeros(4, dtype=torch.int64),
        initial_entropy=0.5,
        config=gtpo.ShapingConfig(conflict_edges="prefix", conflict_positive_weight=positive, entropy_penalty=0.0),
    )
    assert shaped.advantages.sum(0).tolist() == pytest.approx([share * 8.0, share * 8.0, 0.0])
