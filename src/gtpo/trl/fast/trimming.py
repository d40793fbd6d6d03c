"""Padding-free updates.

TRL pads every micro-batch to the longest completion of the entire generation batch. Here the rows of one optimizer
step are sorted, longest first, and redistributed over the same number of micro-batches, so that all have about the
same number of tokens. Where completions can share their prompt and that is cheaper, those of one prompt stay together
instead (gtpo.trl.fast.sharing). Each micro-batch is cut to its own longest prompt and completion, and completions
whose advantages are all zero are left out. The gradient of the step does not change: a row never leaves its optimizer
step, and where the divisor of the loss changes, the row's advantages are rescaled. All processes agree on the number
of rows of each micro-batch, so they stay in step.
"""

import logging
import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gtpo.trl.fast.padding import COMPLETION_KEYS, PROMPT_KEYS, ROW_NUMBER, SHARED_KEYS, Padding, lengths
from gtpo.trl.fast.sharing import SharedPrompts, cost, shared_order

logger = logging.getLogger(__name__)

LOSS_DIVISORS = {
    "grpo": "rows",
    "sapo": "rows",
    "dr_grpo": "rows",
    "luspo": "rows",
    "bnpo": "tokens",
    "dapo": "step",
    "cispo": "step",
    "vespo": "step",
}
"""What a loss divides its sum over the rows of a micro-batch by: its rows, its tokens, or a number of the step."""


class TrimmedBatches(SharedPrompts):
    """Mixin for GRPO trainers with one advantage per completion or per token. `args.trim_batches=False` disables it.

    Where an option does not allow it, a warning gives the reason, and micro-batches keep TRL's rows or stay unchanged.
    """

    accelerator: Any
    _buffered_inputs: Any
    _step: int
    _warned: frozenset[str] = frozenset()

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        args: Any = self.args
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is before or not self._is_trimming():
            return inputs
        batches: list[dict[str, Any]] = self._buffered_inputs
        # Blocks of this size never cross the end of an optimizer step or of a generation batch.
        size = math.gcd(args.gradient_accumulation_steps, args.steps_per_generation)
        blocks = [batches[first : first + size] for first in range(0, len(batches), size)]
        self._buffered_inputs = [batch for block in blocks for batch in self._trimmed(block)]
        return self._buffered_inputs[self._step % args.steps_per_generation]

    def _trimmed(self, block: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Micro-batches of one optimizer step with as little padding as the options allow."""
        if reason := self._why_unchanged(block[0]):
            self._warn_once(f"Batches keep their padding: {reason}.")
            return block
        if reason := self._why_same_rows():
            self._warn_once(f"Padding is removed, but micro-batches keep their rows: {reason}.")
            padding = self._padding(self.model)
            return [padding.cut(batch) for batch in block]
        return self._repacked(block)

    def _why_unchanged(self, batch: dict[str, Any]) -> str | None:
        """Why nothing is known about the loss of these batches; the same on every process."""
        if self._is_vlm:
            return "the model takes images"
        if unknown := batch.keys() - PROMPT_KEYS - COMPLETION_KEYS - SHARED_KEYS - {ROW_NUMBER}:
            return f"gtpo does not know their key {min(unknown)!r}"
        if self.loss_type not in LOSS_DIVISORS:
            return f"gtpo does not know loss_type={self.loss_type!r}"
        if hasattr(self, "liger_loss"):  # before TRL 1.14
            return "with use_liger_kernel=True this version of TRL computes another loss"
        return None

    def _why_same_rows(self) -> str | None:
        """Why the loss is not a sum over rows, each weighted by its advantages."""
        if self.aux_loss_enabled:
            return "the auxiliary loss of the router depends on all rows of a micro-batch"
        if self.top_entropy_quantile < 1.0:
            return "top_entropy_quantile is a quantile over the tokens of a micro-batch"
        if self._entropy_bonus_enabled:
            return "the entropy bonus is a mean over the tokens of a micro-batch"
        if self.beta != 0.0 and LOSS_DIVISORS[self.loss_type] == "tokens":
            return f"with beta > 0, loss_type={self.loss_type!r} divides the KL term by the tokens of a micro-batch"
        return None

    def _repacked(self, block: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Redistribute the rows of micro-batches of one optimizer step over as many new ones."""
        padding = self._padding(self.model)
        rows = {
            key: value if key in SHARED_KEYS else torch.cat([batch[key] for batch in block])
            for key, value in block[0].items()
        }
        divisors = torch.cat([self._divisor(batch).expand(len(batch["advantages"])) for batch in block])
        advantages = rows["advantages"]
        per_token = advantages.reshape(len(advantages), -1) * _trained(rows)
        has_weight = per_token.ne(0).any(dim=1) if self.beta == 0.0 else torch.ones_like(divisors).bool()
        order, columns, sizes = self._layout(padding, rows, has_weight, [len(batch["advantages"]) for batch in block])
        if columns.any():  # rows that stay only to reach this number need a single token
            rows["completion_mask"][:, 1:] *= has_weight.unsqueeze(1)
        repacked: list[dict[str, Any]] = []
        for index in order[: sum(sizes)].split(sizes):
            batch = {key: value if key in SHARED_KEYS else value[index] for key, value in rows.items()}
            scale = self._divisor(batch) / divisors[index]
            batch["advantages"] = batch["advantages"] * scale.reshape(-1, *[1] * (advantages.dim() - 1))
            repacked.append(padding.cut(batch))
        return repacked

    def _layout(
        self, padding: Padding, rows: dict[str, Any], has_weight: Tensor, own_sizes: list[int]
    ) -> tuple[Tensor, Tensor, list[int]]:
        """An order of the rows, the columns that each of them needs, and how many each micro-batch gets."""
        layouts: list[tuple[Tensor, Tensor, list[int]]] = []
        has_fixed_sizes = self.beta != 0.0 and LOSS_DIVISORS[self.loss_type] == "rows"  # the KL term is not rescaled
        for order, own_columns, is_padded in self._orders(padding, rows, has_weight):
            columns = self.accelerator.gather(own_columns.unsqueeze(0)).amax(dim=0)  # the largest of all processes
            sizes = own_sizes
            if not has_fixed_sizes:
                num_rows = max(len(sizes), int(columns.ne(0).sum()))
                sizes = balanced_sizes(columns[:num_rows].tolist(), len(sizes), is_padded=is_padded)
            layouts.append((order, columns, sizes))
        if len(layouts) == 1:
            return layouts[0]
        costs = [self._cost(rows, has_weight, order[: sum(sizes)].split(sizes)) for order, _, sizes in layouts]
        gathered = self.accelerator.gather(rows["prompt_mask"].new_tensor([costs], dtype=torch.float32))
        return layouts[int(gathered.amax(dim=0).argmin())]

    def _orders(self, padding: Padding, rows: dict[str, Any], has_weight: Tensor) -> list[tuple[Tensor, Tensor, bool]]:
        """Orders of the rows, with the columns of each row, and whether rows are padded; those without weight last."""
        completion_mask, prompt_mask = rows["completion_mask"], rows["prompt_mask"]
        columns, order = (padding.columns(prompt_mask, completion_mask) * has_weight).sort(
            descending=True, stable=True
        )
        orders = [(order, columns, True)]
        if self._shares_prompts(self.model):
            used = lengths(completion_mask).clamp(min=1) * has_weight
            by_prompt, added = shared_order(rows["prompt_ids"], prompt_mask, used.tolist())
            orders.append((order.new_tensor(by_prompt), columns.new_tensor(added), False))
        return orders

    def _cost(self, rows: dict[str, Any], has_weight: Tensor, parts: Sequence[Tensor]) -> float:
        """An estimate of the time that these micro-batches take."""
        ids, prompts = rows["prompt_ids"].cpu(), rows["prompt_mask"].sum(dim=1).cpu()
        used = (lengths(rows["completion_mask"]).clamp(min=1) * has_weight).cpu()
        return sum(cost(ids[part], prompts[part].tolist(), used[part].tolist()) for part in (x.cpu() for x in parts))

    def _divisor(self, batch: dict[str, Any]) -> Tensor:
        """The divisor of TRL's sum over the rows of this micro-batch, up to a constant factor."""
        trained = _trained(batch)
        kind = LOSS_DIVISORS[self.loss_type]
        if kind == "tokens":
            return trained.sum().clamp(min=1).float()
        return trained.new_tensor(len(trained) if kind == "rows" else 1).float()

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **others: Any,
    ) -> Any:
        """Scoring passes over a generation batch run on sorted rows, each chunk cut to its longest one."""
        is_scoring = batch_size is not None and not torch.is_grad_enabled()
        is_trimmed = is_scoring and self._is_trimming() and not self._is_vlm
        unknown = [name for name, value in others.items() if value is not None and value is not False]
        if is_trimmed and unknown:
            self._warn_once(f"Scoring passes keep their padding: gtpo does not know the argument {unknown[0]} of TRL.")
        if not is_trimmed or unknown:
            others |= {"batch_size": batch_size, "compute_entropy": compute_entropy}
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, **others
            )
        padding, start = self._padding(model), input_ids.shape[1] - logits_to_keep
        rows = {"prompt_ids": input_ids[:, :start], "prompt_mask": attention_mask[:, :start]}
        rows["completion_mask"] = attention_mask[:, start:]
        every = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
        orders = [order for order, _, _ in self._orders(padding, rows, every)]
        if len(orders) > 1:
            orders.sort(key=lambda order: self._cost(rows, every, order.split(batch_size)))
        order = orders[0]
        chunks: list[tuple[Tensor | None, ...]] = []
        for index in order.split(batch_size):
            ids, mask = input_ids[index], attention_mask[index]
            prompt, completion = padding.widths(mask[:, :start], mask[:, start:])
            columns = slice(start - prompt, start + completion)
            scored = super()._get_per_token_logps_and_entropies(
                model, ids[:, columns], mask[:, columns], completion, compute_entropy=compute_entropy
            )
            chunks.append(tuple(x if x is None else pad(x, (0, logits_to_keep - completion)) for x in scored))
        original = order.argsort()
        logps, entropies, _ = (None if x[0] is None else torch.cat(x)[original] for x in zip(*chunks, strict=True))
        return logps, entropies, None

    def _padding(self, model: Any) -> Padding:
        return Padding.of(self.accelerator.unwrap_model(model), self.pad_to_multiple_of)

    def _is_trimming(self) -> bool:
        return getattr(self.args, "trim_batches", True)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned and self.accelerator.is_main_process:
            self._warned |= {text}
            logger.warning(text)


def _trained(batch: dict[str, Any]) -> Tensor:
    """(B, T): 1 for tokens that the loss counts."""
    mask = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


def balanced_sizes(columns: list[int], num_parts: int, *, is_padded: bool = True) -> list[int]:
    """How many consecutive rows each part gets, so that the most columns of a part are as few as possible.

    `columns` has the columns that each row needs. With `is_padded` they come longest first, and the rows of a part are
    padded to its first. Every part gets at least one row.

    >>> balanced_sizes([9, 4, 3, 2, 2, 2], 3)
    [1, 2, 3]
    >>> balanced_sizes([9, 4, 3, 2, 2, 2], 2, is_padded=False)
    [2, 4]
    """
    before = [0, *accumulate(columns)]

    def used(first: int, stop: int) -> int:
        return columns[first] * (stop - first) if is_padded else before[stop] - before[first]

    def filled(limit: int) -> list[int]:
        sizes: list[int] = []
        for num_left in reversed(range(num_parts)):
            first = sum(sizes)
            stops = range(first + 2, len(columns) - num_left + 1)  # those beyond the one row that every part gets
            sizes.append(1 + bisect_left(stops, True, key=lambda stop: used(first, stop) > limit))
        return sizes

    limits = range(max(used(0, len(columns)), 1) + 1)
    limit = bisect_left(limits, True, key=lambda limit: sum(filled(limit)) == len(columns))
    return filled(limit)
