"""A generation batch after scoring, as the records see it."""

import dataclasses
import functools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import ShapedAdvantages, shape_advantages
from gtpo.records import CompletionRecord, shaped_fields
from gtpo.trl.watching.choosing import RowSummary, end_tokens, summarise


@dataclasses.dataclass(frozen=True)
class Shaping:
    """What a credit scheme got and returned. Row 0 of the batch is row `first` of all tensors but `token_logps`."""

    method: str
    parameters: dict[str, Any]
    credit: Tensor  # Ã
    shaped: ShapedAdvantages | None  # if the scheme is GTPO
    advantages: Tensor  # A
    valid: Tensor
    first: int
    token_entropy: Tensor | None
    token_logps: Tensor | None
    component_advantages: Tensor | None
    token_component: Tensor | None
    initial_entropy: float | None
    batch_entropy: float | None


@dataclasses.dataclass(frozen=True)
class Generated:
    """A scored batch. `rewards` has the rows of all processes, everything else those of this process."""

    batch: dict[str, Any]
    rewards: Tensor | None  # one column per reward function, NaN where it could not score; None if unknown
    completion_ids: list[list[int]] | None = None  # as sampled: `batch` masks truncated completions out if asked to
    shaping: Shaping | None = None

    @functools.cached_property
    def sizes(self) -> list[int]:
        """The number of tokens of each completion."""
        if self.completion_ids is None:
            return self.batch["completion_mask"].sum(1).tolist()
        return [len(ids) for ids in self.completion_ids]

    @functools.cached_property
    def trained(self) -> Tensor:
        """The tokens that the loss is taken over."""
        mask: Tensor = self.batch["completion_mask"].bool()
        return mask & self.batch["tool_mask"].bool() if "tool_mask" in self.batch else mask

    @functools.cached_property
    def advantages(self) -> Tensor:
        """A of each row. If another trainer has one advantage per token, their mean."""
        num_rows = len(self.sizes)
        if self.shaping is not None:
            return self.shaping.advantages[self.shaping.first :][:num_rows]
        advantages: Tensor = self.batch["advantages"]
        if advantages.dim() == 1:
            return advantages
        return (advantages * self.trained).sum(1) / self.trained.sum(1).clamp(min=1)

    def first_row(self, trainer: Any) -> int:
        """The number of the first row of this process among those of all processes."""
        return trainer.accelerator.process_index * len(self.sizes)

    def local_rewards(self, trainer: Any) -> Tensor:
        """The rewards of this process's rows, one column per reward function."""
        if self.rewards is None:
            return torch.zeros(len(self.sizes), 0)
        return self.rewards[self.first_row(trainer) :][: len(self.sizes)].float().cpu()

    def totals(self, trainer: Any) -> Tensor:
        """The weighted sum of the rewards of each row."""
        return total_rewards(self.local_rewards(trainer), trainer.reward_weights.float().cpu())

    def require_sampled_rows(self) -> None:
        """Raise RuntimeError if the batch has other rows than those that were scored."""
        rows: list[list[int]] = self.batch["completion_ids"].tolist()
        for row, sampled in zip(rows, self.completion_ids or rows, strict=True):
            if row[: len(sampled)] != list(sampled):
                raise RuntimeError("the trainer changes or reorders completions after it has scored them")

    def summaries(self, trainer: Any) -> list[RowSummary]:
        self.require_sampled_rows()
        totals = self.advantages if self.rewards is None else self.totals(trainer)
        completion_ids: Tensor = self.batch["completion_ids"]
        return summarise(completion_ids, self.sizes, totals.tolist(), self.advantages.tolist(), end_tokens(trainer))

    def prompt_ids(self, row: int) -> list[int]:
        return self.batch["prompt_ids"][row][self.batch["prompt_mask"][row].bool()].tolist()

    def completion(self, trainer: Any, row: int, logps: Tensor | None, entropies: Tensor | None) -> CompletionRecord:
        """The record of one row, without texts; `logps` and `entropies` belong to its tokens."""
        size = self.sizes[row]
        scores: list[float] = self.local_rewards(trainer)[row].tolist()
        names = trainer.reward_func_names if scores else []
        total = self.totals(trainer)[row].item() if scores else None
        token_ids: list[int] = self.batch["completion_ids"][row, :size].tolist()
        trained, is_valid = self.trained[row, :size], any(not math.isnan(score) for score in scores) or not scores
        is_valid = is_valid and bool(trained.any())
        advantage: Tensor = self.batch["advantages"][row]
        shaping, number = self.shaping, row
        if shaping is not None:
            number += shaping.first
            advantage, is_valid = shaping.credit[number], bool(shaping.valid[number])
        if shaping is not None and shaping.shaped is not None:
            entropy = None if entropies is None else shaping.shaped.entropy[number].item()
            shaped = shaped_fields(shaping.shaped, number, size)
        else:
            entropy = None if entropies is None else _mean(entropies[:size].cpu(), trained.cpu())
            shaped: dict[str, Any] = {
                "push": self.advantages[row].item(),
                "kept": is_valid,
                "valid": is_valid,
                "prefix": 0,
                "suffix": 0,
                "token_weight": trained.float().tolist(),
                "token_advantage": _rounded(
                    (advantage if advantage.dim() else advantage.expand(size))[:size] * trained
                ),
                "trained": trained.tolist(),
            }
        return CompletionRecord(
            token_ids=token_ids,
            pieces=None,
            rewards={name: None if math.isnan(score) else score for name, score in zip(names, scores, strict=True)},
            advantage=self.advantages[row].item(),
            entropy=entropy,
            token_entropy=None if entropies is None else _rounded(entropies[:size]),
            token_logp=None if logps is None else _rounded(logps[:size]),
            truncated=size > 0 and token_ids[-1] not in end_tokens(trainer),
            reward=None if total is None or math.isnan(total) else total,
            component_advantages=None if shaping is None else _list_of(shaping.component_advantages, number),
            token_component=None if shaping is None else _list_of(shaping.token_component, number, size),
            **shaped,
        )


def with_conflicts(completions: list[CompletionRecord]) -> list[CompletionRecord]:
    """Add to the completions of one group what GTPO's conflict weights would have changed."""
    ids = _padded([completion.token_ids or [] for completion in completions])
    shaped = shape_advantages(
        ids,
        _padded([[1] * completion.num_tokens for completion in completions]),
        torch.tensor([completion.advantage or 0.0 for completion in completions], dtype=torch.float64),
        torch.zeros(ids.shape, dtype=torch.float64),
        torch.zeros(len(completions), dtype=torch.int64),
        initial_entropy=None,
        loss_mask=_padded([list(map(int, completion.trained)) for completion in completions]),
        valid=torch.tensor([completion.valid for completion in completions]),
        config=ShapingConfig(entropy_filter="off", entropy_penalty=0.0),
    )
    return [
        dataclasses.replace(
            completion,
            prefix=int(shaped.prefix_mask[row].sum()),
            suffix=int(shaped.suffix_mask[row].sum()),
            token_weight=shaped.token_weight[row, : completion.num_tokens].tolist(),
        )
        for row, completion in enumerate(completions)
    ]


def total_rewards(rewards: Tensor, weights: Tensor) -> Tensor:
    """The weighted sum of each row's rewards; NaN if no function could score it."""
    total = (rewards * weights).nansum(1)
    return torch.where(rewards.isnan().all(1), torch.nan, total)


def _list_of(values: Tensor | None, row: int, size: int | None = None) -> list[Any] | None:
    return None if values is None else values[row, :size].tolist()


def _mean(values: Tensor, trained: Tensor) -> float:
    return values[trained].mean().item() if trained.any() else 0.0


def _padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], batch_first=True)


def _rounded(values: Tensor) -> list[float | None]:
    """Seven significant digits: what float32 holds, in half the space."""
    return [float(f"{value:.7g}") for value in values.tolist()]
