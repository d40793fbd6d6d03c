"""The lab samples on one thread and updates on all of them. A model that got worse is not kept as healthy."""

import json

import pytest
import torch

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.prepare import prepare
from gtpo.training.run_folder import RunFolder
from gtpo.training.session import _discard_worse_model, make_trainer


def test_the_lab_samples_on_one_thread_and_then_uses_all_again(tmp_path, monkeypatch):
    monkeypatch.setattr("trl.trainer.grpo_trainer.GRPOTrainer._generate_single_turn", lambda self: counted())
    counted = torch.get_num_threads
    words = ["--output_dir", str(tmp_path), "--max_problems", "64"]
    trainer = make_trainer(prepare(make_plan(None, parse_overrides(words))))
    torch.set_num_threads(2)
    try:
        assert trainer._generate_single_turn() == 1
        assert counted() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(("after", "step", "is_kept"), [(0.2, 40, False), (0.2, 30, True), (0.5, 40, True)])
def test_a_model_that_solves_fewer_held_out_problems_is_not_kept_as_healthy(after, step, is_kept, tmp_path):
    run = RunFolder.create(tmp_path / "run", {}, {})
    rates = [{"accuracy": accuracy, "num_problems": 200} for accuracy in (0.5, after)]
    run.write_summary(before=rates[0], after=rates[1])
    (run.path / "last-healthy").mkdir()
    (run.path / "last-healthy" / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    _discard_worse_model(run, 40)  # nothing was logged
    rows = [{"step": number, "reward": 0.5 + number / 100} for number in range(1, 41)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (run.path / "last-healthy").is_dir()
    _discard_worse_model(run, 40)
    assert (run.path / "last-healthy").is_dir() == is_kept
