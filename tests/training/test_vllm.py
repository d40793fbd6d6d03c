"""`gtpo train --use_vllm true`: the options reach TRL's interface to vLLM, with and without LoRA, in both modes.

A stand-in behind the interface returns random tokens. Generation and weight sync are TRL's own.
"""

import math
import re

import pytest
import torch

from gtpo import ConfigError, GTPOTrainer
from gtpo.training.config.plan import make_plan
from gtpo.training.config.recipe import parse_overrides
from gtpo.training.prepare import prepare
from gtpo.training.session import make_trainer
from trl import GRPOTrainer

COMMON = "--max_steps 2 --per_device_train_batch_size 8 --gradient_accumulation_steps 2 --max_completion_length 8"
COLOCATE = "--use_vllm true --vllm_gpu_memory_utilization 0.25 --vllm_max_model_length 512"
SERVER = "--use_vllm true --vllm_mode server --vllm_server_base_url http://sampler:8000"
LORA = "--use_peft true --lora_r 4 --lora_target_modules q_proj v_proj"


class StandIn:
    """TRL's VLLMGeneration without vLLM."""

    made: "StandIn"

    def __init__(self, **options):
        self.options, self.num_syncs = options, 0
        self.vllm_client = self
        StandIn.made = self

    def get_server_info(self):
        return {"model_config": {"logprobs_mode": "processed_logprobs"}}

    def sync_weights(self):
        self.num_syncs += 1

    def generate(self, prompts, images, num_generations, profiler):
        lengths = torch.randint(2, 9, (len(prompts),)).tolist()
        ids = [torch.randint(3, 60, (length,)).tolist() for length in lengths]
        return prompts, ids, [[[-math.log(60)]] * length for length in lengths], None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (COLOCATE, {"mode": "colocate", "gpu_memory_utilization": 0.25, "max_model_length": 512, "max_num_seqs": 16}),
        (f"{COLOCATE} {LORA}", {"mode": "colocate", "tensor_parallel_size": 1}),
        (COLOCATE, {"generation_kwargs": {"detokenize": False, "flat_logprobs": True}}),
        ([*COLOCATE.split(), "--generation_kwargs", '{"stop": ["."]}'], {"generation_kwargs": {"stop": ["."]}}),
        (f"{COLOCATE} --vllm_enable_sleep_mode true", {"enable_sleep_mode": True}),
        (f"{COLOCATE} --vllm_importance_sampling_correction false", {"logprobs": 0}),
        (SERVER, {"mode": "server", "server_base_url": "http://sampler:8000", "generation_kwargs": None}),
        (f"{SERVER} {LORA} --conflict_match prefix --entropy_filter all", {"mode": "server"}),
    ],
    ids=[
        "colocate",
        "colocate, lora",
        "ids only",
        "stop strings",
        "sleep mode",
        "no correction",
        "server",
        "server, lora, knobs",
    ],
)
def test_gtpo_trains_with_vllms_options(options, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", StandIn)
    monkeypatch.setattr("gtpo.training.prepare.is_vllm_available", lambda: True)
    command = f"--output_dir {tmp_path} --save_strategy no --max_problems 16 {COMMON}".split()
    command += options if isinstance(options, list) else options.split()
    plan = make_plan(None, parse_overrides(command))
    trainer = make_trainer(prepare(plan))
    trainer.train()
    made = StandIn.made
    assert made.options.items() >= expected.items()
    assert "detokenize" not in (plan.config.generation_kwargs or {})  # the caller's config stays as it is
    assert made.num_syncs == 2
    last = [entry for entry in trainer.state.log_history if "loss" in entry][-1]
    is_corrected = plan.config.vllm_importance_sampling_correction
    assert ("sampling/importance_sampling_ratio/mean" in last) == is_corrected
    assert last["gtpo/entropy_mean"] > 0


def test_the_methods_that_call_vllm_are_the_parents():
    for name in ("_generate", "_generate_single_turn", "_tokenize_prompts", "_tool_call_loop"):
        assert getattr(GTPOTrainer, name) is getattr(GRPOTrainer, name)


def test_prompts_that_do_not_fit_into_vllms_context_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gtpo.training.prepare.is_vllm_available", lambda: True)
    command = f"--output_dir {tmp_path} --max_problems 16 {COMMON} --use_vllm true --vllm_max_model_length"
    with pytest.raises(ConfigError, match=r"the longest prompt \(\d+\) and max_completion_length \(8\)") as refusal:
        prepare(make_plan(None, parse_overrides([*command.split(), "20"])))
    needed = re.findall(r"\d+", str(refusal.value))[-1]
    assert len(prepare(make_plan(None, parse_overrides([*command.split(), needed]))).problems) == 16
