"""What the shipped base is and does."""

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from gtpo.lab.measure import main, measure
from gtpo.lab.model import lab_model_dir
from gtpo.lab.tokenizer import make_tokenizer

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def base():
    folder = lab_model_dir()
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def start(base):
    return measure(*base, num_problems=32, num_samples=16)


def test_the_weights_are_small_and_in_full_precision(base):
    model, _ = base
    assert 0.8e6 < model.num_parameters() < 1.5e6
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert (lab_model_dir() / "model.safetensors").stat().st_size < 8e6


def test_the_shipped_tokenizer_is_the_one_that_the_code_makes(base):
    _, shipped = base
    made = make_tokenizer()
    assert shipped.get_vocab() == made.get_vocab()
    assert shipped.chat_template == made.chat_template
    assert (shipped.pad_token, shipped.eos_token, shipped.padding_side) == ("<pad>", "<eos>", "left")


def test_the_start_leaves_something_to_learn(start):
    assert 0.22 < start["accuracy"] < 0.50
    assert 0.70 < start["format"] < 0.92


def test_almost_every_problem_is_within_reach(start):
    assert start["pass@16"] > 0.9


def test_its_entropy_is_real_and_below_the_threshold(start):
    assert 0.2 < start["entropy"] < 0.9 * math.log(2)


def test_its_completions_are_short(start):
    assert 25 < start["length"] < 60
    assert start["longest"] <= 96


def test_greedy_it_is_often_careless(base):
    greedy = measure(*base, num_problems=64, temperature=0)
    assert 0.4 < greedy["accuracy"] < 0.75
    assert greedy["format"] > 0.95


def test_a_seed_repeats_a_measurement(base):
    again = [measure(*base, num_problems=8, num_samples=2, seed=seed) for seed in (5, 5, 6)]
    assert again[0] == again[1] != again[2]


def test_the_command_prints_json(capsys):
    assert main(["--samples", "2", "--problems", "4", "--seed", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) >= {"accuracy", "pass@2", "format", "entropy", "length"}
