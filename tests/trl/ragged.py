"""Runs on stored completions of different lengths that keep the gradients and the shapes of all forward passes."""

import random
from typing import Any

import torch
from transformers import TrainerCallback

from gtpo import FastGRPOTrainer, GTPOConfig, GTPOTrainer
from tests.trl.checked import prompts
from trl import GRPOConfig, GRPOTrainer


def stored(prompt: str, copy: int) -> list[int]:
    """A completion of 3 to 17 tokens with a shared opening and ending; some are truncated."""
    rng = random.Random(f"{prompt} {copy}")
    middle = [rng.randint(20, 40) for _ in range(rng.choice([0, 1, 2, 3, 14]))]
    return [*rng.choice([[20, 21], [20, 22]]), *middle, *([50, 1] if rng.random() < 0.8 else [51])]


def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
    copies = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
    completions = [stored(prompt, row % copies) for row, prompt in enumerate(prompts)]
    prompt_ids = [[5, *range(20, 20 + sum(map(ord, prompt)) % 7)] for prompt in prompts]
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": completions,
        "logprobs": [[-1.0 - token % 3 for token in ids] for ids in completions],
    }


def rollout_with_tools(prompts: list[str], trainer: Any) -> dict[str, Any]:
    output = rollout(prompts, trainer)
    return {**output, "env_mask": [[int(place % 4 != 1) for place in range(len(x))] for x in output["completion_ids"]]}


def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(sum(ids) % 3) for ids in completion_ids]


def mostly_tied(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """About one completion in eight differs from its group."""
    return [float(sum(ids) % 8 == 0) for ids in completion_ids]


class Watching:
    """Mixin: `gradients` of optimizer steps, (rows, columns) of the forwards of the `update` and of `scoring`."""

    is_corrected = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gradients: list[torch.Tensor] = []
        self.update: list[tuple[int, int]] = []
        self.scoring: list[tuple[int, int]] = []
        self.batches: list[dict[str, Any]] = []
        self.model.register_forward_pre_hook(self.note_shape, with_kwargs=True)
        self.add_callback(_Gradients(self.gradients))

    def note_shape(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        (self.update if torch.is_grad_enabled() else self.scoring).append(tuple(kwargs["input_ids"].shape))

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self.batches.append(inputs)
        return super()._compute_loss(model, inputs)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        if self.is_corrected:  # without vLLM itself, but with everything that TRL does with its log-probs
            self.use_vllm, self._last_loaded_step = True, -1
            self.vllm_generation = type("Stub", (), {"sync_weights": lambda self: None})()
        initial = self.weights()
        super().train(*args, **kwargs)
        self.movement = self.weights() - initial

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten().clone() for p in self.model.parameters() if p.requires_grad])


class Watched(Watching, GTPOTrainer):
    pass


class Corrected(Watched):
    is_corrected = True


class Stock(Watching, GRPOTrainer):
    pass


class Fast(Watching, FastGRPOTrainer):
    pass


class _Gradients(TrainerCallback):
    def __init__(self, gradients: list[torch.Tensor]) -> None:
        self.gradients = gradients

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))


def run(model: Any, folder: Any, **options: Any) -> Any:
    """A generation batch has 24 rows of 6 prompts. Plain gradient descent, which shows a wrong scale."""
    of_trainer = {
        name: options.pop(name) for name in ("peft_config", "rollout_func", "processing_class") if name in options
    }
    of_trainer.setdefault("rollout_func", rollout)
    resume = options.pop("resume_from_checkpoint", None)
    trainer_class, score = options.pop("trainer", Watched), options.pop("reward", reward)
    of_gtpo = {"initial_entropy": 0.0, "entropy_threshold": 3.0, "record_groups": 0}
    is_gtpo = issubclass(trainer_class, GTPOTrainer)
    settings = {
        "output_dir": str(folder),
        "num_generations": 4,
        "per_device_train_batch_size": 6,
        "max_steps": 2,
        "gradient_accumulation_steps": 4,
        "learning_rate": 1e-2,
        "optim": "sgd",
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "max_completion_length": 20,
        **(of_gtpo if is_gtpo else {"bf16": False, "use_cpu": True}),
        **options,
    }
    config = (GTPOConfig if is_gtpo else GRPOConfig)(**settings)
    trainer = trainer_class(model, score, config, prompts(24), **of_trainer)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def distance(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative L2 distance."""
    return ((actual - expected).norm() / expected.norm().clamp(min=1e-30)).item()
