"""The shipped base model: what it is, and what it does before any training."""

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from experiments.lab_base.tokenizer import make_tokenizer
from gtpo.evaluation.evaluate import evaluate
from gtpo.evaluation.sampling import SamplingSettings
from gtpo.lab import lab_model_dir


def evaluated(settings: SamplingSettings, folder: Path, num_problems: int) -> dict[str, float]:
    """The metrics of `gtpo eval lab`."""
    (measurement,) = evaluate(["lab"], ["lab"], settings, folder, limit=num_problems, batch_size=128).measurements
    return {name: estimate.value for name, estimate in measurement.estimates.items()}


@pytest.fixture(scope="module")
def sampled(tmp_path_factory) -> dict[str, float]:
    settings = SamplingSettings(num_samples=8, temperature=1.0, max_new_tokens=96)
    return evaluated(settings, tmp_path_factory.mktemp("sampled"), num_problems=16)


def test_the_weights_are_small_and_in_full_precision():
    model = AutoModelForCausalLM.from_pretrained(lab_model_dir())
    assert 0.8e6 < model.num_parameters() < 1.5e6
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert (lab_model_dir() / "model.safetensors").stat().st_size < 8e6


def test_the_shipped_tokenizer_is_the_one_that_the_code_makes():
    shipped, made = AutoTokenizer.from_pretrained(lab_model_dir()), make_tokenizer()
    assert shipped.get_vocab() == made.get_vocab()
    assert shipped.chat_template == made.chat_template
    assert (shipped.pad_token, shipped.eos_token, shipped.padding_side) == ("<pad>", "<eos>", "left")


def test_the_base_leaves_something_to_learn(sampled):
    assert 0.22 < sampled["pass@1"] < 0.55
    assert 0.70 < sampled["format_rate"] < 0.95


def test_most_problems_are_solved_by_one_of_8_samples(sampled):
    assert sampled["pass@8"] > 0.7


def test_the_entropy_is_well_above_0_and_below_the_threshold(sampled):
    assert 0.2 < sampled["mean_entropy"] < 0.9 * math.log(2)


def test_completions_are_short(sampled):
    assert 25 < sampled["mean_length"] < 60
    assert sampled["truncation_rate"] < 0.05


def test_greedy_decoding_is_often_careless(tmp_path):
    greedy = evaluated(SamplingSettings(num_samples=1, max_new_tokens=96), tmp_path, num_problems=64)
    assert 0.4 < greedy["pass@1"] < 0.75
    assert greedy["format_rate"] > 0.95
