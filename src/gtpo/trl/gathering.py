"""Complete groups, even where TRL has distributed the completions of a prompt over several processes.

Process p holds the rows [pL, (p+1)L) of the generation batch, and G consecutive rows belong to one prompt. So groups
are split if and only if L is not a multiple of G. Only then are rows gathered, from every process to every process:
9 bytes per token and 4 per completion for GTPO (10 bytes per token with tools), 4 bytes per token less for a scheme
without entropies.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import ShapedAdvantages, shape_advantages
from gtpo.credit import CreditInput


@dataclasses.dataclass(frozen=True)
class Rows:
    """The inputs of a credit scheme for every group that this process owns at least part of."""

    completion_ids: Tensor
    completion_mask: Tensor
    loss_mask: Tensor
    advantages: Tensor
    valid: Tensor
    group_ids: Tensor
    local: slice  # the rows that this process owns
    token_entropy: Tensor | None = None
    token_logps: Tensor | None = None
    token_component: Tensor | None = None
    rewards: Tensor | None = None
    component_advantages: Tensor | None = None

    @property
    def trained(self) -> Tensor:
        """The tokens that the loss is taken over, in valid rows."""
        return self.loss_mask.bool() & self.valid.unsqueeze(1)

    def shaped(self, token_entropy: Tensor, initial_entropy: float | None, config: ShapingConfig) -> ShapedAdvantages:
        """GTPO's advantages, with the quantities that its metrics and records explain."""
        return shape_advantages(
            self.completion_ids,
            self.completion_mask,
            self.advantages,
            token_entropy,
            self.group_ids,
            initial_entropy=initial_entropy,
            loss_mask=self.loss_mask,
            valid=self.valid,
            config=config,
        )

    def credit_input(self, initial_entropy: float | None, batch_entropy: float | None) -> CreditInput:
        return CreditInput(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "local"},
            initial_entropy=initial_entropy,
            batch_entropy=batch_entropy,
        )


def complete_groups(
    accelerator: Any,
    batch: dict[str, Any],
    group_size: int,
    *,
    is_scored: Tensor,
    token_entropy: Tensor | None = None,
    token_logps: Tensor | None = None,
    token_component: Tensor | None = None,
    rewards: Tensor | None = None,
    component_advantages: Tensor | None = None,
) -> Rows:
    """`batch` and what is per token have the rows of this process, everything else the rows of all processes.

    Rows that could not be scored and rows without tokens (truncated completions that TRL masks out) are not valid.
    """
    num_rows = len(batch["completion_mask"])
    start = accelerator.process_index * num_rows
    stop = start + num_rows
    first, last = start // group_size * group_size, -(-stop // group_size) * group_size

    def complete(tensor: Tensor) -> Tensor:
        if num_rows % group_size == 0:
            return tensor
        if tensor.dim() == 2:
            tensor = accelerator.pad_across_processes(tensor, dim=1)
        return accelerator.gather(tensor)[first:last]

    mask = complete(batch["completion_mask"].to(torch.int8))
    return Rows(
        completion_ids=complete(batch["completion_ids"].to(torch.int32)),
        completion_mask=mask,
        loss_mask=mask * complete(batch["tool_mask"].to(torch.int8)) if "tool_mask" in batch else mask,
        advantages=complete(batch["advantages"]),
        valid=is_scored[first:last] & mask.any(dim=1),
        group_ids=torch.arange(first, last, device=mask.device) // group_size,
        local=slice(start - first, stop - first),
        token_entropy=None if token_entropy is None else complete(token_entropy.float()),
        token_logps=None if token_logps is None else complete(token_logps.float()),
        token_component=None if token_component is None else complete(token_component.to(torch.int32)),
        rewards=None if rewards is None else rewards[first:last],
        component_advantages=None if component_advantages is None else component_advantages[first:last],
    )
