"""A watched run trains exactly as an unwatched one, and an instrument that fails does not stop it."""

import copy
import gc
import weakref

import pytest
import torch
from peft import LoraConfig
from transformers import TrainerCallback

import gtpo
from gtpo import GTPOConfig, GTPOTrainer
from gtpo.errors import ConfigError
from gtpo.trl.watching import recording
from gtpo.trl.watching.watch import HealthCallback
from tests.reading import read_groups, read_metrics
from tests.trl.checked import parity_reward, prompts, settings
from tests.trl.watching.watched import grpo_trainer
from trl import GRPOTrainer

LORA = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.3)


class CountingTrainer(GRPOTrainer):
    """Counts the rows of passes over the policy without gradient."""

    rows = 0

    def _get_per_token_logps_and_entropies(self, model, input_ids, *args, **kwargs):
        self.rows += 0 if torch.is_grad_enabled() else len(input_ids)
        return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **kwargs)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"peft_config": LORA},
        {"num_iterations": 2, "max_steps": 4},
        {"gradient_accumulation_steps": 2, "gradient_checkpointing": True},
        {"mask_truncated_completions": True, "beta": 0.1},
    ],
    ids=["plain", "lora with dropout", "two iterations", "accumulation and checkpointing", "masked, with reference"],
)
def test_weights_logs_and_random_state_are_the_same_with_and_without_it(options, tiny_model, tmp_path):
    runs = {}
    for is_watched in (False, True):
        trainer = grpo_trainer(tiny_model, tmp_path / str(is_watched), CountingTrainer, **copy.deepcopy(options))
        if is_watched:
            gtpo.watch(trainer, record_groups=1, record_every=1)
        trainer.train()
        runs[is_watched] = trainer, torch.get_rng_state()
    (plain, plain_state), (watched, watched_state) = runs[False], runs[True]
    assert plain_state.equal(watched_state)
    for (name, mine), (_, other) in zip(watched.model.named_parameters(), plain.model.named_parameters(), strict=True):
        assert mine.equal(other), name
    for mine, other in zip(watched.state.log_history, plain.state.log_history, strict=True):
        names = [name for name in other if "time" not in name and "per_second" not in name]
        assert {name: mine[name] for name in names} == {name: other[name] for name in names}
    groups = read_groups(tmp_path / "True")
    assert len(groups) >= 2
    assert watched.rows - plain.rows == 4 * len(groups)  # a pass over the recorded completions, and no other


def test_a_gtpo_run_is_recorded_once_and_costs_no_pass(tiny_model, tmp_path):
    class Counting(GTPOTrainer):
        passes = 0

        def _get_per_token_logps_and_entropies(self, *args, **kwargs):
            self.passes += not torch.is_grad_enabled()
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    trainer = Counting(tiny_model, parity_reward, GTPOConfig(**settings(tmp_path, max_steps=3)), prompts())
    for _ in range(2):
        gtpo.watch(trainer, record_groups=2, record_every=1)
    trainer.train()
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2, 3]
    assert [group.step for group in read_groups(tmp_path)] == [1, 1, 2, 2, 3, 3]
    assert {group.method for group in read_groups(tmp_path)} == {"gtpo"}
    assert trainer.passes == 0  # the update computes the entropies of the records


def test_watching_twice_is_watching_once_with_the_later_options(tiny_model, tmp_path):
    trainer = grpo_trainer(tiny_model, tmp_path, max_steps=2)
    gtpo.watch(trainer, record_groups=2)
    gtpo.watch(trainer, record_groups=1, on_collapse="stop")
    trainer.train()
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2]
    assert [group.step for group in read_groups(tmp_path)] == [1, 2]
    health = [callback for callback in trainer.callback_handler.callbacks if isinstance(callback, HealthCallback)]
    assert [callback.on_collapse for callback in health] == ["stop"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "groups.jsonl"])
def test_a_full_disk_turns_recording_off_with_one_warning(name, tiny_model, tmp_path, caplog):
    class FullDisk(TrainerCallback):
        def on_train_begin(self, *args, **kwargs):
            (tmp_path / name).symlink_to("/dev/full")

    trainer = grpo_trainer(tiny_model, tmp_path)
    gtpo.watch(trainer, record_every=1)
    trainer.add_callback(FullDisk())
    trainer.train()
    assert trainer.state.global_step == 3
    warnings = [record.message for record in caplog.records if "Training continues" in record.message]
    assert len(warnings) == 1
    instrument = f"Recording of {name.removesuffix('.jsonl')}"
    assert f"{instrument} is off for the rest of this run: OSError: [Errno 28]" in warnings[0]
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl") if not path.is_symlink()) < 9000
    assert all("health/level" in row for row in trainer.state.log_history if "loss" in row)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("gtpo.trl.watching.recording.Recorder._is_due", "Recording of groups is off"),
        ("gtpo.trl.watching.recording.choose_groups", "Recording of groups is off"),
        ("gtpo.trl.watching.generated.summarise", "Recording of groups is off"),
        ("gtpo.trl.watching.recording.token_scores", "Recording of entropies and log-probabilities is off"),
        ("gtpo.trl.watching.watch.is_training_row", "The health check is off"),
        ("gtpo.trl.watching.watch.link_tree", "Keeping the last healthy checkpoint is off"),
    ],
)
def test_an_error_of_an_instrument_does_not_stop_the_run(place, message, tiny_model, tmp_path, caplog, monkeypatch):
    def fails(*args, **kwargs):
        raise RuntimeError("made to fail")

    monkeypatch.setattr(place, fails)
    trainer = grpo_trainer(tiny_model, tmp_path, max_steps=2, save_strategy="steps", save_steps=1)
    gtpo.watch(trainer, record_every=1)
    trainer.train()
    assert trainer.state.global_step == 2
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 2]
    assert [message in record.message for record in caplog.records if "Training continues" in record.message] == [True]
    if "entropies" in message:
        assert read_groups(tmp_path)[0].completions[0].token_entropy is None


def test_a_failed_instrument_keeps_no_tensors_alive(tiny_model, tmp_path, monkeypatch):
    alive = []

    def fails(trainer, batch, *args):
        scratch = torch.zeros(3)
        alive.extend([weakref.ref(scratch), weakref.ref(batch["completion_ids"])])
        raise torch.OutOfMemoryError("made to fail")

    monkeypatch.setattr("gtpo.trl.watching.recording.token_scores", fails)
    trainer = grpo_trainer(tiny_model, tmp_path)
    gtpo.watch(trainer, record_every=1)
    trainer.train()
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


def test_a_second_training_records_again_after_a_failure(tiny_model, tmp_path, monkeypatch):
    trainer = grpo_trainer(tiny_model, tmp_path, max_steps=2)
    gtpo.watch(trainer, record_every=1)
    with monkeypatch.context() as broken:
        broken.setattr("gtpo.trl.watching.recording.choose_groups", None)
        trainer.train()
    assert not (tmp_path / "groups.jsonl").exists()
    trainer.train()
    assert {group.step for group in read_groups(tmp_path)} == {1, 2}


def test_a_trainer_that_reorders_scored_completions_is_not_recorded(tiny_model, tmp_path, caplog):
    class Reordering(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            batch = super()._generate_and_score_completions(inputs)
            batch["completion_ids"] = batch["completion_ids"].flip(0)
            return batch

    trainer = grpo_trainer(tiny_model, tmp_path, Reordering)
    gtpo.watch(trainer)
    trainer.train()
    assert "changes or reorders completions after it has scored them. Training continues" in caplog.text
    assert not (tmp_path / "groups.jsonl").exists()


def test_a_batch_that_a_warning_asks_for_is_recorded(tiny_model, tmp_path):
    class Warns(TrainerCallback):
        def on_log(self, args, state, control, **kwargs):
            trainer.gtpo_recorder.is_wanted |= state.global_step == 5

    trainer = grpo_trainer(tiny_model, tmp_path, max_steps=8)
    gtpo.watch(trainer, record_groups=1, record_every=100)
    trainer.add_callback(Warns())
    trainer.train()
    assert {1, 2, 6} <= {group.step for group in read_groups(tmp_path)} < {1, 2, 3, 4, 5, 6, 7, 8}


def test_a_copy_of_a_watched_trainer_samples_with_its_own_model():
    class Trainer:
        """What `watch` wraps. TRL's own trainer cannot be copied in every version."""

        def _calculate_rewards(self):
            return None

        def _generate_and_score_completions(self):
            return {}

        def add_callback(self, callback):
            self.callback = callback

    trainer = Trainer()
    recording.attach_recorder(trainer)
    duplicate = copy.deepcopy(trainer)
    assert duplicate._generate_and_score_completions.__self__ is duplicate
    assert duplicate.gtpo_recorder is duplicate.callback is not trainer.gtpo_recorder


def test_the_size_of_the_records_is_bounded_and_they_span_the_run(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "MAX_BYTES", 8000)  # about four steps
    trainer = grpo_trainer(tiny_model, tmp_path, max_steps=30)
    gtpo.watch(trainer, record_groups=1, record_every=1)
    trainer.train()
    assert (tmp_path / "groups.jsonl").stat().st_size <= 8000
    steps = [group.step for group in read_groups(tmp_path)]
    assert steps[0] == 1
    assert steps[-1] > 15
    assert len(steps) >= 2


def test_a_gtpo_config_for_a_plain_trainer_gets_a_warning(tiny_model, tmp_path, caplog):
    config = GTPOConfig(**settings(tmp_path))
    gtpo.watch(GRPOTrainer(tiny_model, parity_reward, config, prompts()))
    assert "GRPOTrainer was given a GTPOConfig, and the options of GTPO have no effect on it" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_collapse": "halt"}, "on_collapse must be one of 'warn', 'stop', got 'halt'"),
        ({"record_groups": -1}, "record_groups must be at least 0, got -1"),
        ({"record_every": 0}, "record_every must be at least 1, got 0"),
        ({}, "gtpo.watch takes a GRPOTrainer of TRL or a subclass of it, got str"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        gtpo.watch("a trainer", **options)
