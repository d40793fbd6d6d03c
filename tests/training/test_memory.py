"""The estimate of activations agrees with what was measured on a card, and is left out where it is not known."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from transformers import Qwen2Config

from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.memory import activations, fits_without_checkpointing, memory_lines
from gtpo.training.prepare import prepare

QWEN = SimpleNamespace(num_hidden_layers=28, hidden_size=1536, intermediate_size=8960, vocab_size=151_936)
GB = 1e9


# Peak memory of TRL GRPO on an H200 less weights, gradients, optimizer. fp32: bench_whole_step, 124.5 and 59.2 GB less
# 24.7 GB, and 24 GB for vLLM. bf16: bench_update, rows of 1,124 tokens, less 12.3 GB: micro-batches of 32 with and
# without checkpointing 21.4 and 126 GB, of 16 without it 70 GB.
MEASURED = [
    (4, 32 * 480, "complete", 124.5 - 24.7 - 24),
    (4, 32 * 480, "checkpointed", 59.2 - 24.7 - 24),
    (2, 32 * 1124, "complete", 126 - 12.3),
    (2, 32 * 1124, "checkpointed", 21.4 - 12.3),
    (2, 16 * 1124, "complete", 70 - 12.3),
]


@pytest.mark.parametrize(("weight_bytes", "num_tokens", "name", "measured"), MEASURED)
def test_it_is_within_a_third_of_what_was_measured(weight_bytes, num_tokens, name, measured):
    estimate = activations(QWEN, num_tokens, weight_bytes)
    assert getattr(estimate, name) / GB == pytest.approx(measured, rel=1 / 3)


def test_a_model_without_known_layers_has_no_estimate():
    assert activations(SimpleNamespace(hidden_size=8), 1) is None
    assert activations(SimpleNamespace(**vars(QWEN), num_experts=8), 1) is None


@pytest.mark.parametrize(
    ("total", "share", "fits"), [(150 * GB, 0.17, True), (150 * GB, 0.4, False), (80 * GB, 0, False)]
)
def test_the_sampler_leaves_the_rest_of_the_card(total, share, fits):
    estimate = activations(QWEN, 32 * 480)
    assert fits_without_checkpointing(estimate, 24.7 * GB, total, share) is fits


# Measured with fp32 weights: 24.7 GB, with bf16: 12.3 GB (above); LoRA's base takes its weights alone.
STATES = [
    ("", "float32", "23 GiB"),
    ("", "bfloat16", "12 GiB"),
    ("", "float16", "12 GiB"),
    ("", "auto", "12 GiB"),
    ("--use_peft true", "bfloat16", "2.9 GiB"),
]


@pytest.mark.parametrize(("options", "dtype", "size"), STATES)
def test_weights_gradients_and_moments_have_the_dtype_that_the_model_is_loaded_with(options, dtype, size, tmp_path):
    command = f"--model lab --problems lab --output_dir {tmp_path} --max_problems 16 {options}"
    prepared = prepare(make_plan(None, parse_overrides(command.split())))
    prepared.plan.config.model_init_kwargs["dtype"] = dtype  # a CPU gets float32
    settings = Qwen2Config(**vars(QWEN), num_attention_heads=12, num_key_value_heads=2, tie_word_embeddings=True)
    settings.dtype = "bfloat16"
    lines = dict(memory_lines(dataclasses.replace(prepared, model_settings=settings), 20))
    assert lines["size"] == f"about 1,544 M parameters, {size} for weights and optimizer"


def test_a_dry_run_says_when_checkpointing_can_be_off(tmp_path, monkeypatch):
    command = f"--model lab --problems lab --output_dir {tmp_path} --max_problems 16 --gradient_checkpointing true"
    prepared = prepare(make_plan(None, parse_overrides(command.split())))
    assert [name for name, _ in memory_lines(prepared, 20)] == ["size", "memory"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=80 * GB))
    assert memory_lines(prepared, 20)[-1][1].endswith("of this GPU without: --gradient_checkpointing false")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=1e6))
    assert len(memory_lines(prepared, 20)) == 2
