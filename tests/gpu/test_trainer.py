"""GTPOTrainer on CUDA: the paper's advantages in fp32, bounded differences in bf16, trimming that changes nothing."""

import math
import random

import pytest
import torch
from peft import LoraConfig

from gtpo import GTPOConfig, GTPOTrainer
from tests.trl.checked import last_log, parity_reward, prompts, settings, train

pytestmark = pytest.mark.gpu
LORA = {"target_modules": ["q_proj", "v_proj"], "r": 4, "lora_alpha": 8}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"peft_config": LoraConfig(**LORA)},
        {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4, "gradient_checkpointing": True},
        {"num_iterations": 2},
        {"beta": 0.1},
    ],
    ids=["full", "lora", "accumulation", "an old-logps pass", "a reference model"],
)
def test_in_fp32_the_advantages_are_the_papers(options, tiny_model, tmp_path):
    trainer = train(tiny_model, **settings(tmp_path, bf16=False, **options))
    assert trainer.model.device.type == "cuda"
    assert trainer.checks >= 2
    assert trainer.seen["filtered"] > 0
    assert trainer.seen["conflict"] > 0


def stored(prompts, trainer):
    """Completions that depend on nothing but the prompt and its copy: uneven lengths, shared openings and endings."""
    completions = []
    for copy, prompt in enumerate(prompts):
        rng = random.Random(f"{prompt} {copy % trainer.num_generations}")
        middle = [rng.randint(20, 40) for _ in range(rng.randint(0, 30))]
        completions.append([*rng.choice([[20, 21], [20, 22]]), *middle, 50, 1])
    first = [[5, 6, 7][: 1 + len(prompt) % 3] for prompt in prompts]
    return {"prompt_ids": first, "completion_ids": completions, "logprobs": None}


def one_step(model, tmp_path, peft_config=None, **options):
    """Gradient of one optimizer step on stored rollouts, and what was logged."""
    gradients = {}

    class Watched(GTPOTrainer):
        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            gradients.update({n: p.grad.float().clone() for n, p in self.model.named_parameters() if p.requires_grad})
            return loss

    chosen = {"max_steps": 1, "num_generations": 4, "per_device_train_batch_size": 4, "max_completion_length": 40}
    config = GTPOConfig(**settings(tmp_path, **{**chosen, "gradient_accumulation_steps": 4, **options}))
    trainer = Watched(model, parity_reward, config, prompts(), rollout_func=stored, peft_config=peft_config)
    trainer.train()
    return torch.cat([g.flatten() for g in gradients.values()]), last_log(trainer), trainer


def difference(one, other):
    return ((one - other).norm() / other.norm()).item()


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_in_bf16_entropy_and_gradient_stay_near_those_in_fp32(lora, tiny_model, tmp_path):
    """Bounds: 0.05 nats on the mean entropy of about 1.7, 20 % on the gradient. No filter: it is a threshold."""
    adapter = {"peft_config": LoraConfig(**LORA, init_lora_weights=False)} if lora else {}
    exact, exact_log, _ = one_step(tiny_model, tmp_path / "a", bf16=False, entropy_filter="off", **adapter)
    rounded, rounded_log, trainer = one_step(tiny_model, tmp_path / "b", entropy_filter="off", **adapter)
    assert trainer.args.bf16
    assert abs(rounded_log["gtpo/entropy_mean"] - exact_log["gtpo/entropy_mean"]) < 0.05
    assert rounded_log["gtpo/frac_conflict"] == exact_log["gtpo/frac_conflict"] > 0
    assert 0 < difference(rounded, exact) < 0.2


def test_several_steps_in_bf16_stay_finite(tiny_model, tmp_path):
    trainer = train(tiny_model, trainer=GTPOTrainer, **settings(tmp_path, max_steps=5))
    assert trainer.args.bf16
    assert math.isfinite(last_log(trainer)["loss"])
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())


@pytest.mark.parametrize(("is_bf16", "bound"), [(False, 1e-4), (True, 0.05)], ids=["fp32", "bf16"])
def test_trimmed_batches_give_the_gradient_of_padded_ones(is_bf16, bound, tiny_model, tmp_path):
    """Up to rounding: the kernels that CUDA chooses depend on the width."""
    padded, _, _ = one_step(tiny_model, tmp_path / "a", bf16=is_bf16, entropy_filter="off", trim_batches=False)
    trimmed, _, _ = one_step(tiny_model, tmp_path / "b", bf16=is_bf16, entropy_filter="off", trim_batches=True)
    assert difference(trimmed, padded) <= bound
