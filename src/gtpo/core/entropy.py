"""Entropy control: the mean entropy of a completion, and the filter and the penalty that use it.

Entropies are in nats, over the full vocabulary, of the policy at the sampling temperature, without gradient.
"""

import math
from typing import get_args

import torch

from gtpo.core.config import LN2, EntropyFilter, ShapingConfig
from gtpo.core.groups import advantage_sign, group_sum, is_tied
from gtpo.core.types import RowBools, RowFloats, RowInts, TokenFloats, TokenMask
from gtpo.errors import ConfigError, require, require_choice


def completion_entropy(token_entropy: TokenFloats, loss_mask: TokenMask) -> RowFloats:
    """⟨H⟩_i, the mean entropy over the trained tokens of each completion; 0 for an empty one.

    >>> completion_entropy(torch.tensor([[0.2, 0.4, 9.0], [1.0, 1.0, 1.0]]), torch.tensor([[1, 1, 0], [0, 0, 0]]))
    tensor([0.3000, 0.0000])
    """
    trained = loss_mask.bool()
    token_entropy = token_entropy.detach()
    if token_entropy.dtype in (torch.float16, torch.bfloat16):
        token_entropy = token_entropy.float()
    total = torch.where(trained, token_entropy, torch.zeros_like(token_entropy)).sum(1)
    return total / trained.sum(1).clamp(min=1)


def entropy_filter(
    entropy: RowFloats,
    advantages: RowFloats,
    *,
    initial_entropy: float | None,
    threshold: float = LN2,
    mode: EntropyFilter = "auto",
) -> RowBools:
    """δ_i: True where a completion is kept, False where its entropy excludes it from the update.

        auto:     δ_i = 1 if ⟨H⟩_ini > threshold, else [⟨H⟩_i ≤ threshold]
        all:      δ_i = [⟨H⟩_i ≤ threshold]
        negative: the same for A_i < 0 only;   off: δ_i = 1

    A completion at the threshold is kept. Only `auto` uses ⟨H⟩_ini: a policy that starts out broad is not filtered.

    Why ln 2: H ≥ −ln max p at each position, so a mean below ln 2 guarantees that the geometric mean of the top
    probabilities exceeds 1/2. It does not say that every position has a majority token, and the converse fails.

    >>> entropy, advantages = torch.tensor([0.3, 0.9]), torch.tensor([1.0, -1.0])
    >>> entropy_filter(entropy, advantages, initial_entropy=0.4)
    tensor([ True, False])
    >>> entropy_filter(entropy, advantages, initial_entropy=0.8)
    tensor([True, True])
    """
    require_choice("mode", mode, get_args(EntropyFilter))
    confident = entropy <= threshold
    everything = torch.ones_like(confident)
    if mode == "off":
        return everything
    if mode == "all":
        return confident
    if mode == "negative":
        return confident | (advantage_sign(advantages) >= 0)
    if initial_entropy is None:
        raise ConfigError(
            "entropy_filter='auto' needs the entropy of the initial policy, but initial_entropy is None. "
            "Pass the measured value, or set entropy_filter to 'all', 'negative' or 'off'."
        )
    require(math.isfinite(initial_entropy), "initial_entropy", initial_entropy, "a finite number, in nats")
    return everything if initial_entropy > threshold else confident


def entropy_penalty(
    entropy: RowFloats, advantages: RowFloats, group_ids: RowInts, valid: RowBools, config: ShapingConfig
) -> RowFloats:
    """γ⟨H⟩_i, to be subtracted from A_i.

    Centred, it is γ(⟨H⟩_i − mean over the valid rows of the group), and 0 in tied groups. It then adds no common push,
    and a group whose answers are all equally good does not move.

    Relative, it is multiplied by σ, the root mean square of the advantages of the group. γ is then measured in
    standard deviations of the group's rewards. σ is 0 in tied groups.

    >>> entropy, advantages, group = torch.tensor([0.2, 0.4]), torch.tensor([0.5, -0.5]), torch.tensor([0, 0])
    >>> valid = torch.tensor([True, True])
    >>> entropy_penalty(entropy, advantages, group, valid, ShapingConfig())
    tensor([0.0200, 0.0400])
    >>> entropy_penalty(entropy, advantages, group, valid, ShapingConfig(entropy_penalty_center=True))
    tensor([-0.0100,  0.0100])
    >>> entropy_penalty(entropy, advantages, group, valid, ShapingConfig(entropy_penalty_relative=True))
    tensor([0.0100, 0.0200])
    """
    zero = torch.zeros_like(entropy)
    if config.entropy_penalty == 0.0:
        return zero
    penalty = config.entropy_penalty * entropy
    sign, size = advantage_sign(advantages, valid), group_sum(valid.to(entropy.dtype), group_ids).clamp(min=1)
    if config.entropy_penalty_center:
        mean = group_sum(torch.where(valid, penalty, zero), group_ids) / size
        penalty = torch.where(is_tied(sign, group_ids), zero, penalty - mean)
    if config.entropy_penalty_relative:
        signed = torch.where(sign == 0, torch.zeros_like(advantages), advantages)
        penalty = penalty * (group_sum(signed.square(), group_ids) / size).sqrt()
    return penalty
