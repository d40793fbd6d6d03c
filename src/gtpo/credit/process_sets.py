"""Process sets: a prefix that several completions share is trained once."""

from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput, upcast
from gtpo.credit.sets import prefix_sets, set_sum


def process_sets(inputs: CreditInput) -> TokenFloats:
    """Ã_it = A_i / |S_it|, where S_it are the completions of the group with the same first t tokens, i included.

    A shared prefix is then trained once, however many completions begin with it. Completions with advantage zero count
    in S_it, and so do tokens that are not trained. Invalid rows do not. A token of a completion that is shared with no
    other gets A_i, as in GRPO.

    Source: λ-GRPO, arXiv:2509.21154.

    >>> import torch
    >>> from gtpo.credit import token_advantages
    >>> ids = torch.tensor([[5, 6, 7], [5, 8, 0]])
    >>> token_advantages("process_sets", CreditInput(ids, ids > 0, torch.tensor([1.0, -1.0]), torch.tensor([0, 0])))
    tensor([[ 0.5000,  1.0000,  1.0000],
            [-0.5000, -1.0000,  0.0000]])
    """
    advantages = upcast(inputs.advantages).unsqueeze(1)
    counts = (inputs.completion_mask.bool() & inputs.is_valid.unsqueeze(1)).to(advantages.dtype)
    num_sharing = set_sum(counts, prefix_sets(inputs.completion_ids, inputs.group_ids))
    return advantages / num_sharing.clamp(min=1)
