"""The lab samples on one thread and updates on all of them."""

import torch

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.prepare import prepare
from gtpo.training.session import make_trainer


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
