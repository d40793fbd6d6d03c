"""Options that TRL accepts and that cannot train are refused, in every configuration class that has them."""

import math

import numpy as np
import pytest
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.sft_config import SFTConfig

from gtpo import ConfigError, GTPOConfig
from gtpo.trl.checks import BOUNDS, CHOICES, check_training_options

OUT_OF_BOUNDS = {
    "per_device_train_batch_size": (0, "8"),
    "gradient_accumulation_steps": (0,),
    "num_generations": (1,),
    "num_iterations": (0,),
    "steps_per_generation": (0,),
    "max_completion_length": (0,),
    "adam_beta1": (1.0, -0.1),
    "adam_beta2": (1.5,),
    "learning_rate": (-1e-6, math.nan, math.inf),
    "beta": (-0.1,),
    "weight_decay": (-1.0,),
    "dataloader_num_workers": (-1,),
    "seed": (-1,),
    "temperature": (0.0, math.inf),
    "num_train_epochs": (0.0,),
    "max_steps": (0, -2),
}
FULL_PRECISION = {"bf16": False, "use_cpu": True}


def test_every_bound_is_tested():
    assert OUT_OF_BOUNDS.keys() == BOUNDS.keys()


@pytest.mark.parametrize("config_class", [GTPOConfig, GRPOConfig, SFTConfig])
@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_a_value_out_of_bounds_is_refused_by_name(config_class, name):
    config = config_class("unused", **FULL_PRECISION)
    if not hasattr(config, name):
        check_training_options(config)
        return
    for value in OUT_OF_BOUNDS[name]:
        setattr(config, name, value)
        with pytest.raises(ConfigError, match=f"^{name} must be .*, got {value!r}"):
            check_training_options(config)


def test_gtpo_config_checks_before_trl_computes_with_the_values():
    with pytest.raises(ConfigError, match=r"num_generations must be at least 2.*got 0"):
        GTPOConfig("unused", num_generations=0)
    with pytest.raises(ConfigError, match=r"learning_rate must be .*, got nan"):
        GTPOConfig("unused", learning_rate=math.nan)


def test_epochs_are_not_checked_where_max_steps_replaces_them():
    check_training_options(SFTConfig("unused", num_train_epochs=0, max_steps=5, **FULL_PRECISION))


def test_infinite_reward_weights_are_refused():
    with pytest.raises(ConfigError, match=r"reward_weights must be finite numbers, got \[1.0, inf\]"):
        GTPOConfig("unused", reward_weights=[1.0, math.inf])


@pytest.mark.parametrize("name", CHOICES)
def test_an_unknown_choice_of_grpo_is_refused(name):
    config = GRPOConfig("unused", **FULL_PRECISION)
    setattr(config, name, "nonsense")
    with pytest.raises(ConfigError, match=f"^{name} must be one of .*, got 'nonsense'"):
        check_training_options(config)


@pytest.mark.usefixtures("without_some_options")
def test_options_that_a_version_of_trl_lacks_are_not_checked():
    GTPOConfig("unused")
    check_training_options(GRPOConfig("unused", **FULL_PRECISION))


@pytest.fixture
def without_some_options(monkeypatch):
    """GRPOConfig without the options that GTPOConfig refuses or checks, and that it does not set itself."""
    gone = ("multi_objective_aggregation", "off_policy_mask_threshold", "entropy_coef", "use_adaptive_entropy")
    gone += ("vllm_mode", "vllm_importance_sampling_mode", "importance_sampling_level", "num_iterations")
    after = GRPOConfig.__post_init__

    def missing(config, name):
        if name in gone:
            raise AttributeError(name)
        return object.__getattribute__(config, name)

    def after_without_them(config):
        monkeypatch.setattr(GRPOConfig, "__getattribute__", object.__getattribute__)
        after(config)
        monkeypatch.setattr(GRPOConfig, "__getattribute__", missing)

    monkeypatch.setattr(GRPOConfig, "__post_init__", after_without_them)
    monkeypatch.setattr(GRPOConfig, "__getattribute__", missing)


def test_the_loss_types_of_sft_are_not_compared_with_those_of_grpo():
    check_training_options(SFTConfig("unused", loss_type="dft", **FULL_PRECISION))


def test_numpy_numbers_are_numbers():
    config = GTPOConfig("unused", seed=np.int64(3), learning_rate=np.float32(1e-5), num_generations=np.int64(8))
    assert (config.seed, config.num_generations) == (3, 8)
