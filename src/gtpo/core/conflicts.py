"""Conflict tokens: positions where good and bad completions of one prompt have the same token.

A run of such tokens at the start or at the end of a completion would be pushed up by some completions of its group
and down by others. The search compares only pairs of opposite sign, all groups at once. It goes through the tokens in
blocks of growing width and stops where the last run ends, since most runs are short.
"""

from typing import get_args

import torch
from jaxtyping import Int
from torch import Tensor

from gtpo.core.checks import require_shapes
from gtpo.core.config import Edges, Match
from gtpo.core.groups import advantage_sign
from gtpo.core.types import RowFloats, RowInts, RowMask, TokenBools, TokenIds, TokenMask
from gtpo.errors import DataError, require_choice

_DIRECTIONS = {"both": (1, -1), "prefix": (1,), "suffix": (-1,), "none": ()}

_FIRST_BLOCK = 64
"""Width of the first block of tokens; each following block is eight times as wide."""

_MAX_COMPARISONS = 2**22
"""Most token comparisons, and tokens fetched, in one block. Each takes about 20 bytes of memory."""


def conflict_mask(
    completion_ids: TokenIds,
    completion_mask: TokenMask,
    advantages: RowFloats,
    group_ids: RowInts,
    *,
    edges: Edges = "both",
    match: Match = "position",
    valid: RowMask | None = None,
) -> TokenBools:
    """True on tokens in an unbroken run of conflicts from the first token, or from the last token backwards.

        hit_it    = there is j in the group of i with s_i s_j < 0, t ≤ |o_j| and o_jt = o_it
        prefix_it = hit_i1 and … and hit_it;   suffix: the same, counted from each completion's own last token
        conflict  = prefix or suffix

    With `match="position"`, as in the paper, each position may be hit by a different j. With `match="prefix"` the same
    j agrees with i on the entire run; at the start the contexts are then equal too. Padding is never a conflict. Empty
    completions, invalid rows and advantages of zero have no conflicts and cause none.

    Source: arXiv:2508.03772, section on conflict tokens.

    >>> ids = torch.tensor([[5, 6, 7, 9], [5, 8, 9, 0]])
    >>> mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    >>> conflict_mask(ids, mask, torch.tensor([1.0, -1.0]), torch.tensor([0, 0])).int()
    tensor([[1, 0, 0, 1],
            [1, 0, 1, 0]], dtype=torch.int32)
    """
    require_choice("edges", edges, get_args(Edges))
    require_choice("match", match, get_args(Match))
    require_shapes(
        {"completion_ids": completion_ids, "completion_mask": completion_mask},
        {"advantages": advantages, "group_ids": group_ids},
    )
    sign = advantage_sign(advantages, valid)
    prefix, suffix = conflict_runs(completion_ids, completion_mask, sign, group_ids, edges=edges, match=match)
    return prefix | suffix


def conflict_runs(
    completion_ids: TokenIds,
    completion_mask: TokenMask,
    sign: RowFloats,
    group_ids: RowInts,
    *,
    edges: Edges,
    match: Match,
) -> tuple[TokenBools, TokenBools]:
    """The two parts of `conflict_mask`: the run at the start and the run at the end of each completion."""
    inside = completion_mask.bool()
    if bool((inside[:, 1:] & ~inside[:, :-1]).any()):
        raise DataError(
            "completion_mask has a 1 after a 0, so it does not tell how completions align. Completions must be padded "
            "on the right. Mark tokens that are not trained in loss_mask instead."
        )
    length = inside.sum(1)
    pairs = opposite_pairs(sign, group_ids)
    run = _run_lengths(completion_ids, length, pairs, _DIRECTIONS[edges], match).unsqueeze(-1)  # (directions, B, 1)
    position = torch.arange(inside.shape[1], device=inside.device)
    prefix = suffix = torch.zeros_like(inside)
    if edges in ("both", "prefix"):
        prefix = inside & (position < run[0])
    if edges in ("both", "suffix"):
        suffix = inside & (position >= length.unsqueeze(1) - run[-1])
    return prefix, suffix


def opposite_pairs(sign: RowFloats, group_ids: RowInts) -> Int[Tensor, "2 P"]:
    """All pairs of rows in one group with opposite signs. The work grows with B × the largest G.

    >>> opposite_pairs(torch.tensor([1.0, -1.0, 0.0, 1.0]), torch.tensor([0, 0, 0, 0]))
    tensor([[0, 1],
            [1, 3]])
    """
    if not len(sign):
        return group_ids.new_zeros(2, 0, dtype=torch.int64)
    order = group_ids.argsort(stable=True)
    group, sign = group_ids[order], sign[order]
    largest = torch.unique_consecutive(group, return_counts=True)[1].max()
    row = torch.arange(len(order), device=order.device).unsqueeze(1)
    other = row + torch.arange(1, int(largest), device=order.device)  # (B, G - 1): the rows after it
    near = other.clamp(max=len(order) - 1)
    is_pair = (other == near) & (group[near] == group.unsqueeze(1)) & (sign[near] * sign.unsqueeze(1) < 0)
    first, step = is_pair.nonzero().unbind(1)
    return order[torch.stack([first, first + step + 1])]


def _run_lengths(
    completion_ids: TokenIds, length: RowInts, pairs: Int[Tensor, "2 P"], directions: tuple[int, ...], match: Match
) -> Int[Tensor, "D B"]:
    """How many tokens are conflicts before the first that is not, counted forwards (1) or from the last back (-1)."""
    num_rows, num_tokens = completion_ids.shape
    # A reading is a completion in one direction. Only readings of the same direction are compared.
    row = torch.arange(num_rows, device=length.device).repeat(len(directions)).unsqueeze(1)
    direction = length.new_tensor(directions).repeat_interleave(num_rows).unsqueeze(1)
    first_token = torch.where(direction > 0, 0, length[row] - 1)
    pairs = torch.cat([pairs + number * num_rows for number in range(len(directions))] or [pairs[:, :0]], dim=1)
    run = length.new_zeros(len(row))
    start, width = 0, _FIRST_BLOCK
    while start < num_tokens and pairs.shape[1]:
        stop = min(num_tokens, start + max(1, min(width, _MAX_COMPARISONS // max(len(row), pairs.shape[1]))))
        step = torch.arange(start, stop, device=length.device)
        block = completion_ids[row, (first_token + direction * step).clamp(0, num_tokens - 1)]
        left, right = pairs
        shorter = torch.minimum(length[row[left]], length[row[right]])
        is_equal = (block[left] == block[right]) & (step < shorter)  # (P, block)
        if match == "position":
            hit = torch.zeros_like(block, dtype=torch.bool)
            hit.index_add_(0, left, is_equal).index_add_(0, right, is_equal)  # on booleans, + is or
            run += torch.where(run == start, _leading(hit), 0)
            is_unbroken = run == stop
            is_needed = is_unbroken[left] | is_unbroken[right]  # a run that ended may still extend its opponent's
        else:
            shared = start + _leading(is_equal)
            run.scatter_reduce_(0, left, shared, "amax").scatter_reduce_(0, right, shared, "amax")
            is_needed = shared == stop
        pairs = pairs[:, is_needed]
        start, width = stop, 8 * width
    return run.view(len(directions), num_rows)


def _leading(flags: TokenBools) -> Int[Tensor, " B"]:
    """The number of True values before the first False of each row."""
    return flags.to(torch.int8).cumprod(1, dtype=torch.int8).sum(1)
