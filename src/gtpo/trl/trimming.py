"""Padding-free updates.

TRL pads every micro-batch to the longest completion of the entire generation batch. Here the rows of one optimizer
step are sorted by length, longest first, and redistributed over the same number of micro-batches. Each micro-batch is
cut to its own longest prompt and completion, and completions whose advantages are all zero are left out. The gradient
of the step does not change: a row never leaves its optimizer step, and where the divisor of the loss changes, the
row's advantages are rescaled. All processes agree on the number of remaining rows, so they stay in step.
"""

import logging
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from trl.trainer.grpo_trainer import GRPOTrainer

from gtpo.trl.padding import COMPLETION_KEYS, PROMPT_KEYS, SHARED_KEYS, Padding, lengths

_Parent: Any = GRPOTrainer if TYPE_CHECKING else object
logger = logging.getLogger(__name__)


class TrimmedBatches(_Parent):
    """Mixin for GRPO trainers with one advantage per token; `args.trim_batches=False` turns it off."""

    accelerator: Any
    _buffered_inputs: Any
    _step: int
    _has_warned = False

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        args: Any = self.args
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is before or not args.trim_batches:
            return inputs
        batches: list[dict[str, Any]] = self._buffered_inputs
        # Blocks of this size never cross the end of an optimizer step or of a generation batch.
        size = math.gcd(args.gradient_accumulation_steps, args.steps_per_generation)
        blocks = [batches[first : first + size] for first in range(0, len(batches), size)]
        self._buffered_inputs = [batch for block in blocks for batch in self._repacked(block)]
        return self._buffered_inputs[self._step % args.steps_per_generation]

    def _repacked(self, block: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Redistribute the rows of micro-batches of one optimizer step over as many new ones."""
        if not block[0].keys() <= PROMPT_KEYS | COMPLETION_KEYS | SHARED_KEYS:
            return block
        padding = self._padding(self.model)
        # Some losses are not a sum over rows: the router's auxiliary loss, a quantile over the tokens of a
        # micro-batch, and a KL term divided by the tokens of a micro-batch, which advantages do not rescale.
        is_sum = not self.aux_loss_enabled and self.top_entropy_quantile == 1.0
        if not is_sum or (self.beta != 0.0 and self.loss_type == "bnpo"):
            return [padding.cut(batch) for batch in block]
        rows = {
            key: value if key in SHARED_KEYS else torch.cat([batch[key] for batch in block])
            for key, value in block[0].items()
        }
        divisors = torch.cat([self._divisor(batch).expand(len(batch["advantages"])) for batch in block])
        has_weight = rows["advantages"].ne(0).any(dim=1) if self.beta == 0.0 else torch.ones_like(divisors).bool()
        num_rows = max(len(block), int(self.accelerator.gather(has_weight.sum()).max()))
        # Rows that stay only to reach this number need a single token.
        rows["completion_mask"][:, 1:] *= has_weight.unsqueeze(1)
        order = (lengths(rows["completion_mask"]) * has_weight).argsort(descending=True, stable=True)[:num_rows]
        repacked: list[dict[str, Any]] = []
        for number in range(len(block)):
            index = order[number * num_rows // len(block) : (number + 1) * num_rows // len(block)]
            batch = {key: value if key in SHARED_KEYS else value[index] for key, value in rows.items()}
            batch["advantages"] = batch["advantages"] * (self._divisor(batch) / divisors[index]).unsqueeze(1)
            repacked.append(padding.cut(batch))
        return repacked

    def _divisor(self, batch: dict[str, Any]) -> Tensor:
        """The divisor of TRL's sum over the rows of this micro-batch, up to a constant factor."""
        mask = batch["completion_mask"]
        if self.loss_type == "bnpo":
            trained = mask * batch["tool_mask"] if "tool_mask" in batch else mask
            return trained.sum().clamp(min=1).float()
        return mask.new_tensor(1 if self.loss_type == "dapo" else len(mask)).float()

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
        """Scoring passes over a generation batch run on rows sorted by length, each chunk cut to its longest row."""
        args: Any = self.args
        is_for_the_loss = batch_size is None or torch.is_grad_enabled()
        unknown = [name for name, value in others.items() if value is not None and value is not False]
        if unknown and not is_for_the_loss and args.trim_batches and not self._has_warned:
            self._has_warned = True
            logger.warning("Scoring passes are not trimmed: TRL passes %s, which gtpo does not know.", unknown[0])
        if is_for_the_loss or not args.trim_batches or unknown:
            others |= {"batch_size": batch_size, "compute_entropy": compute_entropy}
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, **others
            )
        padding, start = self._padding(model), input_ids.shape[1] - logits_to_keep
        order = lengths(attention_mask[:, start:]).argsort(descending=True, stable=True)
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
