"""Whole groups, although TRL may have dealt the completions of one prompt out to several processes.

Process p of a run holds the rows [pL, (p+1)L) of the generation batch, G rows in a row belong to one prompt, so groups
are split if and only if L is not a multiple of G. Then, and only then, rows travel: 9 bytes a token and 4 a completion
(10 bytes a token with tools), from every process to every process.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Rows:
    """The inputs of shaping for every group that this process has a part of."""

    completion_ids: Tensor
    completion_mask: Tensor
    loss_mask: Tensor
    token_entropy: Tensor
    advantages: Tensor
    valid: Tensor
    group_ids: Tensor
    local: slice  # which of the rows are this process's own
    first: int  # the number of the first row in the generation batch of all processes


def whole_groups(
    accelerator: Any, batch: dict[str, Any], token_entropy: Tensor, is_scorable: Tensor, group_size: int
) -> Rows:
    """`batch` and `token_entropy` are this process's, `is_scorable` is for the rows of all processes.

    Unscorable rows and rows without tokens (truncated completions that TRL masks out) are not valid: they do not move.
    """
    num_rows = len(batch["completion_mask"])
    start = accelerator.process_index * num_rows
    stop = start + num_rows
    first, last = start // group_size * group_size, -(-stop // group_size) * group_size

    def whole(tensor: Tensor) -> Tensor:
        if num_rows % group_size == 0:
            return tensor
        if tensor.dim() == 2:
            tensor = accelerator.pad_across_processes(tensor, dim=1)
        return accelerator.gather(tensor)[first:last]

    mask = whole(batch["completion_mask"].to(torch.int8))
    return Rows(
        completion_ids=whole(batch["completion_ids"].to(torch.int32)),
        completion_mask=mask,
        loss_mask=mask * whole(batch["tool_mask"].to(torch.int8)) if "tool_mask" in batch else mask,
        token_entropy=whole(token_entropy.float()),
        advantages=whole(batch["advantages"]),
        valid=is_scorable[first:last] & mask.any(dim=1),
        group_ids=torch.arange(first, last, device=mask.device) // group_size,
        local=slice(start - first, stop - first),
        first=first,
    )
