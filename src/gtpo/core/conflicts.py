"""Conflict tokens: places where good and bad completions of one prompt say the same thing.

A run of such tokens at the start or at the end of a completion would be pushed up by some completions of its group
and down by others. The search compares only pairs of opposite sign, all groups at once, walks along the tokens in
blocks that grow, and stops where the last run ends: most runs are short. It keeps one number per completion and edge.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from gtpo.core.groups import advantage_sign
from gtpo.core.types import RowBools, RowFloats, RowInts, TokenBools, TokenIds, TokenMask, require_shapes
from gtpo.errors import DataError, require_choice

Edges = Literal["both", "prefix", "suffix", "none"]
Match = Literal["position", "prefix"]

_FIRST_BLOCK = 64
"""Tokens compared in the first block; each next block is twice as wide."""

_MAX_COMPARISONS = 2**22
"""Token comparisons held at once: bounds the working set (about 20 bytes each) however large a group is."""


def conflict_mask(
    completion_ids: TokenIds,
    completion_mask: TokenMask,
    advantages: RowFloats,
    group_ids: RowInts,
    *,
    edges: Edges = "both",
    match: Match = "position",
    valid: RowBools | None = None,
) -> TokenBools:
    """True on the tokens in an unbroken run of conflicts from the first token, or from the last one backwards.

        hit_it    = there is j in the group of i with s_i s_j < 0, t ≤ |o_j| and o_jt = o_it
        prefix_it = hit_i1 and … and hit_it;   suffix: the same, counted from each completion's own last token
        conflict  = prefix or suffix

    With `match="position"`, the paper's, each place may be hit by another j. With `match="prefix"` one and the same
    j agrees with i on the whole run, so that at the start the contexts are equal too. Padding is never a conflict;
    empty completions, invalid rows and advantages of zero have no conflicts and cause none.

    Source: arXiv:2508.03772, section on conflict tokens.

    >>> ids = torch.tensor([[5, 6, 7, 9], [5, 8, 9, 0]])
    >>> mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    >>> conflict_mask(ids, mask, torch.tensor([1.0, -1.0]), torch.tensor([0, 0])).int()
    tensor([[1, 0, 0, 1],
            [1, 0, 1, 0]], dtype=torch.int32)
    """
    prefix, suffix = conflict_runs(
        completion_ids, completion_mask, advantages, group_ids, edges=edges, match=match, valid=valid
    )
    return prefix | suffix


def conflict_runs(
    completion_ids: TokenIds,
    completion_mask: TokenMask,
    advantages: RowFloats,
    group_ids: RowInts,
    *,
    edges: Edges = "both",
    match: Match = "position",
    valid: RowBools | None = None,
) -> tuple[TokenBools, TokenBools]:
    """The two halves of `conflict_mask`: the run at the start and the run at the end of each completion."""
    require_choice("conflict_edges", edges, get_args(Edges))
    require_choice("conflict_match", match, get_args(Match))
    inside = _completion(completion_mask)
    require_shapes((completion_ids, inside), (advantages, group_ids))
    position = torch.arange(inside.shape[1], device=inside.device)
    length = inside.sum(1, keepdim=True)  # (B, 1)
    pairs = opposite_pairs(advantage_sign(advantages, valid), group_ids)

    prefix = suffix = torch.zeros_like(inside)
    if edges in ("both", "prefix"):
        prefix = inside & (position < _run_length(completion_ids, inside, pairs, match))
    if edges in ("both", "suffix"):
        from_end = (length - 1 - position).clamp(min=0)
        run = _run_length(completion_ids.gather(1, from_end), inside, pairs, match)
        suffix = inside & (position >= length - run)
    return prefix, suffix


def opposite_pairs(sign: RowFloats, group_ids: RowInts) -> Int[Tensor, "2 P"]:
    """Every pair (good, bad) of completions of one group, as row numbers.

    >>> opposite_pairs(torch.tensor([1.0, -1.0, 0.0, 1.0]), torch.tensor([0, 0, 0, 0]))
    tensor([[0, 3],
            [1, 1]])
    """
    good = (sign > 0).nonzero().squeeze(1)
    bad = (sign < 0).nonzero().squeeze(1)
    same_group = group_ids[good].unsqueeze(1) == group_ids[bad]
    which_good, which_bad = same_group.nonzero().unbind(1)
    return torch.stack([good[which_good], bad[which_bad]])


def _run_length(
    aligned_ids: TokenIds, inside: TokenBools, pairs: Int[Tensor, "2 P"], match: Match
) -> Int[Tensor, "B 1"]:
    """How many tokens from position 0 on are conflicts, for rows aligned so that the run starts at 0."""
    num_rows, num_tokens = aligned_ids.shape
    run = torch.zeros(num_rows, dtype=torch.int64, device=inside.device)
    start, width = 0, _FIRST_BLOCK
    while start < num_tokens and pairs.shape[1]:
        stop = min(num_tokens, start + max(1, min(width, _MAX_COMPARISONS // pairs.shape[1])))
        block, within, (good, bad) = aligned_ids[:, start:stop], inside[:, start:stop], pairs
        same = (block[good] == block[bad]) & within[good] & within[bad]  # (P, block)
        if match == "position":
            hit = torch.zeros_like(within).index_add_(0, good, same).index_add_(0, bad, same)  # on booleans, + is or
            run += torch.where(run == start, _leading(hit), 0)
            unbroken = run == stop
            goes_on = unbroken[good] | unbroken[bad]  # a row whose run is over may still hit another's
        else:
            shared = start + _leading(same)
            run.scatter_reduce_(0, good, shared, "amax").scatter_reduce_(0, bad, shared, "amax")
            goes_on = shared == stop
        pairs = pairs[:, goes_on]
        start, width = stop, 2 * width
    return run.unsqueeze(1)


def _leading(flags: TokenBools) -> Int[Tensor, " B"]:
    """The number of True values before the first False of each row."""
    return flags.to(torch.int8).cumprod(1, dtype=torch.int8).sum(1)


def _completion(completion_mask: TokenMask) -> TokenBools:
    inside = completion_mask.bool()
    if bool((inside[:, 1:] & ~inside[:, :-1]).any()):
        raise DataError(
            "completion_mask has a 1 after a 0: completions must be padded on the right, since a mask with holes says "
            "nothing about how completions align. Mark tokens that are not trained in loss_mask instead."
        )
    return inside
