"""Pass@k training: the reward of a completion is that at least one of k completions is right."""

import math
import numbers

import torch

from gtpo.core.groups import group_sum
from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput, required, upcast
from gtpo.errors import require


def pass_at_k(inputs: CreditInput, *, right_at: float, k: int = 4) -> TokenFloats:
    """The mean advantage of a completion over all sets of k completions of its group that it is in.

        R̄    = 1 − C(W, k) / C(N, k)                             the pass@k of a group with N rows, W of them wrong
        Ã_it = 1 − R̄                                             if R_i ≥ right_at
        Ã_it = 1 − R̄ − C(W − 1, k − 1) / C(N − 1, k − 1)         if R_i < right_at

    The advantages of a group add up to 0. They are all 0 if fewer than k completions are wrong (no set of k can fail),
    if none is right, or if N < k. With k = 1 and rewards of 0 and 1 it is GRPO. Only valid rows count.

    Source: arXiv:2508.10751, without its division by the standard deviation.

    Two of three completions are wrong, so one pair in three fails:

    >>> from gtpo.credit import token_advantages
    >>> ids, rewards = torch.tensor([[5], [6], [7]]), torch.tensor([1.0, 0.0, 0.0])
    >>> inputs = CreditInput(ids, ids > 0, rewards - rewards.mean(), torch.tensor([0, 0, 0]), rewards=rewards)
    >>> token_advantages("pass_at_k", inputs, k=2, right_at=1.0)
    tensor([[ 0.3333],
            [-0.1667],
            [-0.1667]])
    """
    require(type(k) is int and k >= 1, "k", k, "a whole number ≥ 1")
    is_number = isinstance(right_at, numbers.Real) and math.isfinite(right_at)
    require(is_number, "right_at", right_at, "a finite number, the lowest reward of a right answer")
    rewards = upcast(required(inputs.rewards, "rewards"))
    is_wrong = inputs.is_valid & (rewards < right_at)
    num_rows = group_sum(inputs.is_valid.to(rewards.dtype), inputs.group_ids).unsqueeze(1)
    num_wrong = group_sum(is_wrong.to(rewards.dtype), inputs.group_ids).unsqueeze(1)

    # A factor is 0 where all wrong ones are drawn already, so a group of fewer than k, or fewer than k wrong, gets 0.
    drawn = torch.arange(min(k, len(rewards)), device=rewards.device)
    chance = (num_wrong - drawn) / (num_rows - drawn).clamp(min=1)  # that the next one is wrong, too
    all_wrong = chance.prod(1, keepdim=True)  # C(W, k) / C(N, k)
    others_wrong = chance[:, 1:].prod(1, keepdim=True)  # C(W − 1, k − 1) / C(N − 1, k − 1)
    advantages = torch.where(is_wrong.unsqueeze(1), all_wrong - others_wrong, all_wrong)
    return advantages.expand(inputs.completion_ids.shape)
