"""An arm differs from GTPO, or from GRPO, only in the options that it names."""

import dataclasses

import pytest

from experiments.lab.arms import ARMS, GROUPS, select_arms
from experiments.lab.settings import SETTINGS, train_options
from gtpo.core.config import ShapingConfig
from gtpo.training.config.plan import plan_from
from gtpo.training.config.recipe import Setting as Option
from gtpo.training.config.recipe import load_recipe
from gtpo.training.config.settings import LAB_RECIPE

KNOBS = [field.name for field in dataclasses.fields(ShapingConfig)]
TRAINED = [name for name, arm in ARMS.items() if arm.method != "none"]
EXPECTED = {
    "gtpo": {},
    "grpo-entropy": {"conflict_edges": "none"},
    "grpo-conflicts": {"entropy_filter": "off", "entropy_penalty": 0.0},
    "gamma-0": {"entropy_penalty": 0.0},
    "gamma-0.001": {"entropy_penalty": 0.001},
    "centred": {"entropy_penalty_center": True},
    "threshold-0.7": {"entropy_threshold": 0.7},
    "threshold-1.05": {"entropy_threshold": 1.05},
    "threshold-2": {"entropy_threshold": 2.0},
    "filter-off": {"entropy_filter": "off"},
    "filter-all": {"entropy_filter": "all"},
    "filter-negative": {"entropy_filter": "negative"},
    "prefix": {"conflict_edges": "prefix"},
    "suffix": {"conflict_edges": "suffix"},
    "protect": {"conflict_positive_weight": 1.0},
    "skip": {"conflict_positive_weight": 0.0},
    "match-prefix": {"conflict_match": "prefix"},
    "annealed": {"credit": "annealed"},
    "balanced": {"credit": "balanced"},
    "component": {"credit": "component"},
    "process-sets": {"credit": "process_sets"},
    "prefix-baseline": {"credit": "prefix_baseline"},
    "negative": {"credit": "negative"},
    "pass-at-k": {"credit": "pass_at_k", "credit_parameters": {"right_at": 20}},
    "gtpo-slow-adam": {"adam_beta1": 0.999999, "adam_beta2": 0.999999},
}


def config(setting, arm):
    """The checked configuration that `gtpo train` would train with."""
    options = {name: Option(value, "test") for name, value in train_options(setting, arm).items()}
    options["output_dir"] = Option("runs/nowhere", "test")
    return plan_from({**load_recipe(LAB_RECIPE, ARMS[arm].method), **options}).config


def values(made):
    """Every option except names and objects that are created for each configuration."""
    return {
        field.name: getattr(made, field.name)
        for field in dataclasses.fields(made)
        if field.name not in ("output_dir", "logging_dir", "run_name", "accelerator_config", "deepspeed_plugin")
    }


@pytest.mark.parametrize("arm", EXPECTED)
def test_an_arm_of_gtpo_differs_from_gtpo_only_in_its_options(arm):
    ours, full = values(config("comfortable", arm)), values(config("comfortable", "gtpo"))
    assert {name: ours[name] for name in full if ours[name] != full[name]} == EXPECTED[arm]


def test_every_arm_of_gtpo_is_expected_above():
    assert {name for name, arm in ARMS.items() if arm.method == "gtpo"} == set(EXPECTED)


def test_the_two_grpo_baselines_differ_only_in_the_kl_weight():
    plain, with_kl = values(config("comfortable", "grpo")), values(config("comfortable", "grpo-kl"))
    assert {name for name in plain if plain[name] != with_kl[name]} == {"beta"}
    assert (plain["beta"], with_kl["beta"]) == (0.0, 1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_grpo_and_gtpo_share_every_option_that_grpo_has(setting):
    grpo, full = values(config(setting, "grpo")), values(config(setting, "gtpo"))
    assert {name for name in grpo if grpo[name] != full[name]} == set()
    assert set(full) - set(grpo) >= set(KNOBS)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("arm", TRAINED)
def test_every_arm_is_accepted_in_every_setting(setting, arm):
    chosen = SETTINGS[setting]
    expected = (chosen.sft_options or chosen.options) if arm == "sft" else chosen.options
    made = config(setting, arm)
    assert {name: getattr(made, name) for name in expected if hasattr(made, name)}.items() <= expected.items()
    assert made.max_steps == expected["max_steps"]


def test_the_groups_contain_every_arm():
    assert set(select_arms("all")) == set(ARMS)
    assert select_arms("main") == list(GROUPS["main"])
    assert GROUPS["main"] == ("base", "grpo", "gtpo", "grpo-entropy", "grpo-conflicts")
