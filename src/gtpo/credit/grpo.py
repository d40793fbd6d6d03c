"""GRPO: all tokens of a completion get its advantage."""

from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput


def grpo(inputs: CreditInput) -> TokenFloats:
    """Ã_it = A_i: every token of a completion gets its advantage. Where all rewards of a group are equal, that is 0.

    Source: arXiv:2402.03300.

    >>> import torch
    >>> from gtpo.credit import token_advantages
    >>> ids = torch.tensor([[5, 6, 7], [5, 8, 0]])
    >>> token_advantages("grpo", CreditInput(ids, ids > 0, torch.tensor([1.0, -1.0]), torch.tensor([0, 0])))
    tensor([[ 1.,  1.,  1.],
            [-1., -1.,  0.]])
    """
    return inputs.advantages.unsqueeze(1).expand(inputs.completion_ids.shape)
