"""Options that GTPOConfig refuses or warns about, and the precision that it chooses by hardware."""

import math

import pytest
import torch

from gtpo import ConfigError, GTPOConfig

REFUSED = {
    "loss_type": ("vespo",),
    "multi_objective_aggregation": ("normalize_then_sum",),
    "off_policy_mask_threshold": (0.5,),
}


@pytest.mark.parametrize(("option", "value"), [(o, v) for o, values in REFUSED.items() for v in values])
def test_an_option_that_does_not_fit_is_refused_with_reason_and_remedy(option, value):
    with pytest.raises(ConfigError, match=rf"(?s)GTPO does not support .*{option}.*Remedy: "):
        GTPOConfig("unused", **{option: value})


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("conflict_edges", "middle"),
        ("conflict_match", "fuzzy"),
        ("conflict_positive_weight", -1.0),
        ("conflict_negative_weight", 2.0),
        ("entropy_filter", "on"),
        ("entropy_threshold", -1.0),
        ("entropy_penalty", -0.1),
        ("initial_entropy", -1.0),
        ("initial_entropy", math.inf),
        ("initial_entropy_prompts", 0),
        ("entropy_penalty", "0.1"),
        ("initial_entropy", "0.5"),
        ("record_every", "10"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_a_wrong_value_is_refused_by_name(knob, value):
    with pytest.raises(ConfigError, match=f"{knob} must be .*got {value!r}"):
        GTPOConfig("unused", **{knob: value})


@pytest.mark.parametrize(
    ("options", "ignored"),
    [
        ({"credit": "balanced", "entropy_threshold": 0.5, "initial_entropy": 0.2}, "entropy_threshold=0.5, initial_e"),
        ({"credit": "prefix_baseline", "scale_rewards": "group"}, "scale_rewards='group'"),
        ({"credit": "tests.credit.own_schemes:halved", "conflict_edges": "none"}, "conflict_edges='none'"),
    ],
)
def test_an_option_that_the_scheme_does_not_use_is_warned_about_once(options, ignored, caplog):
    GTPOConfig("unused", **options)
    (record,) = caplog.records
    assert f"credit={options['credit']!r} does not use {ignored}" in record.message


@pytest.mark.parametrize(
    "options",
    [
        {"entropy_threshold": 0.5, "initial_entropy": 0.2, "scale_rewards": "group"},
        {"credit": "annealed", "entropy_threshold": 0.5, "initial_entropy": 0.2},
        {"credit": "negative", "scale_rewards": "group"},
        {"credit": "tests.credit.own_schemes:by_entropy", "initial_entropy": 0.2, "scale_rewards": "group"},
    ],
)
def test_an_option_that_the_scheme_uses_is_not_warned_about(options, caplog):
    GTPOConfig("unused", **options)
    assert not caplog.records


BAD_CREDIT = {
    "a name that does not exist": ({"credit": "fair"}, "There is no credit scheme 'fair'. Use grpo, gtpo, "),
    "a parameter that is missing": ({"credit": "pass_at_k"}, "'pass_at_k' needs the parameter 'right_at'"),
    "a value out of range": (
        {"credit": "prefix_baseline", "credit_parameters": {"kappa": -1}},
        "kappa must be a finite number ≥ 0, got -1.0",
    ),
    "an option of GTPO as a parameter": (
        {"credit_parameters": {"entropy_penalty": 0.2}},
        "entropy_penalty is an option of its own. Set it there",
    ),
    "a function that does not exist": ({"credit": "tests.nowhere:f"}, "'tests.nowhere:f' cannot be imported"),
    "a function that does not name an input": (
        {"credit": "tests.credit.own_schemes:forgets_needs"},
        r"raised TypeError.*Of the optional inputs it gets those in its attribute `needs` \(none\)",
    ),
    "a function that fails": (
        {"credit": "tests.credit.own_schemes:fails"},
        r"own_schemes:fails' raised ZeroDivisionError: always \(line \d+ of .*tried on a batch of two completions",
    ),
}


@pytest.mark.parametrize(("options", "message"), BAD_CREDIT.values(), ids=BAD_CREDIT.keys())
def test_a_credit_scheme_that_cannot_work_is_refused_before_the_first_batch(options, message):
    with pytest.raises(ConfigError, match=message):
        GTPOConfig("unused", **options).choose_credit()


def test_an_entropy_target_above_the_threshold_is_warned_about(caplog):
    GTPOConfig("unused", use_adaptive_entropy=True, entropy_target=0.6)
    GTPOConfig("unused", use_adaptive_entropy=True, entropy_target=0.8, entropy_filter="off")
    GTPOConfig("unused", entropy_target=0.8)
    assert not caplog.records
    GTPOConfig("unused", use_adaptive_entropy=True, entropy_target=0.8)
    assert "entropy_target=0.8 is above entropy_threshold=0.693" in caplog.text


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has an accelerator")
def test_without_an_accelerator_the_precision_is_fp32():
    config = GTPOConfig("unused")
    assert (config.bf16, config.fp16) == (False, False)


def test_with_bf16_hardware_the_precision_is_bf16_unless_fp16_is_set(monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    monkeypatch.setattr("gtpo.trl.config.is_torch_bf16_gpu_available", lambda: True)
    monkeypatch.setattr("transformers.TrainingArguments.__post_init__", lambda self: None)
    monkeypatch.setattr("trl.GRPOConfig.__post_init__", lambda self: None)
    assert GTPOConfig("unused").bf16 is True
    assert GTPOConfig("unused", fp16=True).bf16 is False
    assert GTPOConfig("unused", use_cpu=True).bf16 is False
    monkeypatch.setattr("gtpo.trl.config.is_torch_bf16_gpu_available", lambda: False)
    assert GTPOConfig("unused").bf16 is False
