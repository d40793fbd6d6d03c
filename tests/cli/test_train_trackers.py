"""`gtpo train --report_to` really sends the metrics of every step to trackio and to wandb, without a network."""

import json
import sqlite3

import pytest

from gtpo.cli.main import main
from tests.cli.launching import SMALL
from tests.reading import read_metrics

OPTIONS = [*SMALL, "--max_steps", "2", "--rewards", "format", "--held_out_problems", "0"]


def test_trackio_stores_the_metrics_of_every_step(tmp_path, monkeypatch):
    pytest.importorskip("trackio", reason="trackio is not installed")
    for module in ("trackio.utils", "trackio.sqlite_storage"):
        monkeypatch.setattr(f"{module}.TRACKIO_DIR", tmp_path / "trackio")
    run = tmp_path / "run"
    assert main(["train", "--output_dir", str(run), "--report_to", "trackio", *OPTIONS]) == 0
    (database,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(database) as connection:
        rows = [json.loads(row) for (row,) in connection.execute("SELECT metrics FROM metrics ORDER BY step")]
    for name in ("reward", "gtpo/frac_kept", "health/level"):
        stored = [row[f"train/{name}"] for row in rows if f"train/{name}" in row]
        assert stored == pytest.approx([row[name] for row in read_metrics(run)])


@pytest.mark.slow
def test_wandb_stores_the_metrics_of_a_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    for name, value in {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    wandb.teardown()  # another test may have set the folder
    assert main(["train", "--output_dir", str(tmp_path / "run"), "--report_to", "wandb", *OPTIONS]) == 0
    wandb.finish()
    wandb.teardown()  # its service may still be writing
    (log,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    content = log.read_bytes()
    for name in (b"train/reward", b"train/gtpo/frac_kept", b"train/health/level"):
        assert content.count(name) >= 2
