"""Settings are read by name, and options of verl that GTPO cannot honour are refused. Needs no verl."""

import dataclasses
import math

import pytest

from gtpo import ConfigError, ShapingConfig
from gtpo.verl.config import Settings, read_settings


def options(**changes):
    """The relevant part of verl's configuration, as the documented command sets it; __ stands for a dot."""
    config = {
        "algorithm": {"adv_estimator": "gtpo", "norm_adv_by_std_in_grpo": False, "use_kl_in_reward": False},
        "actor_rollout_ref": {
            "actor": {
                "loss_agg_mode": "seq-mean-token-mean",
                "entropy_coeff": 0,
                "policy_loss": {"loss_mode": "vanilla"},
            },
            "rollout": {"n": 4, "multi_turn": {"enable": False}},
        },
        "critic": {"enable": None},
        "distillation": {"enabled": False},
    }
    for name, value in changes.items():
        *path, last = name.split("__")
        section = config
        for key in path:
            section = section.setdefault(key, {})
        section[last] = value
    return config


def test_the_defaults_are_those_of_the_paper():
    assert read_settings(options()) == Settings(**vars(ShapingConfig()))


def test_settings_have_the_names_and_the_defaults_of_the_trl_host():
    pytest.importorskip("trl", reason="compared with GTPOConfig by `make test`")
    from gtpo import GTPOConfig

    trl_config = GTPOConfig("unused")
    for name, value in vars(Settings()).items():
        assert getattr(trl_config, name) == value


def test_every_setting_is_read():
    given = {
        "conflict_edges": "suffix",
        "conflict_match": "prefix",
        "conflict_positive_weight": 1,
        "conflict_negative_weight": 0.5,
        "entropy_filter": "negative",
        "entropy_threshold": 0.7,
        "entropy_penalty": 0,
        "entropy_penalty_center": True,
        "entropy_penalty_relative": True,
        "initial_entropy": 0.3,
        "initial_entropy_prompts": 8,
        "credit": "negative",
        "credit_parameters": {"positive_scale": 0.5},
    }
    assert list(given) == [field.name for field in dataclasses.fields(Settings)]
    settings, credit = read_settings(options(algorithm__gtpo=given)), ("negative", {"positive_scale": 0.5})
    assert settings == Settings("suffix", "prefix", 1.0, 0.5, "negative", 0.7, 0.0, True, True, 0.3, 8, *credit)
    assert settings.choose_credit().parameters == {"positive_scale": 0.5}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("entropy_penalty", "high"),
        ("entropy_penalty", -0.1),
        ("entropy_penalty", True),
        ("entropy_threshold", None),
        ("entropy_filter", False),  # YAML parses a bare `off` as false
        ("entropy_filter", "some"),
        ("entropy_penalty_center", 1),
        ("conflict_negative_weight", 2.0),
        ("initial_entropy", math.inf),
        ("initial_entropy", "low"),
        ("initial_entropy_prompts", 0),
        ("initial_entropy_prompts", 1.5),
        ("credit_parameters", "kappa"),
    ],
)
def test_a_bad_value_is_refused_with_its_name(name, value, unchecked_types):
    with pytest.raises(ConfigError, match=name):
        read_settings(options(algorithm__gtpo={name: value}))


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"no setting 'gamma'.*conflict_edges, .*initial_entropy_prompts"):
        read_settings(options(algorithm__gtpo={"gamma": 0.1}))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"algorithm__adv_estimator": "grpo"}, "algorithm.adv_estimator='grpo'"),
        ({"algorithm__rollout_correction__bypass_mode": True}, "bypass_mode=True"),
        ({"actor_rollout_ref__rollout__multi_turn__enable": True}, "multi_turn.enable=True"),
        ({"algorithm__use_kl_in_reward": True}, "use_kl_in_reward=True"),
        ({"algorithm__norm_adv_by_std_in_grpo": True}, "norm_adv_by_std_in_grpo=True"),
        ({"actor_rollout_ref__actor__loss_agg_mode": "token-mean"}, "loss_agg_mode='token-mean'"),
        ({"actor_rollout_ref__actor__policy_loss__loss_mode": "gspo"}, "loss_mode='gspo'"),
        ({"actor_rollout_ref__actor__entropy_coeff": 0.01}, "entropy_coeff=0.01"),
        ({"actor_rollout_ref__rollout__n": 1}, "rollout.n=1"),
        ({"critic__enable": True}, "critic.enable=True"),
        ({"distillation__enabled": True}, "distillation.enabled=True"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_option_that_does_not_fit_is_refused_with_a_remedy(change, named):
    with pytest.raises(ConfigError) as caught:
        read_settings(options(**change))
    assert named in str(caught.value)
    assert "Remedy: " in str(caught.value)


def test_the_decoupled_rollout_correction_is_accepted():
    corrected = options(algorithm__rollout_correction={"bypass_mode": False, "rollout_is": "token"})
    assert read_settings(corrected) == read_settings(options())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"credit": "component"}, r"credit='component': it needs the rewards of each reward function.*Remedy: "),
        ({"credit": "fair"}, "There is no credit scheme 'fair'"),
        ({"credit": "negative", "credit_parameters": {"kappa": 1}}, "'negative' has no parameter 'kappa'"),
    ],
)
def test_a_credit_scheme_that_verl_cannot_serve_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        read_settings(options(algorithm__gtpo=given)).choose_credit()
