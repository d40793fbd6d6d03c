"""Trackers receive the metrics of GTPO under the same names, through TRL's report_to."""

import pytest

from gtpo import GTPOConfig, GTPOTrainer
from gtpo.trl.watching.watch import watch
from tests.reading import read_metrics
from tests.trl.checked import parity_reward, prompts, settings


def test_tensorboard_gets_every_gtpo_metric_at_every_step(tiny_model, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    options = {**settings(tmp_path), "report_to": "tensorboard"}
    trainer = GTPOTrainer(
        model=tiny_model, reward_funcs=parity_reward, args=GTPOConfig(**options), train_dataset=prompts()
    )
    watch(trainer)
    trainer.train()
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    recorded = read_metrics(tmp_path)
    names = {name for row in recorded for name in row if name.startswith(("gtpo/", "health/"))}
    assert {"gtpo/frac_kept", "gtpo/frac_conflict", "gtpo/entropy_mean", "health/level"} <= names
    for name in names - {"health/vocab_size"}:  # logged once
        scalars = events.Scalars(f"train/{name}")
        assert [event.step for event in scalars] == [1, 2, 3, 4]
        assert [event.value for event in scalars] == pytest.approx([row[name] for row in recorded], rel=1e-5)
