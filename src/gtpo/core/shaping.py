"""GTPO on one screen: a pure function from groups of completions to one advantage per token.

    Ã_it = δ_i (A_i − γ⟨H⟩_i) λ_it

A host (TRL, verl, your own loop) brings token ids, masks, group membership, advantages and token entropies. It passes
Ã to the loss of GRPO: mean over the tokens of a completion, then mean over completions. Source: arXiv:2508.03772.
"""

import dataclasses

import torch

from gtpo.core.checks import require_finite, require_shapes
from gtpo.core.config import ShapingConfig
from gtpo.core.conflicts import conflict_runs
from gtpo.core.entropy import completion_entropy, entropy_filter, entropy_penalty
from gtpo.core.groups import advantage_sign
from gtpo.core.types import RowBools, RowFloats, RowInts, RowMask, TokenBools, TokenFloats, TokenIds, TokenMask


@dataclasses.dataclass(frozen=True)
class ShapedAdvantages:
    """The advantages per token, and the quantities that explain them."""

    advantages: TokenFloats  # Ã; 0 on tokens that are not trained
    token_weight: TokenFloats  # λ; 0 on tokens that are not trained
    prefix_mask: TokenBools  # conflicts counted from the first token
    suffix_mask: TokenBools  # conflicts counted from the last token backwards
    kept: RowBools  # δ; an invalid row is not kept
    entropy: RowFloats  # ⟨H⟩
    push: RowFloats  # A − γ⟨H⟩, before δ and λ; 0 on invalid rows
    trained: TokenBools  # the |o_i| tokens that the loss is taken over
    valid: RowBools  # the rows that count at all


def shape_advantages(
    completion_ids: TokenIds,
    completion_mask: TokenMask,
    advantages: RowFloats,
    token_entropy: TokenFloats,
    group_ids: RowInts,
    *,
    initial_entropy: float | None,
    loss_mask: TokenMask | None = None,
    valid: RowMask | None = None,
    config: ShapingConfig = ShapingConfig(),  # noqa: B008 (frozen)
) -> ShapedAdvantages:
    """Ã_it = δ_i (A_i − γ⟨H⟩_i) λ_it, for all groups at once.

    `advantages` is A_i = R_i − mean of the group's R, not divided by a standard deviation. `completion_mask` marks the
    tokens of a completion and aligns completions; `loss_mask` (default: the same) marks the trained ones among them.
    Tool output keeps its place in the alignment and gets no weight. Rows that are not `valid` (default: all are) stay
    unchanged, take no part in any mean and may hold anything; an advantage or an entropy of a valid row that is not
    finite raises DataError. Groups may differ in size, and their rows may come in any order.

    Two completions share their first token. The bad one is not pushed there, the good one is pushed twice as hard:

    >>> ids = torch.tensor([[5, 6, 7], [5, 8, 4]])
    >>> ones = torch.ones(2, 3, dtype=torch.int64)
    >>> shaped = shape_advantages(ids, ones, torch.tensor([1.0, -1.0]), torch.full((2, 3), 0.5), torch.tensor([0, 0]),
    ...                           initial_entropy=0.5)
    >>> shaped.advantages
    tensor([[ 1.9000,  0.9500,  0.9500],
            [-0.0000, -1.0500, -1.0500]])
    """
    loss_mask = completion_mask if loss_mask is None else loss_mask
    valid = torch.ones_like(group_ids, dtype=torch.bool) if valid is None else valid.bool()
    per_token = {"completion_ids": completion_ids, "completion_mask": completion_mask, "loss_mask": loss_mask}
    per_row = {"advantages": advantages, "group_ids": group_ids, "valid": valid}
    require_shapes({**per_token, "token_entropy": token_entropy}, per_row)
    trained = completion_mask.bool() & loss_mask.bool()
    zero = torch.zeros_like(advantages)
    advantages = torch.where(valid, advantages.detach(), zero)
    sign = advantage_sign(advantages)

    entropy = completion_entropy(token_entropy, trained)
    uses_entropy = config.entropy_filter != "off" or config.entropy_penalty > 0
    require_finite(advantages, entropy, valid, uses_entropy=uses_entropy)
    prefix, suffix = conflict_runs(
        completion_ids, completion_mask, sign, group_ids, edges=config.conflict_edges, match=config.conflict_match
    )
    kept = valid & entropy_filter(
        entropy,
        advantages,
        initial_entropy=initial_entropy,
        threshold=config.entropy_threshold,
        mode=config.entropy_filter,
    )
    penalty = entropy_penalty(entropy, advantages, group_ids, valid, config)

    push = torch.where(valid, advantages - penalty.to(advantages.dtype), zero)  # A − γ⟨H⟩
    conflict_weight = torch.where(sign > 0, config.conflict_positive_weight, config.conflict_negative_weight)
    token_weight = torch.where(prefix | suffix, conflict_weight.unsqueeze(1), 1.0).to(push.dtype) * trained  # λ
    shaped = torch.where(kept, push, zero).unsqueeze(1) * token_weight  # δ (A − γ⟨H⟩) λ
    return ShapedAdvantages(shaped, token_weight, prefix, suffix, kept, entropy, push, trained, valid)
