"""Training a base model: the loss falls, the result loads, and a seed repeats it."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from experiments.lab_base.make_base import main, make_base

SMALL = {"num_steps": 40, "batch_size": 8, "hidden_size": 32, "num_layers": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    return folder, make_base(folder, **SMALL)


def weights(folder):
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


def test_training_lowers_the_loss(made):
    _, losses = made
    assert len(losses) == 40
    assert sum(losses[-5:]) / 5 < 0.95 * losses[0]


def test_the_trained_model_loads_and_generates(made):
    folder, _ = made
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "2+3-1=?"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    ids = model.generate(**prompt, max_new_tokens=8, do_sample=False)
    assert ids.shape[1] > prompt["input_ids"].shape[1]


def test_the_same_seed_gives_the_same_weights_and_another_seed_does_not(made, tmp_path):
    folder, losses = made
    assert make_base(tmp_path / "again", **SMALL) == losses
    again = weights(tmp_path / "again")
    assert all(torch.equal(tensor, again[name]) for name, tensor in weights(folder).items())
    assert make_base(tmp_path / "other", **{**SMALL, "num_steps": 1}, seed=1)[0] != losses[0]


def test_the_command_writes_a_model_and_logs_the_loss_to_stderr(tmp_path, monkeypatch, capsys):
    def quick(out, *, num_steps, seed, on_step):
        on_step(99, 0.5)
        return make_base(out, **{**SMALL, "num_steps": 2}, seed=seed)

    monkeypatch.setattr("experiments.lab_base.make_base.make_base", quick)
    assert main(["--out", str(tmp_path), "--steps", "100"]) == 0
    assert (tmp_path / "model.safetensors").exists()
    captured = capsys.readouterr()
    assert "step 100/100  loss 0.500" in captured.err
    assert captured.out == ""
