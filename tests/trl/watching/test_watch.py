"""The callback detects a collapsing run, warns once, stops it if asked to, and keeps the last healthy checkpoint."""

import json
from math import nan
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.torch import load_file
from transformers import TrainerControl, TrainerState
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from gtpo import GTPOConfig, GTPOTrainer
from gtpo.trl.watching.watch import HealthCallback, discard_worse_model, watch
from tests.reading import read_metrics
from tests.trl.checked import parity_reward, prompts, settings


def trainer(kind, config, model, folder, **options):
    merged = {**settings(folder), "max_steps": 8, **options}
    if config is GRPOConfig:
        for name in ("entropy_threshold", "initial_entropy"):
            merged.pop(name, None)
    arguments = config(**{"bf16": False, "use_cpu": True, **merged})
    return kind(model=model, reward_funcs=parity_reward, args=arguments, train_dataset=prompts())


@pytest.mark.parametrize(("kind", "config"), [(GRPOTrainer, GRPOConfig), (GTPOTrainer, GTPOConfig)])
def test_a_run_whose_gradient_breaks_is_stopped_before_it_samples_again(tiny_model, tmp_path, caplog, kind, config):
    saving = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 1, "max_steps": 20}
    run = trainer(kind, config, tiny_model, tmp_path, **saving)
    run.model.lm_head.weight.register_hook(lambda gradient: gradient * (nan if run.state.global_step == 13 else 1))
    watch(run, on_collapse="stop")
    callback = run.callback_handler.callbacks[0]
    run.train()
    assert run.state.global_step == 14
    assert callback.verdict.level == 2
    assert "not a finite number" in callback.verdict.reason
    assert [folder.name for folder in tmp_path.glob("checkpoint-*")] == ["checkpoint-14"]
    assert callback.kept is not None
    assert callback.kept[1] < 13
    weights = load_file(tmp_path / "last-healthy" / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in weights.values())
    assert f"last-healthy is the checkpoint of step {callback.kept[1]}" in caplog.text


def test_a_run_without_trouble_gets_a_verdict_at_every_log_and_continues(tiny_model, tmp_path):
    run = trainer(GTPOTrainer, GTPOConfig, tiny_model, tmp_path, learning_rate=1e-5, entropy_filter="off")
    watch(run, on_collapse="stop")
    run.train()
    levels = [row["health/level"] for row in read_metrics(tmp_path)]
    assert len(levels) == 8
    assert max(levels) < 2  # versions of TRL sample other completions, and a few of them may earn a warning
    assert levels == [row["health/level"] for row in run.state.log_history if "loss" in row]


class Loop:
    """A training loop without a trainer: calls a callback for logs and saves as transformers does."""

    def __init__(self, callback, folder, **arguments):
        self.callback, self.folder = callback, folder
        self.arguments = SimpleNamespace(output_dir=str(folder), world_size=1, **arguments)
        self.state, self.control = TrainerState(), TrainerControl()
        callback.on_train_begin(self.arguments, self.state, self.control)

    def log(self, **values):
        self.state.global_step += 1
        self.state.log_history.append({**values, "step": self.state.global_step})
        self.callback.on_log(self.arguments, self.state, self.control, logs=values)
        return values

    def end(self):
        self.callback.on_train_end(self.arguments, self.state, self.control)

    def save(self):
        checkpoint = self.folder / f"checkpoint-{self.state.global_step}"
        checkpoint.mkdir()
        (checkpoint / "weights").write_text(str(self.state.global_step))
        self.state.save_to_json(str(checkpoint / "trainer_state.json"))
        self.callback.on_save(self.arguments, self.state, self.control)
        return checkpoint


def test_the_last_healthy_checkpoint_outlives_the_rotation(tmp_path, caplog):
    loop = Loop(HealthCallback("stop"), tmp_path)
    for step in range(30):
        loop.log(format=0.9 if step < 15 else 0.0)
        checkpoint = loop.save()
        (checkpoint / "weights").unlink()  # as save_total_limit would
        if loop.control.should_training_stop:
            break
    assert loop.control.should_training_stop
    assert loop.callback.kept == (0, 15)
    assert (tmp_path / "last-healthy" / "weights").read_text() == "15"
    assert "last-healthy is the checkpoint of step 15" in caplog.text
    assert sorted(path.name for path in tmp_path.glob("last-healthy*")) == ["last-healthy"]


REWARDS = {
    "dead after its first update": lambda step: 0.5 if step < 2 else 0.0,
    "dead in its fourth row": lambda step: 0.5 if step < 4 else 0.0,
    "dead, and unlucky in its first row": lambda step: 0.25 * (step in (2, 3)),
    "dead from the start": lambda step: 0.0,
}


@pytest.mark.parametrize("reward", REWARDS.values(), ids=REWARDS)
def test_a_run_that_dies_in_its_first_rows_leaves_no_dead_model(reward, tmp_path):
    loop = Loop(HealthCallback(), tmp_path)
    for step in range(1, 41):
        loop.log(reward=reward(step), frac_reward_zero_std=float(reward(step) == 0.0))
        loop.save()
    loop.end()
    assert loop.callback.verdict.level == 2
    kept = tmp_path / "last-healthy" / "weights"
    assert not kept.exists() or reward(int(kept.read_text()) + 1) > 0  # the row after a checkpoint describes it
    assert not (tmp_path / "last-healthy.candidate").exists()


def test_a_checkpoint_whose_reward_is_below_the_start_is_not_kept(tmp_path):
    loop = Loop(HealthCallback(), tmp_path)
    for step in range(1, 31):
        loop.log(reward=0.5 if step < 15 else 0.42)  # too little for a warning
        loop.save()
    loop.end()
    assert loop.callback.verdict.level == 0
    assert int((tmp_path / "last-healthy" / "weights").read_text()) <= 16


def test_the_checkpoint_at_the_end_of_a_healthy_run_is_kept(tmp_path):
    loop = Loop(HealthCallback(), tmp_path)
    for step in range(1, 13):
        loop.log(reward=0.5 + step / 100)
    loop.save()
    assert not (tmp_path / "last-healthy").exists()  # no row has confirmed it yet
    loop.end()
    assert (tmp_path / "last-healthy" / "weights").read_text() == "12"


def test_the_size_of_the_vocabulary_is_logged_once(tmp_path):
    loop = Loop(HealthCallback(), tmp_path)
    model = SimpleNamespace(config=SimpleNamespace(vocab_size=300))
    loop.callback.on_train_begin(loop.arguments, loop.state, loop.control, model=model)
    assert [loop.log(entropy=5.7).get("health/vocab_size") for _ in range(3)] == [300.0, None, None]
    assert loop.state.log_history[0]["health/vocab_size"] == 300.0
    assert loop.callback.verdict.level == 2  # a uniform policy


def test_rows_are_compared_with_the_held_out_problems_before_training(tmp_path):
    (tmp_path / "summary.json").write_text('{"before": {"accuracy": 0.6}}')
    loop = Loop(HealthCallback(), tmp_path)
    assert [loop.log(accuracy=0.05)["health/level"] for _ in range(12)][-1] == 2.0


def test_each_problem_is_reported_once_and_a_warning_does_not_stop_the_run(tmp_path, caplog):
    loop = Loop(HealthCallback("warn"), tmp_path)
    loop.callback.recorder = recorder = SimpleNamespace(is_wanted=False)
    levels = [loop.log(format=max(0.0, min(0.9, 1.8 - step / 12)))["health/level"] for step in range(40)]
    assert levels[:10] == [0.0] * 10
    assert levels[-1] == 2.0
    assert recorder.is_wanted  # the batch after a warning is recorded
    assert not loop.control.should_training_stop
    assert len([record for record in caplog.records if "format fell" in record.message]) == 2  # warning, collapsing
    assert "What to try: Start again with a smaller learning rate" in caplog.text


def test_a_resumed_run_is_compared_with_its_best_state_before_the_checkpoint(tmp_path, caplog):
    before = Loop(HealthCallback(), tmp_path)
    for _ in range(10):
        before.log(format=0.9)
    after = Loop(HealthCallback(), tmp_path)
    after.state.log_history = before.state.log_history
    after.callback.on_train_begin(after.arguments, after.state, after.control)
    assert [after.log(format=0.1)["health/level"] for _ in range(5)][-1] == 2.0


def test_a_resumed_run_keeps_its_last_healthy_checkpoint(tmp_path, caplog):
    before = Loop(HealthCallback(), tmp_path)
    for _ in range(10):
        before.log(format=0.9)
    before.save()
    before.end()
    after = Loop(HealthCallback("stop"), tmp_path)
    after.state.log_history, after.state.global_step = before.state.log_history, 10
    after.callback.on_train_begin(after.arguments, after.state, after.control)
    assert after.callback.kept == (0, 10)
    for _ in range(5):
        after.log(format=0.75)
    assert after.callback.verdict.level == 1
    after.save()
    assert (tmp_path / "last-healthy" / "weights").read_text() == "10"


def test_the_last_healthy_checkpoint_survives_a_run_that_writes_its_step_again(tmp_path):
    before = Loop(HealthCallback(), tmp_path)
    for _ in range(10):
        before.log(format=0.9)
    checkpoint = before.save()
    before.log(format=0.9)
    after = Loop(HealthCallback(), tmp_path)
    after.state.log_history, after.state.global_step = before.state.log_history[:4], 4
    after.callback.on_train_begin(after.arguments, after.state, after.control)
    (checkpoint / "weights").write_text("other weights of step 10")  # in place, as transformers does
    assert (tmp_path / "last-healthy" / "weights").read_text() == "10"
    assert after.callback.kept is None


def test_a_kill_while_a_checkpoint_replaces_the_last_healthy_one_loses_neither(tmp_path, monkeypatch):
    target = tmp_path / "last-healthy"
    before = Loop(HealthCallback(), tmp_path)
    for _ in range(10):
        before.log(format=0.9)
    before.save()
    before.end()
    before.log(format=0.9)
    before.save()
    rename = Path.rename

    def killed(path, new):
        if new == target:
            raise KeyboardInterrupt
        return rename(path, new)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            before.end()
    after = Loop(HealthCallback(), tmp_path)
    after.state.log_history, after.state.global_step = before.state.log_history, 11
    after.callback.on_train_begin(after.arguments, after.state, after.control)
    assert after.callback.kept == (0, 10)
    assert (target / "weights").read_text() == "10"


def test_evaluation_rows_are_ignored(tmp_path):
    loop = Loop(HealthCallback(), tmp_path)
    assert "health/level" not in loop.log(eval_loss=float("nan"))
    assert "health/level" not in loop.log(train_runtime=3.0)


def test_the_threshold_is_the_entropy_threshold_of_the_run(tmp_path):
    loop = Loop(HealthCallback(), tmp_path, entropy_threshold=2.0)
    levels = [loop.log(entropy=0.5 + 0.05 * step)["health/level"] for step in range(40)]
    assert levels[12] == 0.0  # 1.1 nats, above ln 2
    assert levels[-1] == 1.0  # 2.45 nats


WORSE_MODELS = [
    ({"accuracy": 0.2}, 40, False),
    ({"accuracy": 0.2}, 30, True),  # from before the model got worse
    ({"accuracy": 0.5}, 40, True),
    ({"accuracy": 0.7, "format": 0.8}, 40, True),  # solves more
]


@pytest.mark.parametrize(("after", "step", "is_kept"), WORSE_MODELS)
def test_a_last_model_that_solves_fewer_held_out_problems_is_not_kept_as_healthy(
    after, step, is_kept, tmp_path, caplog
):
    before = {"accuracy": 0.5, "format": 0.95, "num_problems": 200}
    (tmp_path / "summary.json").write_text(json.dumps({"before": before, "after": {**after, "num_problems": 200}}))
    kept = tmp_path / "last-healthy"
    kept.mkdir()
    (kept / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    discard_worse_model(tmp_path, 40)
    assert kept.is_dir() == is_kept
    assert (f"Removing {kept}: it is the last model, which solves fewer" in caplog.text) != is_kept


def test_a_folder_that_cannot_be_deleted_does_not_end_the_run(tmp_path, monkeypatch):
    rates = {when: {"accuracy": accuracy} for when, accuracy in (("before", 0.9), ("after", 0.1))}
    (tmp_path / "summary.json").write_text(json.dumps(rates))
    (tmp_path / "last-healthy").mkdir()
    (tmp_path / "last-healthy" / "trainer_state.json").write_text(json.dumps({"global_step": 40}))

    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr("os.unlink", refuse)
    discard_worse_model(tmp_path, 40)
    assert (tmp_path / "last-healthy" / "trainer_state.json").exists()  # deleting it was tried, and refused
