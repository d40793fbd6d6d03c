"""What GTPO relies on in verl. An upgrade that breaks one of these breaks GTPO. Run by `make test-verl`."""

import inspect
import re

import pytest

pytest.importorskip("verl")

import torch
from omegaconf import OmegaConf
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1 import PPOTrainerSync, trainer_base
from verl.workers.config import ActorConfig

import verl
from gtpo import ConfigError
from gtpo.verl.config import read_settings
from gtpo.verl.trainer import GTPOTrainerSync
from tests.verl.stored import COMMAND, SIZES, composed

OVERRIDDEN = {"_compute_advantage", "_save_checkpoint", "_load_checkpoint"}


def test_the_version():
    assert verl.__version__ == "0.9.1"


def test_only_these_methods_of_the_parent_are_overridden_and_none_is_copied():
    theirs = {name for parent in PPOTrainerSync.__mro__ for name in vars(parent)}
    methods = {name for name, value in vars(GTPOTrainerSync).items() if inspect.isfunction(value)}
    assert {name for name in methods & theirs if not name.startswith("__")} == OVERRIDDEN
    for name in OVERRIDDEN:
        assert f"super().{name}(" in inspect.getsource(getattr(GTPOTrainerSync, name))
        ours, parents = getattr(GTPOTrainerSync, name), getattr(PPOTrainerSync, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(parents).parameters)


def test_the_trainer_mode_is_compared_with_sync_and_is_a_key_of_the_configuration():
    source = inspect.getsource(trainer_base)
    assert len(re.findall(r'self\.trainer_mode [=!]= "sync"', source)) == 6
    assert "self.config.trainer.v1.get(self.trainer_mode" in source


def test_a_step_computes_entropies_before_advantages():
    step = inspect.getsource(PPOTrainerSync._step_once)
    stages = [
        "_balance_batch(",
        "_compute_old_log_prob(",
        "_compute_ref_log_prob(",
        "_compute_advantage(",
        "_update_actor(",
    ]
    positions = [step.index(stage) for stage in stages]
    assert positions == sorted(positions)
    old = inspect.getsource(PPOTrainerSync._compute_old_log_prob)
    assert '"calculate_entropy": True' in old
    assert 'data.select("old_log_probs", "entropy")' in old
    assert '"calculate_entropy": False' in inspect.getsource(PPOTrainerSync._compute_ref_log_prob)


def test_the_command_must_set_options_whose_defaults_in_verl_do_not_fit():
    for left_out in COMMAND:
        given = [option for option in [*COMMAND, *SIZES] if option != left_out]
        config = OmegaConf.to_container(composed(given), resolve=True)
        if "trainer_mode" in left_out:
            assert config["trainer"]["v1"]["trainer_mode"] == "sync"
        else:
            with pytest.raises(ConfigError, match=re.escape(left_out.split("=")[0])):
                read_settings(config)


def actor_config():
    return ActorConfig(
        strategy="fsdp2",
        rollout_n=4,
        ppo_micro_batch_size_per_gpu=1,
        ppo_mini_batch_size=4,
        loss_agg_mode="seq-mean-token-mean",
    )


def test_on_policy_the_gradient_of_the_loss_is_the_gradient_of_the_formula():
    """1/N Σ_i 1/|o_i| Σ_t Ã_it, for weights of either sign and zero; filtered rows stay in the mean."""
    torch.manual_seed(0)
    lengths = torch.tensor([5, 3, 1, 4])
    mask = torch.arange(5) < lengths.unsqueeze(1)
    advantages = torch.randn(4, 5) * mask
    advantages[1] = 0.0
    logps = torch.randn(4, 5)
    current = logps.clone().requires_grad_()
    loss, _ = core_algos.get_policy_loss_fn("vanilla")(
        logps, current, advantages, mask, "seq-mean-token-mean", config=actor_config()
    )
    loss.backward()
    torch.testing.assert_close(current.grad, -advantages / lengths.unsqueeze(1) / 4)
