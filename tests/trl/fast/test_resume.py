"""A killed and resumed run equals an uninterrupted one; damaged checkpoints are never resumed from in silence."""

import json
import multiprocessing
import os
import pickle
import shutil
import socket
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file
from transformers import TrainerCallback

from gtpo import ConfigError, DataError, FastGRPOTrainer, GTPOConfig, GTPOTrainer
from gtpo.trl.fast import sharing
from gtpo.trl.fast.checkpoints import newest_intact, read_state
from gtpo.trl.fast.resume import CompleteCheckpoints
from tests.trl.checked import parity_reward, prompts, settings, train
from trl import GRPOConfig

CASES = {
    "one batch per step": {},
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


@pytest.fixture(scope="module")
def trained(tiny_model, tmp_path_factory):
    """The folder of a run of four steps with the checkpoints 2 and 4. Copy it before changing it."""
    folder = tmp_path_factory.mktemp("trained")
    train(tiny_model, **settings(folder, save_strategy="steps", save_steps=2, trainer=GTPOTrainer))
    return folder


@pytest.fixture
def run_folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def resume(tiny_model, folder, checkpoint=True, **options):
    saving = {"save_strategy": "steps", "save_steps": 2, "trainer": GTPOTrainer}
    return train(tiny_model, **settings(folder, **{**saving, **options}), resume_from_checkpoint=checkpoint)


@pytest.mark.parametrize("options", CASES.values(), ids=CASES.keys())
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(options, tiny_model, tmp_path):
    base = {"save_strategy": "steps", "save_steps": 5, "max_steps": 8, "trainer": GTPOTrainer, "initial_entropy": None}
    base = {**base, "initial_entropy_prompts": 6, **options}
    uninterrupted = train(tiny_model, **settings(tmp_path / "uninterrupted", **base))
    shutil.copytree(tmp_path / "uninterrupted", tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed/checkpoint-8", ignore_errors=True)
    shutil.rmtree(tmp_path / "killed/checkpoint-6", ignore_errors=True)
    torch.manual_seed(123456)
    resumed = train(tiny_model, **settings(tmp_path / "killed", **base, resume_from_checkpoint=True))
    expected, got = numbers(uninterrupted), numbers(resumed)
    if "logging_steps" in options:  # the loss logged after a kill is the mean over the remaining steps of its window
        expected, got = ([{**entry, "loss": None} for entry in entries] for entries in (expected, got))
    assert got == expected
    for mine, other in zip(resumed.model.parameters(), uninterrupted.model.parameters(), strict=True):
        assert mine.equal(other)


def test_a_checkpoint_keeps_the_trimmed_batches_and_nothing_more(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "can_share", lambda *_: False)  # which would not sort completions by length
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
    def run(folder, resume_from_checkpoint=None):
        options = settings(tmp_path / folder, save_strategy="steps", save_steps=3, max_steps=5, num_iterations=2)
        for name in ("entropy_threshold", "initial_entropy"):
            options.pop(name)
        trainer = FastGRPOTrainer(tiny_model, parity_reward, GRPOConfig(bf16=False, **options), prompts())
        trainer.train(resume_from_checkpoint=resume_from_checkpoint)
        return trainer

    uninterrupted = run("uninterrupted")
    shutil.copytree(tmp_path / "uninterrupted", tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed/checkpoint-5")
    assert numbers(run("killed", resume_from_checkpoint=True)) == numbers(uninterrupted)


def test_a_finished_run_trains_no_further_step(run_folder, tiny_model):
    again = resume(tiny_model, run_folder, max_steps=4)
    state = json.loads((run_folder / "checkpoint-4/trainer_state.json").read_text())
    assert again.state.global_step == 4
    assert again.state.log_history == state["log_history"]
    stored = load_file(run_folder / "checkpoint-4/model.safetensors")
    for name, weights in again.model.state_dict().items():
        assert weights.equal(stored[name])


def test_a_complete_checkpoint_is_not_written_again(tiny_model, tmp_path, monkeypatch):
    class SavesTwice(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_save = state.global_step == 2

        def on_epoch_end(self, args, state, control, **kwargs):
            control.should_save = True

    begun = []
    monkeypatch.setattr(
        "gtpo.trl.fast.resume.begin_checkpoint", lambda folder: begun.append(folder.name) or folder.mkdir()
    )
    options = settings(tmp_path, max_steps=2, save_strategy="no", trainer=GTPOTrainer)
    train(tiny_model, dataset=prompts(2), callbacks=[SavesTwice()], **options)
    assert begun == ["checkpoint-1", "checkpoint-2"]


def test_a_finished_run_ends_with_its_best_weights_if_asked_to(run_folder, tiny_model, monkeypatch, caplog):
    best = run_folder / "checkpoint-2"
    state = read_state(run_folder / "checkpoint-4")
    state.best_model_checkpoint = str(best)
    monkeypatch.setattr("gtpo.trl.fast.resume.read_state", lambda checkpoint: state)
    options = settings(run_folder, save_strategy="steps", save_steps=2)

    def resumed_weights():
        trainer = GTPOTrainer(tiny_model, parity_reward, GTPOConfig(**options), prompts())
        trainer.args.load_best_model_at_end = True
        trainer.train(resume_from_checkpoint=True)
        return trainer.model.state_dict()

    stored = {step: load_file(run_folder / f"checkpoint-{step}/model.safetensors") for step in (2, 4)}
    weights = resumed_weights()
    assert all(weights[name].equal(stored[2][name]) for name in weights)
    content = (best / "model.safetensors").read_bytes()
    (best / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for damage in ("model.safetensors changed", "its file 'complete' is missing"):
        weights = resumed_weights()
        assert all(weights[name].equal(stored[4][name]) for name in weights)
        assert f"The best checkpoint {best} is damaged: {damage}" in caplog.text
        (best / "complete").unlink(missing_ok=True)
    (best / "rollouts_0.pt").unlink()  # as stock TRL writes it, before the run was continued here
    (best / "model.safetensors").write_bytes(content)
    weights = resumed_weights()
    assert all(weights[name].equal(stored[2][name]) for name in weights)
    assert f"{best} has no file 'complete': whether it is damaged cannot be checked" in caplog.text


def test_a_run_with_more_epochs_continues(tiny_model, tmp_path):
    options = settings(tmp_path, max_steps=-1, num_train_epochs=1, save_strategy="epoch", trainer=GTPOTrainer)
    num_steps = train(tiny_model, dataset=prompts(4), **options).state.global_step
    longer_options = {**options, "num_train_epochs": 2, "resume_from_checkpoint": True}
    longer = train(tiny_model, dataset=prompts(4), **longer_options)
    assert longer.state.global_step == 2 * num_steps


def test_a_run_that_is_extended_equals_one_that_was_planned_longer(tiny_model, tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 4, "lr_scheduler_type": "constant", "num_iterations": 3}
    resume(tiny_model, tmp_path / "extended", None, **saving, max_steps=4)
    extended = resume(tiny_model, tmp_path / "extended", **saving, max_steps=8)
    planned = resume(tiny_model, tmp_path / "planned", None, **saving, max_steps=8)
    assert numbers(extended)[:8] == numbers(planned)[:8]
    for mine, other in zip(extended.model.parameters(), planned.model.parameters(), strict=True):
        assert mine.equal(other)


def test_a_longer_run_follows_its_new_schedule_from_the_first_step(run_folder, tiny_model):
    rates = []

    class Rates(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, optimizer, **kwargs):
            rates.append(optimizer.param_groups[0]["lr"])

    longer = resume(tiny_model, run_folder, max_steps=8, lr_scheduler_type="linear", callbacks=[Rates()])
    expected = [1e-2 * (8 - step) / 8 for step in range(4, 8)]  # after four steps of four, the old rate was zero
    assert rates == pytest.approx(expected)
    assert [row["learning_rate"] for row in longer.state.log_history[4:8]] == pytest.approx(expected)


def test_a_trainer_that_resumed_starts_a_new_run_in_the_first_order(tiny_model, tmp_path):
    options = settings(tmp_path, max_steps=-1, num_train_epochs=2, save_strategy="epoch", trainer=GTPOTrainer)
    trainer = train(tiny_model, dataset=prompts(4), **options)
    first_order = list(trainer._get_train_sampler())
    trainer.train(resume_from_checkpoint=str(next(tmp_path.glob("checkpoint-*"))))
    trainer.args.max_steps = 1
    trainer.train()
    assert list(trainer._get_train_sampler()) == first_order


def test_another_number_of_processes_is_refused(run_folder, tiny_model):
    (run_folder / "checkpoint-4/complete").write_text('{"num_processes": 2, "files": {}}')
    with pytest.raises(ConfigError, match="was written by 2 processes, but this run has 1"):
        resume(tiny_model, run_folder, max_steps=6)


def test_a_run_falls_back_to_an_intact_checkpoint_and_ends_the_same(run_folder, tiny_model, caplog):
    expected = load_file(run_folder / "checkpoint-4/model.safetensors")
    optimizer = run_folder / "checkpoint-4/optimizer.pt"
    content = bytearray(optimizer.read_bytes())
    content[len(content) // 2] ^= 255
    optimizer.write_bytes(content)
    with pytest.raises(
        DataError, match=r"damaged: optimizer.pt changed .*Resume from .*checkpoint-2, which is intact"
    ):
        resume(tiny_model, run_folder, str(optimizer.parent))
    resume(tiny_model, run_folder)
    assert "Skipped checkpoint-4 (optimizer.pt changed after the checkpoint was written" in caplog.text
    assert "Resuming from checkpoint-2" in caplog.text
    weights = load_file(run_folder / "checkpoint-4/model.safetensors")
    assert all(weights[name].equal(expected[name]) for name in expected)


class Payload:
    def __reduce__(self):
        return os.getpid, ()


@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "rollouts_0.pt"]
)
@pytest.mark.parametrize("content", [b"damaged", pickle.dumps(Payload())], ids=["damaged", "hostile"])
def test_a_file_that_cannot_be_loaded_is_an_error_that_names_the_checkpoint(name, content, run_folder, tiny_model):
    checkpoint = run_folder / "checkpoint-2"
    (checkpoint / "complete").write_text('{"num_processes": 1, "files": {}}')  # nothing to compare with
    (checkpoint / name).write_bytes(content)
    with pytest.raises(DataError, match=r"Cannot load .*checkpoint-2: .*the checkpoint is damaged"):
        resume(tiny_model, run_folder, str(checkpoint))


def test_a_new_checkpoint_survives_a_clock_that_was_set_back(run_folder, tiny_model):
    for path in run_folder.glob("checkpoint-*"):
        os.utime(path, (path.stat().st_mtime + 1e6,) * 2)
    resume(tiny_model, run_folder, max_steps=6, save_total_limit=2)
    assert sorted(path.name for path in run_folder.glob("checkpoint-*")) == ["checkpoint-4", "checkpoint-6"]


def agree(rank, port, outcomes):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    os.environ |= {"MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
    from accelerate import PartialState

    processes = PartialState(cpu=True)
    trainer = CompleteCheckpoints()
    trainer.args = SimpleNamespace(process_index=rank)

    def refuse():
        raise ConfigError("no checkpoint")

    chosen = trainer._on_main_process(lambda: f"chosen by {rank}")
    try:
        trainer._on_main_process(refuse)
    except ConfigError as error:
        outcomes.put((chosen, str(error)))
    processes.destroy_process_group()


def test_all_processes_use_the_choice_of_the_main_process_or_raise_its_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["gtpo.trl.fast.resume"])
    outcomes = server.Queue()
    processes = [server.Process(target=agree, args=(rank, port, outcomes), daemon=True) for rank in range(2)]
    for process in processes:
        process.start()
    assert [outcomes.get(timeout=120) for _ in processes] == [("chosen by 0", "no checkpoint")] * 2
    for process in processes:
        process.join(30)


def test_an_old_checkpoint_is_removed_only_when_the_new_one_is_complete(tiny_model, tmp_path, monkeypatch):
    options = settings(tmp_path, save_strategy="steps", save_steps=2, save_total_limit=1, trainer=GTPOTrainer)

    def killed(self, folder):
        if folder.name == "checkpoint-4":
            raise KeyboardInterrupt

    monkeypatch.setattr("gtpo.trl.fast.resume.ExactResume._save_progress", killed)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_model, **options)
    assert newest_intact(tmp_path)[0].name == "checkpoint-2"
    monkeypatch.undo()
    train(tiny_model, **options, resume_from_checkpoint=True)
    assert [folder.name for folder in tmp_path.glob("checkpoint-*")] == ["checkpoint-4"]


def test_checkpoints_of_an_earlier_run_are_backed_up_and_not_resumed_from(run_folder, tiny_model, caplog):
    earlier = (run_folder / "checkpoint-4/model.safetensors").read_bytes()
    new_run = {"seed": 7, "max_steps": 2}
    # stops before its first checkpoint
    (run_folder / "completions").mkdir()
    (run_folder / "completions/completions_00004.parquet").write_bytes(b"of the earlier run")
    resume(tiny_model, run_folder, checkpoint=None, save_strategy="no", log_completions=True, **new_run)
    assert "to earlier-1-checkpoint-" in caplog.text
    assert (run_folder / "earlier-1-completions/completions_00004.parquet").read_bytes() == b"of the earlier run"
    written = sorted(path.name for path in (run_folder / "completions").iterdir())
    assert written == ["completions_00001.parquet", "completions_00002.parquet"]
    with pytest.raises(ConfigError, match=r"complete checkpoint .*such as earlier-1-checkpoint-4 of an earlier run"):
        resume(tiny_model, run_folder, **new_run)
    resume(tiny_model, run_folder, checkpoint=None, save_total_limit=1, **new_run)
    assert newest_intact(run_folder)[0].name == "checkpoint-2"
    assert resume(tiny_model, run_folder, **{**new_run, "max_steps": 4}).state.global_step == 4
    assert (run_folder / "earlier-1-checkpoint-4/model.safetensors").read_bytes() == earlier
    assert (run_folder / "checkpoint-4/model.safetensors").read_bytes() != earlier
    by_name = resume(tiny_model, run_folder, str(run_folder / "earlier-1-checkpoint-2"))
    assert by_name.state.global_step == 4
    resume(tiny_model, run_folder, checkpoint=None, save_strategy="no", **new_run)
    assert {path.name[:9] for path in run_folder.glob("*checkpoint*")} == {"earlier-1", "earlier-2", "earlier-3"}


def test_resuming_without_a_checkpoint_is_refused(tiny_model, tmp_path):
    with pytest.raises(ConfigError, match=r"There is no complete checkpoint in.* lower save_steps"):
        resume(tiny_model, tmp_path)
