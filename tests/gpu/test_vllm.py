"""GTPO with TRL's colocated vLLM: entropies from TRL's pass with the correction, from one of ours without."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny import save_tiny_model

pytestmark = pytest.mark.gpu
SCRIPT = Path(__file__).with_name("vllm_steps.py")


def test_lora_steps_with_vllm_score_the_policy_once(tmp_path):
    pytest.importorskip("vllm")
    model = os.environ.get("GTPO_GPU_MODEL")
    if model is None:
        model = str(tmp_path / "tiny")
        save_tiny_model(model, hidden_size=128, num_attention_heads=2, num_key_value_heads=1)  # heads of 64, for vLLM
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {
        "VLLM_NO_USAGE_STATS": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", **os.environ,
    }  # fmt: skip
    command = [sys.executable, str(SCRIPT), model, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert (tmp_path / "steps.json").is_file(), (done.stdout + done.stderr)[-4000:]
    steps = json.loads((tmp_path / "steps.json").read_text())
    assert [(step["rows_scored_by_trl"], step["rows_scored_by_us"]) for step in steps] == [(16, 0)] * 2 + [(0, 16)] * 2
    assert all(step["gtpo/entropy_mean"] > 0 for step in steps)
    assert "sampling/importance_sampling_ratio/mean" in steps[0]
    # The sampler's log-probs and the policy's own agree to bf16: the weights that vLLM samples from are the policy's.
    assert steps[1]["sampling/sampling_logp_difference/mean"] < 0.1
