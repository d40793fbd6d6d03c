"""The unmodified `python -m verl.trainer.main_ppo` with GTPO, on a CPU, for a few steps: `make test-verl-full`.

Everything except the device and the sampler (cpu_backend.py) is verl's own: Hydra, Ray, TransferQueue, agent loop,
reward loop, FSDP2 workers over gloo, weight sync, checkpoints, logger. The tests compute the advantages of the first
step again from the samples, the initial weights and the oracle.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.oracle import paper
from tests.verl.stored import COMMAND

TESTS = Path(__file__).parents[2]
TEMPERATURE = 0.8
FP32 = "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}"
OPTIONS = [
    "data.train_batch_size=4",
    "data.max_prompt_length=16",
    "data.max_response_length=10",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.actor.optim.lr=1e-3",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    f"actor_rollout_ref.rollout.temperature={TEMPERATURE}",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "reward.num_workers=1",
    "trainer.logger=[console,file]",
    "trainer.nnodes=1",
    "trainer.val_before_train=False",
    "trainer.test_freq=-1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    # what a CPU needs
    "actor_rollout_ref.rollout.name=hf_cpu",
    "trainer.device=cpu",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "actor_rollout_ref.actor.fsdp_config.model_dtype=fp32",
    "actor_rollout_ref.actor.fsdp_config.dtype=float32",
    f"+actor_rollout_ref.actor.fsdp_config.mixed_precision={FP32}",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
    "actor_rollout_ref.actor.use_torch_compile=False",
    "actor_rollout_ref.model.use_remove_padding=False",
    "+actor_rollout_ref.model.override_config.attn_implementation=eager",
    "ray_kwargs.ray_init.num_cpus=16",
    "+ray_kwargs.ray_init.include_dashboard=False",
]
ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "VERL_USE_EXTERNAL_MODULES": "tests.verl.cpu_backend",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "HF_HUB_OFFLINE": "1",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    "HYDRA_FULL_ERROR": "1",
    "PYTHONWARNINGS": "ignore",
}


@pytest.fixture
def folder(tmp_path, tiny_model):
    row = {"data_source": "toy", "ability": "x", "reward_model": {"style": "rule", "ground_truth": "w1"}}
    prompts = [f"say w{i} :" for i in range(16)]
    rows = [
        {**row, "prompt": [{"role": "user", "content": prompt}], "extra_info": {"index": i}}
        for i, prompt in enumerate(prompts)
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "prompts.parquet")
    (tmp_path / "reward.py").write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n"
        "    return float(len(solution_str) % 2)\n"
    )
    return tmp_path


def main_ppo(folder, model, num_workers, steps, *more):
    """Train. Returns what verl logged, by step."""
    ray_folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    log = folder / "metrics.jsonl"
    log.unlink(missing_ok=True)
    command = [
        *COMMAND,
        *OPTIONS,
        f"data.train_files={folder}/prompts.parquet",
        f"data.val_files={folder}/prompts.parquet",
        f"actor_rollout_ref.model.path={model}",
        f"reward.custom_reward_function.path={folder}/reward.py",
        f"trainer.n_gpus_per_node={num_workers}",
        f"+ray_kwargs.ray_init.num_gpus={num_workers}",
        f"+ray_kwargs.ray_init._temp_dir={ray_folder}",
        f"trainer.total_training_steps={steps}",
        f"trainer.default_local_dir={folder}/checkpoints",
        f"hydra.run.dir={folder}/hydra",
        *more,
    ]
    files = {"VERL_FILE_LOGGER_PATH": str(log), "HF_CPU_SAMPLES": str(folder / "samples.jsonl")}
    environment = {**os.environ, **ENVIRONMENT, **files, "PYTHONPATH": str(TESTS)}
    del environment["CUDA_VISIBLE_DEVICES"]  # Ray takes the number of devices from it
    try:
        done = subprocess.run(
            [sys.executable, "-m", "verl.trainer.main_ppo", *command],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=540, check=False,
        )  # fmt: skip
    finally:
        shutil.rmtree(ray_folder, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return {row["step"]: row["data"] for row in map(json.loads, log.read_text().splitlines())}


def first_step(folder, model):
    """The completions of step 1 with the initial policy's entropies, as the oracle takes them."""
    tokenizer, policy = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model)
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()][:16]
    groups = {}
    for sample in samples:
        sample["reward"] = float(len(tokenizer.decode(sample["tokens"], skip_special_tokens=True)) % 2)
        groups.setdefault(tuple(sample["prompt"]), []).append(sample["reward"])
    assert [len(group) for group in groups.values()] == [4] * 4
    batch = []
    for sample in samples:
        prompt, tokens = sample["prompt"], sample["tokens"]
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1] / TEMPERATURE
        entropies = torch.distributions.Categorical(logits=logits).entropy().tolist()
        rewards = groups[tuple(prompt)]
        advantage = sample["reward"] - sum(rewards) / len(rewards)
        batch.append(paper.Completion(tokens, advantage, list(groups).index(tuple(prompt)), entropies))
    return batch


def assert_first_step_matches_the_oracle(folder, model, logged):
    batch = first_step(folder, model)
    entropy = sum(map(paper.mean_entropy, batch)) / len(batch)
    assert logged["gtpo/entropy_mean"] == pytest.approx(entropy, abs=1e-4)
    assert logged["gtpo/initial_entropy"] == pytest.approx(entropy, abs=1e-4)
    shaped = [value for me in batch for value in paper.shaped(batch, me, initial_entropy=entropy)]
    assert logged["critic/advantages/mean"] == pytest.approx(sum(shaped) / len(shaped), abs=1e-4)
    assert logged["critic/advantages/max"] == pytest.approx(max(shaped), abs=1e-4)
    assert logged["critic/advantages/min"] == pytest.approx(min(shaped), abs=1e-4)
    conflicts = [paper.conflicts(batch, me, "both", "position") for me in batch]
    skipped = sum(sum(flags) for flags, me in zip(conflicts, batch, strict=True) if me.advantage < 0)
    amplified = sum(sum(flags) for flags, me in zip(conflicts, batch, strict=True) if me.advantage > 0)
    assert (logged["gtpo/num_tokens_skipped"], logged["gtpo/num_tokens_amplified"]) == (skipped, amplified)
    assert skipped > 0
    assert amplified > 0


def test_one_worker_trains_two_steps_and_resumes_for_a_third(folder, tiny_model):
    logged = main_ppo(folder, tiny_model, 1, 2, "trainer.save_freq=2", "+algorithm.gtpo.initial_entropy_prompts=8")
    assert sorted(logged) == [1, 2]
    assert_first_step_matches_the_oracle(folder, tiny_model, logged[1])
    for step in (1, 2):
        assert logged[step]["gtpo/entropy_mean"] == pytest.approx(logged[step]["actor/entropy"], abs=1e-6)
        assert logged[step]["training/rollout_probs_diff_max"] < 1e-4  # the sampler has the actor's weights
    both = (logged[1]["gtpo/entropy_mean"] + logged[2]["gtpo/entropy_mean"]) / 2
    assert logged[2]["gtpo/initial_entropy"] == pytest.approx(both, abs=1e-6)
    assert logged[2]["gtpo/entropy_mean"] != logged[1]["gtpo/entropy_mean"]

    resumed = main_ppo(folder, tiny_model, 1, 3, "trainer.save_freq=-1", "+algorithm.gtpo.initial_entropy_prompts=8")
    assert sorted(resumed) == [3]
    assert resumed[3]["gtpo/initial_entropy"] == logged[2]["gtpo/initial_entropy"]
    assert resumed[3]["gtpo/entropy_mean"] != resumed[3]["gtpo/initial_entropy"]


def test_two_workers_train_two_steps(folder, tiny_model):
    logged = main_ppo(folder, tiny_model, 2, 2, "trainer.save_freq=-1", "trainer.resume_mode=disable")
    assert sorted(logged) == [1, 2]
    assert_first_step_matches_the_oracle(folder, tiny_model, logged[1])
    for step in (1, 2):
        assert logged[step]["gtpo/entropy_mean"] == pytest.approx(logged[step]["actor/entropy"], abs=1e-6)
        assert logged[step]["training/rollout_probs_diff_max"] < 1e-4


def test_the_user_sees_why_an_option_is_refused(folder, tiny_model):
    with pytest.raises(
        AssertionError, match=r"GTPO does not support actor_rollout_ref\.actor\.loss_agg_mode='token-mean'"
    ):
        main_ppo(folder, tiny_model, 1, 1, "actor_rollout_ref.actor.loss_agg_mode=token-mean")
