"""What is refused of inputs, parameters and functions, each with a sentence that says what to do."""

import dataclasses
import math

import pytest
import torch

import gtpo
from gtpo.credit import SCHEMES, CreditInput, find_scheme, token_advantages
from tests.credit import own_schemes

IDS = torch.tensor([[1, 2, 3], [1, 2, 0]])
GROUP = torch.tensor([0, 0])
INPUTS = CreditInput(IDS, IDS > 0, torch.tensor([1.0, -1.0]), GROUP, rewards=torch.tensor([1.0, 0.0]))


def changed(**fields):
    return dataclasses.replace(INPUTS, **fields)


BAD_INPUTS = {
    "advantages of another size": ({"advantages": torch.ones(3)}, r"must all be \(B, T\).*advantages \(3,\)"),
    "rewards of another size": ({"rewards": torch.ones(3)}, r"rewards \(3,\)"),
    "entropies of another size": ({"token_entropy": torch.ones(2, 4)}, r"token_entropy \(2, 4\)"),
    "components without columns": (
        {"component_advantages": torch.ones(2)},
        r"must be \(B, F\).*got \(2,\) for 2 rows",
    ),
    "too many rows of components": ({"component_advantages": torch.ones(3, 2)}, r"got \(3, 2\) for 2 rows"),
    "whole advantages": ({"advantages": torch.tensor([1, -1])}, r"advantages must be floating point.*\.float\(\)"),
    "whole rewards": ({"rewards": torch.tensor([1, 0])}, "rewards must be floating point"),
    "an advantage that is nan": ({"advantages": torch.tensor([1.0, math.nan])}, "of row 1 is nan. Set valid to False"),
    "an infinite reward": ({"rewards": torch.tensor([math.inf, 0.0])}, "rewards of row 0 is inf"),
    "a component that is nan": ({"component_advantages": torch.tensor([[0.0], [math.nan]])}, r"of row 1 is \[nan\]"),
    "a mask with holes": ({"completion_mask": torch.tensor([[1, 0, 1], [1, 1, 0]])}, "padded on the right"),
    "an entropy that is nan": (
        {"token_entropy": torch.tensor([[0.1, 0.1, 0.1], [0.1, math.nan, 0.1]])},
        r"token_entropy of row 1 is not finite \(1 of 2 rows\)",
    ),
    "an initial entropy that is nan": (
        {"initial_entropy": math.nan},
        "initial_entropy is nan: pass the measured mean",
    ),
    "an infinite batch entropy": ({"batch_entropy": math.inf}, "batch_entropy is inf"),
}


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(("fields", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS.keys())
def test_bad_inputs_are_refused(fields, message):
    with pytest.raises(gtpo.DataError, match=message):
        changed(**fields)


@pytest.mark.parametrize("judge", [-2, 2])
def test_a_token_judged_by_a_reward_that_does_not_exist_is_refused(judge):
    judges = torch.tensor([[0, 1, judge], [0, 1, 99]])  # 99 is on padding
    inputs = changed(component_advantages=torch.ones(2, 2), token_component=judges)
    with pytest.raises(gtpo.DataError, match=r"token_component must be between -1 and 1.* 2 column\(s\)"):
        token_advantages("component", inputs)


BAD_PARAMETERS = {
    "an unknown name": ("balanced", {"kappa": 1.0}, "'balanced' has no parameter 'kappa'. Its parameters: none."),
    "an unknown name among others": (
        "prefix_baseline",
        {"kapa": 1},
        "has no parameter 'kapa'. Its parameters: kappa.",
    ),
    "a missing one": (
        "pass_at_k",
        {"k": 2},
        "'pass_at_k' needs the parameter 'right_at'. Pass right_at=…, to a trainer in",
    ),
    "a word for a number": ("negative", {"positive_scale": "a lot"}, "must be a number, got 'a lot'"),
    "a word for a switch": (
        "gtpo",
        {"entropy_penalty_center": "no"},
        "type of its default False, got 'no'",
    ),
    "a switch for a number": ("gtpo", {"entropy_penalty": True}, "must be a number, got True"),
    "a number for a word": ("gtpo", {"conflict_edges": 2}, "conflict_edges must be one of 'both'"),
    "an unknown choice": ("gtpo", {"entropy_filter": "some"}, "entropy_filter must be one of 'auto'"),
    "a negative scale": ("negative", {"positive_scale": -0.1}, "positive_scale must be a finite number ≥ 0, got -0.1"),
    "a scale that is nan": ("negative", {"positive_scale": math.nan}, "positive_scale must be"),
    "a negative kappa": ("prefix_baseline", {"kappa": -1.0}, "kappa must be a finite number ≥ 0, got -1.0"),
    "an infinite kappa": ("prefix_baseline", {"kappa": math.inf}, "kappa must be a finite number"),
    "a negative until": ("annealed", {"until": -1}, "until must be a finite number ≥ 0"),
    "no completions": ("pass_at_k", {"k": 0, "right_at": 1.0}, "k must be a whole number ≥ 1, got 0"),
    "half a completion": ("pass_at_k", {"k": 1.5, "right_at": 1.0}, "k must be a whole number ≥ 1, got 1.5"),
    "a threshold that is nan": ("pass_at_k", {"right_at": math.nan}, "right_at must be a finite number, the lowest"),
    "a word for a threshold": ("pass_at_k", {"right_at": "1"}, "right_at must be a finite number, the lowest"),
    "a name that does not exist": ("balancd", {}, "There is no credit scheme 'balancd'. Use grpo, gtpo, annealed"),
    "a module that does not exist": ("no_such_module:f", {}, "Credit scheme 'no_such_module:f' cannot be imported"),
    "a number by name": ("tests.credit.own_schemes:not_a_function", {}, "is of type int, not a function"),
    "a number": (3, {}, "A credit scheme is a name or a function, got 3. Names: grpo, gtpo"),
}


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(("scheme", "parameters", "message"), BAD_PARAMETERS.values(), ids=BAD_PARAMETERS.keys())
def test_bad_parameters_and_names_are_refused(scheme, parameters, message):
    inputs = changed(token_entropy=torch.ones(2, 3), initial_entropy=0.5, batch_entropy=0.5)
    with pytest.raises(gtpo.ConfigError, match=message):
        token_advantages(scheme, inputs, **parameters)


BAD_FUNCTIONS = {
    "one value per row": (lambda inputs: inputs.advantages, r"of shape \(2, 3\), got torch.float32 of \(2,\)"),
    "whole numbers": (lambda inputs: inputs.completion_ids, r"floating-point tensor.*got torch.int64 of \(2, 3\)"),
    "nothing": (lambda inputs: None, "got NoneType"),
    "nan": (lambda inputs: torch.full((2, 3), math.nan), "returned NaN or infinity for a trained token"),
}


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(("function", "message"), BAD_FUNCTIONS.values(), ids=BAD_FUNCTIONS.keys())
def test_a_function_that_returns_something_else_is_refused(function, message):
    with pytest.raises(gtpo.DataError, match=message):
        token_advantages(function, INPUTS)


def test_what_a_function_returns_where_nothing_is_trained_is_ignored():
    poisoned = torch.where(INPUTS.trained, 1.0, math.nan).requires_grad_()
    credit = token_advantages(lambda inputs: poisoned, INPUTS)
    assert credit.tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
    assert not credit.requires_grad


@pytest.mark.parametrize("scheme", [own_schemes.halved, "tests.credit.own_schemes:halved"])
def test_a_function_may_be_given_itself_or_by_name(scheme):
    assert token_advantages(scheme, INPUTS).tolist() == [[0.5, 0.5, 0.5], [-0.5, -0.5, 0.0]]
    assert token_advantages(scheme, INPUTS, share=0.25)[0, 0] == 0.25
    assert token_advantages(scheme, INPUTS, exempt=True)[0, 0] == 1.0
    with pytest.raises(gtpo.ConfigError, match="'halved' has no parameter 'part'"):
        token_advantages(scheme, INPUTS, part=1)


def test_a_function_lists_the_inputs_that_it_needs():
    assert find_scheme(own_schemes.by_entropy).needs == ("token_entropy",)
    with pytest.raises(gtpo.DataError, match="needs token_entropy, which is None"):
        token_advantages(own_schemes.by_entropy, INPUTS)

    def reads_minds(inputs):
        return inputs.advantages

    reads_minds.needs = ("thoughts",)
    with pytest.raises(gtpo.ConfigError, match=r"'reads_minds' needs 'thoughts'\. It can need: rewards, "):
        find_scheme(reads_minds)


def test_the_table_of_schemes_lists_parameters_with_their_defaults():
    names = "grpo gtpo annealed balanced component process_sets prefix_baseline negative pass_at_k"
    assert " ".join(SCHEMES) == names
    shaping = dataclasses.asdict(gtpo.ShapingConfig())
    parameters = {name: dict(scheme.parameters) for name, scheme in SCHEMES.items() if scheme.parameters}
    assert parameters.pop("pass_at_k").keys() == {"k", "right_at"}
    assert parameters == {
        "gtpo": shaping,
        "annealed": {"until": 0.5, **shaping},
        "prefix_baseline": {"kappa": 4.0},
        "negative": {"positive_scale": 0.1},
    }
    assert all(scheme.source for scheme in SCHEMES.values())
