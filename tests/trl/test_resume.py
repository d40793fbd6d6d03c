"""A run that was killed and resumed ends like one that was not; half-written checkpoints are never resumed from."""

import json
import shutil

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig

from gtpo import ConfigError, DataError, GTPOTrainer
from gtpo.trl.resume import (
    ResumableGRPOTrainer,
    last_complete_checkpoint,
    remove_incomplete_checkpoints,
    require_whole,
)
from tests.trl.checked import parity_reward, prompts, settings, train
from trl import GRPOConfig

CASES = {
    "one batch a step": {},
    "accumulation": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4},
    "in the middle of a generation batch": {"steps_per_generation": 4, "per_device_train_batch_size": 4},
    "between two steps on one trimmed generation batch": {
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 4,
    },
    "in the middle of an iteration": {"num_iterations": 3},
    "between two logs": {"logging_steps": 2, "save_steps": 3},
    "lora with dropout": {"peft_config": LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.3)},
    "in the third epoch": {"dataset": Dataset.from_dict({"prompt": [f"say w{i} :" for i in range(4)]})},
}
TIMING = ("step_time", "gtpo/seconds_", "train_", "total_flos")


def numbers(trainer):
    return [
        {k: v for k, v in entry.items() if not k.startswith(TIMING)}
        for entry in trainer.state.log_history
        if "loss" in entry
    ]


@pytest.mark.parametrize("options", CASES.values(), ids=CASES.keys())
def test_killed_and_resumed_equals_unbroken(options, tiny_model, tmp_path):
    base = {"save_strategy": "steps", "save_steps": 5, "max_steps": 8, "trainer": GTPOTrainer, "initial_entropy": None}
    base = {**base, "initial_entropy_prompts": 6, **options}
    unbroken = train(tiny_model, **settings(tmp_path / "unbroken", **base))
    train(tiny_model, **settings(tmp_path / "killed", **base))
    shutil.rmtree(tmp_path / "killed/checkpoint-8", ignore_errors=True)
    shutil.rmtree(tmp_path / "killed/checkpoint-6", ignore_errors=True)
    torch.manual_seed(123456)
    resumed = train(tiny_model, **settings(tmp_path / "killed", **base, resume_from_checkpoint=True))
    if options.get("logging_steps") is None:
        assert numbers(resumed) == numbers(unbroken)
    else:  # the loss of a window that a kill fell into is the mean over what came after; everything else is equal
        strip = [{k: v for k, v in entry.items() if k != "loss"} for entry in numbers(resumed)]
        assert strip == [{k: v for k, v in entry.items() if k != "loss"} for entry in numbers(unbroken)]
    for mine, other in zip(resumed.model.parameters(), unbroken.model.parameters(), strict=True):
        assert mine.equal(other)


def test_a_checkpoint_keeps_the_trimmed_batches_and_nothing_more(tiny_model, tmp_path):
    options = {**CASES["between two steps on one trimmed generation batch"], "save_strategy": "steps", "save_steps": 1}
    trainer = train(tiny_model, **settings(tmp_path, **options, max_steps=1, trainer=GTPOTrainer, top_k=8))
    stored = torch.load(tmp_path / "checkpoint-1/rollouts_0.pt")["buffered_inputs"]
    shapes = [batch["completion_ids"].shape for batch in trainer._buffered_inputs]
    assert [batch["completion_ids"].shape for batch in stored] == shapes
    assert len({columns for _, columns in shapes}) > 1
    for batch in stored:
        for value in batch.values():
            assert value.untyped_storage().nbytes() == value.numel() * value.element_size()


def test_plain_grpo_resumes_exactly_too(tiny_model, tmp_path):
    def run(folder, resume=None):
        options = settings(tmp_path / folder, save_strategy="steps", save_steps=3, max_steps=5, num_iterations=2)
        for knob in ("entropy_threshold", "initial_entropy"):
            options.pop(knob)
        trainer = ResumableGRPOTrainer(tiny_model, parity_reward, GRPOConfig(bf16=False, **options), prompts())
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    unbroken = run("unbroken")
    run("killed")
    shutil.rmtree(tmp_path / "killed/checkpoint-5")
    assert numbers(run("killed", resume=True)) == numbers(unbroken)


@pytest.mark.parametrize("resume", [True, "checkpoint-4"])
def test_a_run_that_had_made_its_last_step_makes_no_other(resume, tiny_model, tmp_path):
    options = settings(tmp_path, save_strategy="steps", save_steps=2, trainer=GTPOTrainer)
    whole = train(tiny_model, **options)
    resume = resume if resume is True else str(tmp_path / resume)
    again = train(tiny_model, **options, resume_from_checkpoint=resume)
    assert again.state.global_step == 4
    assert numbers(again) == numbers(whole)
    for mine, other in zip(again.model.parameters(), whole.model.parameters(), strict=True):
        assert mine.equal(other)


def test_a_run_that_is_asked_for_more_epochs_goes_on(tiny_model, tmp_path):
    options = settings(tmp_path, max_steps=-1, num_train_epochs=1, save_strategy="epoch", trainer=GTPOTrainer)
    num_steps = train(tiny_model, **options).state.global_step
    longer = train(tiny_model, **{**options, "num_train_epochs": 3}, resume_from_checkpoint=True)
    assert longer.state.global_step == 3 * num_steps


def test_a_trainer_that_resumed_begins_anew_in_the_first_order(tiny_model, tmp_path):
    options = settings(tmp_path, max_steps=-1, num_train_epochs=2, save_strategy="epoch", trainer=GTPOTrainer)
    resumed = train(tiny_model, **options, resume_from_checkpoint=None)
    first_order = list(resumed._get_train_sampler())
    resumed.train(resume_from_checkpoint=str(next(tmp_path.glob("checkpoint-*"))))
    resumed.args.max_steps = 1
    resumed.train()
    assert list(resumed._get_train_sampler()) == first_order


def test_another_number_of_processes_is_refused(tiny_model, tmp_path):
    options = settings(tmp_path, save_strategy="steps", save_steps=2, trainer=GTPOTrainer)
    train(tiny_model, **{**options, "max_steps": 2})
    marker = tmp_path / "checkpoint-2/complete"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "num_processes": 2}))
    with pytest.raises(ConfigError, match="was written by 2 processes, this is a run of 1"):
        train(tiny_model, **options, resume_from_checkpoint=True)


@pytest.mark.parametrize(
    "name", ["optimizer.pt", "scheduler.pt", "rng_state.pth", "rollouts_0.pt", "model.safetensors"]
)
def test_a_checkpoint_that_lost_something_is_not_resumed_from(name, tiny_model, tmp_path):
    options = settings(tmp_path, save_strategy="steps", save_steps=2, trainer=GTPOTrainer)
    train(tiny_model, **options)
    path = tmp_path / "checkpoint-4" / name
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=rf"checkpoint-4 is damaged: {name} has 100 bytes.*go on from checkpoint-2"):
        train(tiny_model, **{**options, "max_steps": 6}, resume_from_checkpoint=True)
    path.unlink()
    with pytest.raises(DataError, match=rf"checkpoint-4 is damaged: {name} is missing"):
        train(tiny_model, **{**options, "max_steps": 6}, resume_from_checkpoint=True)


@pytest.mark.parametrize("text", ["{", "{}", "null", '{"num_processes": 1}'])
def test_a_marker_that_is_damaged_is_said(text, tmp_path):
    (tmp_path / "complete").write_text(text)
    with pytest.raises(DataError, match="complete is damaged"):
        require_whole(tmp_path, 1)
    (tmp_path / "complete").write_text("")  # as checkpoints once had it
    require_whole(tmp_path, 1)


def test_folders_that_are_called_like_checkpoints_are_left_alone(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, save_strategy="steps", save_steps=2, trainer=GTPOTrainer))
    for name in ("checkpoint-keep", "checkpoint-4-backup"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-9").write_text("a file")
    remove_incomplete_checkpoints(tmp_path)
    assert last_complete_checkpoint(tmp_path).name == "checkpoint-4"
    names = {path.name for path in tmp_path.glob("checkpoint-*")}
    assert names == {"checkpoint-2", "checkpoint-4", "checkpoint-keep", "checkpoint-4-backup", "checkpoint-9"}


def test_a_half_written_checkpoint_is_passed_over(tiny_model, tmp_path):
    train(tiny_model, **settings(tmp_path, save_strategy="steps", save_steps=2, trainer=GTPOTrainer))
    shutil.copytree(tmp_path / "checkpoint-4", tmp_path / "checkpoint-6")
    (tmp_path / "checkpoint-6/complete").unlink()
    assert last_complete_checkpoint(tmp_path).name == "checkpoint-4"
    remove_incomplete_checkpoints(tmp_path)
    assert sorted(folder.name for folder in tmp_path.glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-4"]


def test_an_old_checkpoint_goes_only_when_the_new_one_is_complete(tiny_model, tmp_path, monkeypatch):
    options = settings(tmp_path, save_strategy="steps", save_steps=2, save_total_limit=1, trainer=GTPOTrainer)

    def killed(self, folder):
        if folder.name == "checkpoint-4":
            raise KeyboardInterrupt

    monkeypatch.setattr("gtpo.trl.resume.ExactResume._save_progress", killed)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_model, **options)
    assert last_complete_checkpoint(tmp_path).name == "checkpoint-2"
    monkeypatch.undo()
    train(tiny_model, **options, resume_from_checkpoint=True)
    assert [folder.name for folder in tmp_path.glob("checkpoint-*")] == ["checkpoint-4"]


def test_checkpoints_of_an_earlier_run_are_kept_and_not_resumed_from(tiny_model, tmp_path, caplog):
    options = settings(tmp_path, save_strategy="steps", save_steps=2, trainer=GTPOTrainer)
    train(tiny_model, **options)
    earlier = (tmp_path / "checkpoint-4/model.safetensors").read_bytes()
    anew = {**options, "seed": 7, "max_steps": 2}
    train(tiny_model, **{**anew, "save_strategy": "no"})  # stopped before its first checkpoint
    assert "are now called earlier-1-checkpoint-" in caplog.text
    with pytest.raises(ConfigError, match=r"complete checkpoint .*such as earlier-1-checkpoint-4 of an earlier run"):
        train(tiny_model, **anew, resume_from_checkpoint=True)
    train(tiny_model, **{**anew, "save_total_limit": 1})
    assert last_complete_checkpoint(tmp_path).name == "checkpoint-2"
    resumed = train(tiny_model, **{**anew, "max_steps": 4}, resume_from_checkpoint=True)
    assert resumed.state.global_step == 4
    assert (tmp_path / "earlier-1-checkpoint-4/model.safetensors").read_bytes() == earlier
    assert (tmp_path / "checkpoint-4/model.safetensors").read_bytes() != earlier
    named = train(tiny_model, **options, resume_from_checkpoint=str(tmp_path / "earlier-1-checkpoint-2"))
    assert named.state.global_step == 4
    train(tiny_model, **{**anew, "save_strategy": "no"})
    assert {path.name[:9] for path in tmp_path.glob("*checkpoint*")} == {"earlier-1", "earlier-2"}


def test_resuming_without_a_checkpoint_is_refused(tiny_model, tmp_path):
    with pytest.raises(ConfigError, match="holds no complete checkpoint"):
        train(tiny_model, **settings(tmp_path, trainer=GTPOTrainer), resume_from_checkpoint=True)
