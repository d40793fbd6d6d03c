"""A GTPOTrainer that recomputes its advantages with the oracle and a plain forward pass."""

import math
from typing import Any

import torch
from datasets import Dataset

from gtpo import GTPOConfig, GTPOTrainer
from tests.oracle import paper


def prompts(count: int = 16) -> Dataset:
    return Dataset.from_dict({"prompt": [f"say w{i} :" for i in range(count)], "wanted": list(range(count))})


def parity_reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """1 for completions whose ids add up to an odd number: about half of the completions of a random model."""
    return [float(sum(ids) % 2) for ids in completion_ids]


def settings(tmp_path: Any, **overrides: Any) -> dict[str, Any]:
    return {
        "output_dir": str(tmp_path),
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "top_k": 3,  # few candidates: conflicts happen
        "entropy_threshold": 1.8,  # about half of the tiny model's completions are above
        "initial_entropy": 0.0,  # so the filter is on
        **overrides,
    }


def advantage(reward: float, group: list[float], batch: list[float], scale_rewards: str) -> float:
    """The reward minus the mean of its group, divided by what `scale_rewards` names. A tie is exactly 0."""
    difference = reward - sum(group) / len(group)
    if scale_rewards == "none":
        return difference
    if abs(difference) <= 1e-5:
        return 0.0
    around = group if scale_rewards == "group" else batch
    mean = sum(around) / len(around)
    return difference / (math.sqrt(sum((other - mean) ** 2 for other in around) / (len(around) - 1)) + 1e-4)


class CheckedTrainer(GTPOTrainer):
    """`checks` counts compared batches, `seen` what they contained, `passes` the scoring forwards over the policy."""

    checks = 0
    passes = 0
    images: dict[str, torch.Tensor] = {}  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen = {"conflict": 0, "filtered": 0, "kept": 0, "invalid": 0, "untrained": 0}

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.raw_rewards = super()._calculate_rewards(*args, **kwargs)
        return self.raw_rewards

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() and model is self.model:
            self.passes += 1
        return super()._get_per_token_logps_and_entropies(model, *args, **kwargs)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        self.images = {name: batch[name] for name in ("pixel_values",) if name in batch}
        return batch

    def _credit(self, rows: Any, batch: dict[str, Any], *others: Any) -> torch.Tensor:
        credit = super()._credit(rows, batch, *others)
        passes = self.passes
        completions = self.completions(batch)
        self.passes = passes
        args = self.args
        for row, completion in enumerate(completions):
            expected = paper.shaped(
                completions,
                completion,
                initial_entropy=args.initial_entropy,
                edges=args.conflict_edges,
                match=args.conflict_match,
                positive=args.conflict_positive_weight,
                negative=args.conflict_negative_weight,
                filter_mode=args.entropy_filter,
                threshold=args.entropy_threshold,
                gamma=args.entropy_penalty,
                center=args.entropy_penalty_center,
                relative=args.entropy_penalty_relative,
            )
            got = credit[row].cpu()
            torch.testing.assert_close(got[: len(expected)], torch.tensor(expected), atol=1e-4, rtol=1e-4)
            assert not got[len(expected) :].any()
            kept = paper.is_kept(completion, args.entropy_filter, args.entropy_threshold, args.initial_entropy)
            self.seen["kept" if kept else "filtered"] += 1
            self.seen["invalid"] += not completion.valid
            self.seen["conflict"] += sum(
                paper.conflicts(completions, completion, args.conflict_edges, args.conflict_match)
            )
            self.seen["untrained"] += completion.trained.count(False)
        self.checks += 1
        return credit

    def completions(self, batch: dict[str, Any]) -> list[paper.Completion]:
        """The batch as the oracle takes it, with advantages from the raw rewards and entropies from plain logits."""
        group_size = self.num_generations if self.model.training else self.num_generations_eval
        weights = self.reward_weights.tolist()
        rewards = [
            None
            if all(map(math.isnan, row))
            else sum(w * r for w, r in zip(weights, row, strict=True) if not math.isnan(r))
            for row in self.raw_rewards.tolist()
        ]
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        images = {"pixel_values": batch["pixel_values"]} if "pixel_values" in batch else self.images
        with torch.no_grad():
            logits = self.model(input_ids=ids, attention_mask=mask, **images).logits / self.temperature
        logp = logits[:, -batch["completion_ids"].shape[1] - 1 : -1].log_softmax(-1)
        entropies = -(logp.exp() * logp).sum(-1)
        rows = []
        for row, (row_ids, row_mask) in enumerate(zip(batch["completion_ids"], batch["completion_mask"], strict=True)):
            size = int(row_mask.sum())
            group = range(row // group_size * group_size, row // group_size * group_size + group_size)
            scored = [rewards[i] for i in group if rewards[i] is not None]
            everything = [other for other in rewards if other is not None]
            reward = rewards[row]
            rows.append(
                paper.Completion(
                    row_ids[:size].tolist(),
                    0.0 if reward is None else advantage(reward, scored, everything, self.args.scale_rewards),
                    row // group_size,
                    entropies[row, :size].tolist(),
                    batch["tool_mask"][row, :size].bool().tolist() if "tool_mask" in batch else [],
                    reward is not None and size > 0,
                )
            )
        return rows


def train(
    model: Any, reward: Any = parity_reward, dataset: Any = None, trainer: type = CheckedTrainer, **kwargs: Any
) -> Any:
    """A short run; `kwargs` are options of GTPOConfig, or arguments of the trainer."""
    of_trainer = {
        name: kwargs.pop(name)
        for name in ("peft_config", "tools", "rollout_func", "eval_dataset", "processing_class", "callbacks")
        if name in kwargs
    }
    resume = kwargs.pop("resume_from_checkpoint", None)
    dataset = prompts() if dataset is None else dataset
    instance = trainer(model, reward, GTPOConfig(**kwargs), dataset, **of_trainer)
    instance.train(resume_from_checkpoint=resume)
    return instance


def last_log(trainer: Any) -> dict[str, float]:
    return [entry for entry in trainer.state.log_history if "loss" in entry][-1]
