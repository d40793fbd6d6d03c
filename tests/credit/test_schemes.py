"""Every scheme against the loops of tests/oracle, and the properties that all of them have."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gtpo
from gtpo.credit import SCHEMES, CreditInput, token_advantages
from tests.core.rollouts import KNOBS
from tests.credit.rollouts import (
    BATCHES,
    ENTROPIES,
    PARAMETERS,
    SCHEMES_AND_PARAMETERS,
    credit_input,
    credit_of,
    random_batch,
)
from tests.oracle import credit as oracle

EVERY = pytest.mark.parametrize("scheme", SCHEMES)
NEEDED_BY_LOOPS = {"gtpo": {"initial_entropy": 0.5}, "annealed": ENTROPIES}
REQUIRED = {"pass_at_k": {"right_at": 1.0, "k": 2}}


def approx(rows):
    return [pytest.approx(row, abs=2e-6) for row in rows]


@EVERY
@settings(max_examples=60)
@given(batch=BATCHES, data=st.data())
def test_equals_its_formula_in_plain_loops(scheme, batch, data):
    parameters = data.draw(st.fixed_dictionaries(PARAMETERS[scheme]))
    loops = {**parameters, **NEEDED_BY_LOOPS.get(scheme, {})}
    expected = [oracle.credit(getattr(oracle, scheme), batch, rollout, **loops) for rollout in batch]
    assert credit_of(scheme, batch, **parameters) == approx(expected)


@settings(max_examples=60)
@given(BATCHES, KNOBS)
def test_gtpo_equals_shape_advantages_bit_for_bit(batch, knobs):
    inputs = credit_input(batch)
    shaped = gtpo.shape_advantages(
        inputs.completion_ids,
        inputs.completion_mask,
        inputs.advantages,
        inputs.token_entropy,
        inputs.group_ids,
        initial_entropy=0.5,
        loss_mask=inputs.loss_mask,
        valid=inputs.valid,
        config=gtpo.ShapingConfig(**knobs),
    )
    assert token_advantages("gtpo", inputs, **knobs).equal(shaped.advantages)
    assert token_advantages("annealed", inputs, until=0.0, **knobs).equal(shaped.advantages)


@settings(max_examples=90)
@given(SCHEMES_AND_PARAMETERS, BATCHES, st.integers(1, 4))
def test_padding_and_integer_type_change_nothing(scheme_and_parameters, batch, extra):
    scheme, parameters = scheme_and_parameters
    wide = credit_of(scheme, batch, {"extra_padding": extra, "ids_dtype": torch.int32}, **parameters)
    assert wide == approx(credit_of(scheme, batch, **parameters))


@settings(max_examples=90)
@given(SCHEMES_AND_PARAMETERS, BATCHES, st.randoms())
def test_row_order_changes_nothing(scheme_and_parameters, batch, random):
    scheme, parameters = scheme_and_parameters
    order = list(range(len(batch)))
    random.shuffle(order)
    straight = credit_of(scheme, batch, **parameters)
    assert credit_of(scheme, [batch[i] for i in order], **parameters) == approx([straight[i] for i in order])


@settings(max_examples=90)
@given(SCHEMES_AND_PARAMETERS, BATCHES)
def test_a_group_does_not_depend_on_other_groups(scheme_and_parameters, batch):
    scheme, parameters = scheme_and_parameters
    rows = [row for row, rollout in enumerate(batch) if rollout.group == batch[0].group]
    together = credit_of(scheme, batch, **parameters)
    assert credit_of(scheme, [batch[row] for row in rows], **parameters) == approx([together[row] for row in rows])


@settings(max_examples=90)
@given(SCHEMES_AND_PARAMETERS, BATCHES)
def test_an_invalid_row_may_hold_anything_and_counts_nowhere(scheme_and_parameters, batch):
    scheme, parameters = scheme_and_parameters
    nan = {"advantage": math.nan, "reward": math.nan, "components": [math.nan] * 3, "valid": False}
    broken = dataclasses.replace(batch[0], entropies=[math.nan] * len(batch[0].tokens), **nan)
    with_it = credit_of(scheme, [*batch, broken], **parameters)
    assert with_it == approx([*credit_of(scheme, batch, **parameters), [0.0] * len(broken.tokens)])


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_result_has_the_type_and_the_device_of_the_advantages(scheme, dtype):
    for seed in range(20):
        batch = random_batch(seed)
        inputs = credit_input(batch, dtype=dtype)
        credit = token_advantages(scheme, inputs, **REQUIRED.get(scheme, {}))
        assert (credit.dtype, credit.device) == (dtype, inputs.advantages.device)
        exact = token_advantages(scheme, credit_input(batch, dtype=torch.float64), **REQUIRED.get(scheme, {}))
        tolerance = 0.05 if dtype == torch.bfloat16 else 1e-6
        assert credit.double().allclose(exact, atol=tolerance)


@EVERY
def test_no_gradient_flows_and_no_input_changes(scheme):
    inputs = credit_input(random_batch(3))
    leaves = {
        name: getattr(inputs, name).clone().requires_grad_()
        for name in ("advantages", "rewards", "component_advantages", "token_entropy")
    }
    before = {field.name: getattr(inputs, field.name) for field in dataclasses.fields(inputs)}
    copies = {name: value.clone() for name, value in before.items() if isinstance(value, torch.Tensor)}
    credit = token_advantages(scheme, CreditInput(**{**before, **leaves}), **REQUIRED.get(scheme, {}))
    assert credit.abs().sum() > 0
    assert not credit.requires_grad
    assert all(before[name].equal(copy) for name, copy in copies.items())


@EVERY
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0)])
def test_batches_without_rows_or_tokens_are_accepted(scheme, shape):
    ids, rows = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape[0])
    inputs = CreditInput(
        ids,
        ids,
        rows,
        rows.long(),
        rewards=rows,
        component_advantages=torch.zeros(shape[0], 2),
        token_component=ids,
        token_entropy=ids.float(),
        **ENTROPIES,
    )
    assert token_advantages(scheme, inputs, **REQUIRED.get(scheme, {})).shape == shape


@EVERY
def test_it_needs_exactly_the_inputs_that_it_lists(scheme):
    everything = credit_input(random_batch(3))
    optional = {"rewards", "component_advantages", "token_component", "token_entropy", *ENTROPIES}
    parameters = REQUIRED.get(scheme, {}) if scheme != "gtpo" else {"entropy_filter": "off"}
    needs = set(SCHEMES[scheme].needs)
    least = dataclasses.replace(everything, **dict.fromkeys(optional - needs))
    assert token_advantages(scheme, least, **parameters).equal(token_advantages(scheme, everything, **parameters))
    for name in needs:
        without = dataclasses.replace(everything, **{name: None})
        with pytest.raises(gtpo.DataError, match=f"needs {name}, which is None. Pass the "):
            token_advantages(scheme, without, **parameters)
        with pytest.raises(gtpo.DataError, match=f"needs {name}, which is None. Pass the "):
            SCHEMES[scheme].function(without, **parameters)
