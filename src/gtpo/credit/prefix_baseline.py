"""Prefix baseline: the reward of a completion is compared with those that share its first tokens."""

import math

import torch

from gtpo.core.groups import group_sum
from gtpo.core.types import RowFloats, TokenFloats
from gtpo.credit.input import CreditInput, required, upcast
from gtpo.credit.sets import prefix_sets, set_sum
from gtpo.errors import require


def prefix_baseline(inputs: CreditInput, *, kappa: float = 4.0) -> TokenFloats:
    """The reward minus a baseline that follows the completions which still share the prefix.

        Ã_it = (G − 1)/G · (R_i − b_it)
        b_i1 = mean of the other rewards of the group
        b_it = (Σ_j R_j + κ b_i,t−1) / (n + κ)  over the n others with the same tokens before t, if their set has
               changed and is not empty;  b_i,t−1 otherwise

    G counts the valid rows of the group, and a group of one gets 0. A small κ trusts the few completions that share
    the prefix, a large κ keeps the mean of the group: the limit is GRPO. A completion that ends before t with the same
    tokens is one of the n. The baseline does not depend on the token that it is used for, so the gradient is unbiased
    for every κ where all tokens weigh the same (`loss_type="dr_grpo"`).

    Source: this package.

    Both completions that start with 5 have reward 1. With κ = 0 the token after it is no surprise and gets 0:

    >>> from gtpo.credit import token_advantages
    >>> ids, rewards = torch.tensor([[5, 6], [5, 7], [4, 8]]), torch.tensor([1.0, 1.0, 0.0])
    >>> inputs = CreditInput(ids, ids > 0, rewards - rewards.mean(), torch.tensor([0, 0, 0]), rewards=rewards)
    >>> token_advantages("prefix_baseline", inputs, kappa=0.0)
    tensor([[ 0.3333,  0.0000],
            [ 0.3333,  0.0000],
            [-0.6667, -0.6667]])
    """
    require(0 <= kappa < math.inf, "kappa", kappa, "a finite number ≥ 0")
    rewards = upcast(required(inputs.rewards, "rewards"))
    inside = inputs.completion_mask.bool()
    sets = prefix_sets(inputs.completion_ids, inputs.group_ids)

    def over_others(values: RowFloats) -> TokenFloats:
        """Sums over the other rows with the same tokens before t: at the first token, all others of the group."""
        sharing = set_sum(values.unsqueeze(1) * inside, sets)
        return torch.cat([group_sum(values, inputs.group_ids).unsqueeze(1), sharing], 1)[:, :-1] - values.unsqueeze(1)

    counts = inputs.is_valid.to(rewards.dtype)
    num_others = over_others(counts)
    mean = over_others(rewards) / num_others.clamp(min=1)
    has_changed = num_others.diff(dim=1, prepend=num_others[:, :1]) < 0  # a set only ever loses members
    trust = torch.where(has_changed & (num_others > 0), num_others / (num_others + kappa), 0.0)
    trust[:, :1] = 1.0
    num_rows = group_sum(counts, inputs.group_ids)
    scale = (num_rows - 1) / num_rows.clamp(min=1)
    return scale.unsqueeze(1) * (rewards.unsqueeze(1) - _running_mean(mean, trust))


def _running_mean(values: TokenFloats, trust: TokenFloats) -> TokenFloats:
    """b_t = trust_t · values_t + (1 − trust_t) · b_t−1 along the tokens, by doubling: log₂ T steps instead of T.

    >>> _running_mean(torch.tensor([[4.0, 9.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.5]]))
    tensor([[4., 4., 2.]])
    """
    added, kept = trust * values, 1 - trust
    step = 1
    while step < values.shape[1]:
        added = torch.cat([added[:, :step], added[:, step:] + kept[:, step:] * added[:, :-step]], dim=1)
        kept = torch.cat([kept[:, :step], kept[:, step:] * kept[:, :-step]], dim=1)
        step *= 2
    return added
