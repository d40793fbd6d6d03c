"""Groups: which rows answer the same prompt, and which way each of them is pushed."""

import torch

from gtpo.core.types import RowBools, RowFloats, RowInts, TokenIds, TokenMask

ZERO_ADVANTAGE = 1e-5
"""Equal rewards leave float noise around zero: an advantage this small has no sign."""


def advantage_sign(advantages: RowFloats, valid: RowBools | None = None) -> RowFloats:
    """s_i = sign(A_i), and 0 where |A_i| ≤ 1e-5 or the row is invalid.

    >>> advantage_sign(torch.tensor([0.5, -0.5, 1e-7, -3.0]), torch.tensor([True, True, True, False]))
    tensor([ 1., -1.,  0.,  0.])
    """
    signed = advantages.abs() > ZERO_ADVANTAGE
    if valid is not None:
        signed = signed & valid
    return torch.where(signed, advantages.sign(), torch.zeros_like(advantages))


def group_sum(values: RowFloats, group_ids: RowInts) -> RowFloats:
    """The sum of `values` over the group of each row, given back to every row of that group.

    >>> group_sum(torch.tensor([1.0, 10.0, 2.0]), torch.tensor([7, 3, 7]))
    tensor([ 3., 10.,  3.])
    """
    group = torch.unique(group_ids, return_inverse=True)[1]
    return torch.zeros_like(values).index_add_(0, group, values)[group]


def num_copies(completion_ids: TokenIds, completion_mask: TokenMask, group_ids: RowInts, valid: RowBools) -> RowFloats:
    """How many valid rows of its group say the same as each row, token by token; itself is one of them.

    A 64-bit fingerprint stands for a completion: a sum over its tokens, each times the random number of its place,
    wrapping around. Two different ones agree with a chance of about 1 in 2⁴⁶.

    >>> ids, ones = torch.tensor([[5, 6], [5, 6], [6, 5], [5, 6]]), torch.ones(4, 2, dtype=torch.int64)
    >>> num_copies(ids, ones, torch.tensor([0, 0, 0, 1]), torch.ones(4, dtype=torch.bool))
    tensor([2., 2., 1., 1.])
    """
    random = torch.Generator().manual_seed(0)
    place = torch.randint(-(2**63), 2**63 - 1, (completion_ids.shape[1] + 1,), generator=random).to(group_ids.device)
    said = torch.where(completion_mask.bool(), completion_ids.long() + 1, 0)
    fingerprint = (said * place[1:]).sum(1) + group_ids.long() * place[0]
    return group_sum(valid.float(), fingerprint)
