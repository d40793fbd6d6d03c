"""Complete groups, even where TRL has distributed the completions of a prompt over several processes.

Process p holds the rows [pL, (p+1)L) of the generation batch, and G consecutive rows belong to one prompt. So groups
are split if and only if L is not a multiple of G. Only then are rows gathered, from every process to every process:
9 bytes per token and 4 per completion (10 bytes per token with tools).
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Rows:
    """The inputs of shaping for every group that this process owns at least part of."""

    completion_ids: Tensor
    completion_mask: Tensor
    loss_mask: Tensor
    token_entropy: Tensor
    advantages: Tensor
    valid: Tensor
    group_ids: Tensor
    local: slice  # the rows that this process owns


def complete_groups(
    accelerator: Any, batch: dict[str, Any], token_entropy: Tensor, is_scored: Tensor, group_size: int
) -> Rows:
    """`batch` and `token_entropy` have the rows of this process, `is_scored` the rows of all processes.

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
        token_entropy=complete(token_entropy.float()),
        advantages=complete(batch["advantages"]),
        valid=is_scored[first:last] & mask.any(dim=1),
        group_ids=torch.arange(first, last, device=mask.device) // group_size,
        local=slice(start - first, stop - first),
    )
