"""Completions of a group that have the same tokens, at a position or up to it.

Each position gets its own partition of the rows: `sets[i, t] == sets[j, t]` if rows i and j belong together at
position t. Padding is compared like any other token, so a caller gives it no value in `set_sum`. Time and memory grow
with B × T, whatever the size of the groups: rows are sorted once, and no pairs are compared.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from gtpo.core.types import RowInts, TokenFloats, TokenIds

TokenSets = Int[Tensor, "B T"]


def prefix_sets(completion_ids: TokenIds, group_ids: RowInts) -> TokenSets:
    """The sets of rows of one group with the same tokens from the first one up to t.

    In lexicographic order the rows of such a set are neighbours, so a set starts where a row differs from the one
    before it at t or earlier.

    >>> prefix_sets(torch.tensor([[5, 6, 7], [5, 8, 7], [5, 6, 9]]), torch.tensor([0, 0, 0]))
    tensor([[0, 0, 0],
            [0, 1, 2],
            [0, 0, 1]])
    """
    rows = torch.cat([group_ids.long().unsqueeze(1), completion_ids.long()], dim=1)
    order = torch.unique(rows, dim=0, return_inverse=True)[1].argsort()
    rows = rows[order]
    differs = (rows[1:] != rows[:-1]).cumsum(1) > 0
    return _numbered(differs[:, 1:], order.unsqueeze(1).expand_as(completion_ids))


def position_sets(completion_ids: TokenIds, group_ids: RowInts) -> TokenSets:
    """The sets of rows of one group with the same token at t, whatever comes before it.

    >>> position_sets(torch.tensor([[5, 6, 7], [5, 8, 7], [5, 6, 9]]), torch.tensor([0, 0, 0]))
    tensor([[0, 0, 0],
            [0, 1, 0],
            [0, 0, 1]])
    """
    token = torch.unique(completion_ids, return_inverse=True)[1]
    group = torch.unique(group_ids, return_inverse=True)[1]
    key, order = (token + group.unsqueeze(1) * token.numel()).sort(dim=0)
    return _numbered(key[1:] != key[:-1], order)


def set_sum(values: TokenFloats, sets: TokenSets) -> TokenFloats:
    """For each row and position, the sum of `values` over its set at that position.

    >>> set_sum(torch.tensor([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]), torch.tensor([[0, 0], [0, 1], [0, 0]]))
    tensor([[7., 5.],
            [7., 2.],
            [7., 5.]])
    """
    return torch.zeros_like(values).scatter_add_(0, sets, values).gather(0, sets)


def _numbered(starts: Bool[Tensor, "rest T"], order: Int[Tensor, "B T"]) -> TokenSets:
    """Number the sets of sorted rows, given where a row starts a new one, and undo the sorting."""
    number = pad(starts.cumsum(0), (0, 0, 1, 0))[: len(order)]
    return torch.empty_like(order).scatter_(0, order, number)
