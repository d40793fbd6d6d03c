"""A finding is sent once to every tracker that the run reports to, and a tracker that fails does not matter."""

import sqlite3
import sys
from enum import Enum
from math import nan
from types import SimpleNamespace

import pytest

import gtpo
from gtpo.trl.watching.alerts import Alerts
from tests.trl.watching.watched import grpo_trainer

SENTENCE = "Step 2: grad_norm is not a finite number. What to try: Start again with a smaller learning rate"


def break_a_run(model, folder, tracker):
    """A run whose gradient is not a number in the second step, where it stops."""
    trainer = grpo_trainer(model, folder, report_to=[tracker], run_name="broken")
    weight = trainer.model.lm_head.weight
    weight.register_hook(lambda gradient: gradient * (nan if trainer.state.global_step == 1 else 1))
    gtpo.watch(trainer, on_collapse="stop")
    trainer.train()
    assert trainer.state.global_step == 2


def test_trackio_stores_the_alert(tiny_model, tmp_path, monkeypatch):
    pytest.importorskip("trackio", reason="trackio is not installed")
    for module in ("trackio.utils", "trackio.sqlite_storage"):
        monkeypatch.setattr(f"{module}.TRACKIO_DIR", tmp_path / "trackio")
    break_a_run(tiny_model, tmp_path / "my run", "trackio")
    (database,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(database) as connection:
        alerts = connection.execute("SELECT title, text, level FROM alerts").fetchall()
    assert [(title, level) for title, _, level in alerts] == [("collapsing: not finite", "error")]
    assert alerts[0][1].startswith(SENTENCE)
    assert alerts[0][1].endswith(f"gtpo health '{tmp_path}/my run'; completions: gtpo inspect '{tmp_path}/my run'")


@pytest.mark.slow
def test_wandb_stores_the_alert(tiny_model, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    for name, value in {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    break_a_run(tiny_model, tmp_path / "run", "wandb")
    wandb.finish()
    (log,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    content = log.read_bytes()
    assert content.count(b"collapsing: not finite") == 1
    assert f"Details: gtpo health {tmp_path}/run; completions: gtpo inspect {tmp_path}/run".encode() in content


@pytest.mark.parametrize("report_to", [[], ["tensorboard"], None, ["wandb"], ["wandb", "trackio"]])
def test_only_the_trackers_of_the_run_get_an_alert(report_to, monkeypatch, caplog):
    sent = []
    levels = Enum("Level", ["WARN", "ERROR"])

    def fails(**_):
        sent.append("wandb")
        raise RuntimeError("no network")

    wandb = SimpleNamespace(alert=fails, AlertLevel=levels)
    trackio = SimpleNamespace(alert=lambda title, text, level: sent.append((title, level)), AlertLevel=levels)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    alerts = Alerts()
    for _ in range(2):
        alerts.send(SimpleNamespace(report_to=report_to, output_dir="runs/a"), "title", "text.", "WARN")
    assert sent.count("wandb") == ("wandb" in (report_to or ()))  # it failed, so it is asked once
    assert sent.count(("title", levels.WARN)) == 2 * ("trackio" in (report_to or ()))
    assert caplog.text.count("wandb.alert is off") == ("wandb" in (report_to or ()))
