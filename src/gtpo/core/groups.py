"""Groups: the rows that answer the same prompt, and the direction in which each of them is pushed."""

import torch

from gtpo.core.types import RowBools, RowFloats, RowInts, RowMask

ZERO_ADVANTAGE = 1e-5
"""Equal rewards leave float noise around zero: an advantage this small has no sign."""


def advantage_sign(advantages: RowFloats, valid: RowMask | None = None) -> RowFloats:
    """s_i = sign(A_i), and 0 where |A_i| ≤ 1e-5 or the row is invalid.

    >>> advantage_sign(torch.tensor([0.5, -0.5, 1e-7, -3.0]), torch.tensor([True, True, True, False]))
    tensor([ 1., -1.,  0.,  0.])
    """
    signed = advantages.abs() > ZERO_ADVANTAGE
    if valid is not None:
        signed = signed & valid.bool()
    return torch.where(signed, advantages.sign(), torch.zeros_like(advantages))


def group_sum(values: RowFloats, group_ids: RowInts) -> RowFloats:
    """For each row, the sum of `values` over its group.

    >>> group_sum(torch.tensor([1.0, 10.0, 2.0]), torch.tensor([7, 3, 7]))
    tensor([ 3., 10.,  3.])
    """
    group = torch.unique(group_ids, return_inverse=True)[1]
    return torch.zeros_like(values).index_add_(0, group, values)[group]


def is_tied(sign: RowFloats, group_ids: RowInts) -> RowBools:
    """Whether the group of each row has no completion that is better or worse than the others.

    >>> is_tied(torch.tensor([0.0, 0.0, 1.0, -1.0]), torch.tensor([0, 0, 1, 1]))
    tensor([ True,  True, False, False])
    """
    return group_sum(sign.abs(), group_ids) == 0
