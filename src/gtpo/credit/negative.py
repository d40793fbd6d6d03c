"""Negative: bad completions are pushed down in full, good ones pushed up a little."""

import math

import torch

from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput
from gtpo.errors import require


def negative(inputs: CreditInput, *, positive_scale: float = 0.1) -> TokenFloats:
    """Learn mostly from bad completions: they are pushed down in full, good ones pushed up a little.

        Ã_it = A_i if A_i < 0, otherwise positive_scale · A_i

    With `positive_scale=0` only bad completions are trained on; with 1 it is GRPO. The advantages of a group no longer
    add up to 0.

    Source: W-REINFORCE, arXiv:2506.01347, with A_i in place of its rewards of 1 and −1.

    >>> from gtpo.credit import token_advantages
    >>> ids = torch.tensor([[5, 6, 7], [5, 8, 0]])
    >>> token_advantages("negative", CreditInput(ids, ids > 0, torch.tensor([1.0, -1.0]), torch.tensor([0, 0])))
    tensor([[ 0.1000,  0.1000,  0.1000],
            [-1.0000, -1.0000,  0.0000]])
    """
    require(0 <= positive_scale < math.inf, "positive_scale", positive_scale, "a finite number ≥ 0")
    advantages = inputs.advantages.unsqueeze(1).expand(inputs.completion_ids.shape)
    return torch.where(advantages < 0, advantages, positive_scale * advantages)
