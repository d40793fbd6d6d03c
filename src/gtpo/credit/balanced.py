"""Balanced: on tokens that good and bad completions share, bad ones push down no harder than good ones push up."""

import torch
from torch.nn.functional import pad

from gtpo.core.conflicts import conflict_runs
from gtpo.core.groups import advantage_sign
from gtpo.core.types import RowFloats, RowInts, TokenBools, TokenFloats, TokenIds
from gtpo.credit.input import CreditInput, upcast
from gtpo.credit.sets import position_sets, set_sum


def balanced(inputs: CreditInput) -> TokenFloats:
    """Ã_it = A_i λ_it, where λ limits the penalty on conflict tokens to what good completions push up there.

        λ_it = min(1, P_it / M_it) on GTPO's conflict tokens where A_i < 0, otherwise 1
        P_it = Σ A_j / |o_j| over A_j > 0,   M_it = Σ |A_j| / |o_j| over A_j < 0

    Both sums are over the completions of the group with the same token at the same place, i included. The place is
    counted from the start for a token in the prefix run, otherwise from the end. |o_j| counts trained tokens, and a
    completion without any takes no part. With `loss_type="grpo"`, which divides by |o_j|, a token of a prefix that
    completions share exactly gets the net push max(P − M, 0): never downwards, and never more upwards than in GRPO.
    Advantages of zero have no sign: they are in no conflict and in neither sum.

    Source: this package.

    Two bad completions and a good one start with the same token:

    >>> from gtpo.credit import token_advantages
    >>> ids = torch.tensor([[5, 6], [5, 7], [5, 8]])
    >>> inputs = CreditInput(ids, ids > 0, torch.tensor([1.0, -1.0, -1.0]), torch.tensor([0, 0, 0]))
    >>> token_advantages("balanced", inputs)
    tensor([[ 1.0000,  1.0000],
            [-0.5000, -1.0000],
            [-0.5000, -1.0000]])
    """
    ids, group_ids, inside = inputs.completion_ids, inputs.group_ids, inputs.completion_mask.bool()
    sign = advantage_sign(inputs.advantages)
    prefix, suffix = conflict_runs(ids, inside, sign, group_ids, edges="both", match="position")
    push = upcast(inputs.advantages) / inputs.trained.sum(1).clamp(min=1)  # A_j / |o_j|
    push = torch.where((sign != 0) & inputs.trained.any(1), push, torch.zeros_like(push))

    # The place of each token in its completion read backwards. Padding changes places with padding, so the mapping is
    # its own inverse.
    num_tokens = ids.shape[1]
    backwards = (inside.sum(1, keepdim=True) - 1 - torch.arange(num_tokens, device=ids.device)) % max(1, num_tokens)
    from_start = _share_kept(ids, inside, prefix, push, group_ids)
    from_end = _share_kept(ids.gather(1, backwards), inside, suffix.gather(1, backwards), push, group_ids)
    share = torch.where(prefix, from_start, from_end.gather(1, backwards))
    advantages = upcast(inputs.advantages).unsqueeze(1)
    return torch.where(advantages < 0, advantages * share, advantages)


def _share_kept(
    ids: TokenIds, inside: TokenBools, run: TokenBools, push: RowFloats, group_ids: RowInts
) -> TokenFloats:
    """min(1, P/M) in each run, over the completions with the same token at the same position; 1 after it."""
    width = int(run.any(0).sum())  # of the longest run
    sets = position_sets(ids[:, :width], group_ids)
    pushes = push.unsqueeze(1) * inside[:, :width]
    up, down = set_sum(pushes.clamp(min=0), sets), set_sum((-pushes).clamp(min=0), sets)
    share = (up / down.clamp(min=torch.finfo(down.dtype).tiny)).clamp(max=1)
    return torch.where(run, pad(share, (0, run.shape[1] - width)), 1.0)
