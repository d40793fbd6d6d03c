"""The initial entropy is measured once, stored in checkpoints and restored on resume."""

import json

import pytest
import torch

from gtpo import ConfigError, GTPOTrainer
from gtpo.trl.state import STATE_NAME
from tests.trl.checked import last_log, parity_reward, prompts, settings, train
from trl import GRPOConfig, GRPOTrainer


def options(tmp_path, **overrides):
    saving = {"save_strategy": "steps", "save_steps": 2, "initial_entropy": None, "trainer": GTPOTrainer}
    return settings(tmp_path, **{**saving, **overrides})


def test_it_is_a_running_mean_over_prompts_and_then_frozen(tiny_model, tmp_path):
    entropies = []

    class Watched(GTPOTrainer):
        def _log_credit(self, rows, credit, shaped, more):
            entropies.append(shaped.entropy)
            super()._log_credit(rows, credit, shaped, more)

    trainer = train(tiny_model, **options(tmp_path, trainer=Watched, initial_entropy_prompts=3))
    used = [entry["gtpo/initial_entropy"] for entry in trainer.state.log_history if "loss" in entry]
    after_one, after_two = entropies[0].mean().item(), torch.cat(entropies[:2]).mean().item()
    assert used == pytest.approx([after_one, after_two, after_two, after_two], rel=1e-5)
    assert after_one != pytest.approx(after_two, rel=1e-4)


@pytest.mark.parametrize("restore_callbacks", [False, True])
@pytest.mark.parametrize("prompts_needed", [2, 32])
def test_a_resumed_run_continues_with_it(prompts_needed, restore_callbacks, tiny_model, tmp_path):
    knobs = {"initial_entropy_prompts": prompts_needed, "restore_callback_states_from_checkpoint": restore_callbacks}
    first = train(tiny_model, **options(tmp_path, max_steps=2, **knobs))
    before = first.initial_entropy
    resumed = train(tiny_model, **options(tmp_path, resume_from_checkpoint=True, **knobs))
    assert resumed.state.global_step == 4
    if prompts_needed == 2:
        assert resumed.initial_entropy.value == before.value
        assert last_log(resumed)["gtpo/initial_entropy"] == before.value
    else:
        assert resumed.initial_entropy.num_prompts == 8  # 2 per step, and the 4 of the checkpoint
    saved = json.loads((tmp_path / "checkpoint-4/trainer_state.json").read_text())["stateful_callbacks"]
    assert saved[STATE_NAME]["args"]["total_entropy"] == resumed.initial_entropy.total_entropy


def test_a_value_set_on_resume_overrides_the_measured_value(tiny_model, tmp_path):
    train(tiny_model, **options(tmp_path, max_steps=2))
    resumed = train(tiny_model, **options(tmp_path, resume_from_checkpoint=True, initial_entropy=0.4))
    assert last_log(resumed)["gtpo/initial_entropy"] == 0.4


def test_additional_entries_of_an_older_version_are_ignored(tiny_model, tmp_path):
    knobs = {"initial_entropy_prompts": 2}
    first = train(tiny_model, **options(tmp_path, max_steps=2, **knobs))
    path = tmp_path / "checkpoint-2/trainer_state.json"
    state = json.loads(path.read_text())
    state["stateful_callbacks"][STATE_NAME]["args"]["is_needed"] = True
    path.write_text(json.dumps(state))
    (tmp_path / "checkpoint-2/complete").write_text('{"num_processes": 1, "files": {}}')  # nothing to compare with
    resumed = train(tiny_model, **options(tmp_path, resume_from_checkpoint=str(path.parent), **knobs))
    assert resumed.initial_entropy.value == first.initial_entropy.value


def write_grpo_checkpoint(tiny_model, tmp_path):
    grpo_options = settings(tmp_path, save_strategy="steps", save_steps=2, max_steps=2)
    for name in ("entropy_threshold", "initial_entropy"):
        grpo_options.pop(name)
    GRPOTrainer(tiny_model, parity_reward, GRPOConfig(bf16=False, **grpo_options), prompts()).train()
    return str(tmp_path / "checkpoint-2")


def test_the_policy_of_a_grpo_checkpoint_is_not_taken_for_the_initial_policy(tiny_model, tmp_path):
    checkpoint = write_grpo_checkpoint(tiny_model, tmp_path)
    with pytest.raises(ConfigError, match="checkpoint of step 2 does not have it"):
        train(tiny_model, **options(tmp_path, resume_from_checkpoint=checkpoint))
    resumed = train(tiny_model, **options(tmp_path, resume_from_checkpoint=checkpoint, initial_entropy=0.4))
    assert last_log(resumed)["gtpo/initial_entropy"] == 0.4


def test_filters_that_do_not_need_it_resume_from_anywhere(tiny_model, tmp_path):
    checkpoint = write_grpo_checkpoint(tiny_model, tmp_path)
    resumed = train(tiny_model, **options(tmp_path, resume_from_checkpoint=checkpoint, entropy_filter="all"))
    assert resumed.state.global_step == 4
