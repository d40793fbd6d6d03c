"""The metrics of one update. Every host logs them under these names.

Each process calls `metric_totals` on its own rows. The host gathers these totals and passes them to `logged_metrics`,
which adds them up before it divides. The logged values therefore do not depend on the number of processes.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from gtpo.core.groups import advantage_sign, group_sum, is_tied
from gtpo.core.shaping import ShapedAdvantages
from gtpo.core.types import RowFloats, RowInts, TokenIds, TokenMask

_RATIOS = {
    "gtpo/entropy_mean": ("entropy", "counted"),
    "gtpo/token_entropy": ("token_entropy", "tokens"),
    "gtpo/frac_kept": ("kept", "completions"),
    "gtpo/frac_conflict": ("conflict", "tokens"),
    "gtpo/frac_conflict_prefix": ("prefix", "tokens"),
    "gtpo/frac_conflict_suffix": ("suffix", "tokens"),
    "gtpo/frac_push_removed": ("removed", "push"),
    "gtpo/frac_push_added": ("added", "push"),
    "gtpo/frac_sign_flipped": ("flipped", "completions"),
    "gtpo/frac_tied_groups": ("tied", "groups"),
    "gtpo/frac_distinct": ("distinct", "completions"),
}
_SUMS = sorted({name for parts in _RATIOS.values() for name in parts} | {"skipped", "amplified"})


def metric_totals(
    shaped: ShapedAdvantages,
    completion_ids: TokenIds,
    completion_mask: TokenMask,
    advantages: RowFloats,
    group_ids: RowInts,
    rows: slice = slice(None),
) -> Float[Tensor, " K"]:
    """Sums over `rows`, in the order of `_SUMS`, followed by the largest completion entropy.

    The tensors hold complete groups. `rows` selects those that this process owns, so that no row is counted twice.
    """
    valid, counted = shaped.valid, shaped.valid & shaped.trained.any(1)
    trained = shaped.trained & valid.unsqueeze(1)
    moving = trained & shaped.kept.unsqueeze(1)
    weight, magnitude = shaped.token_weight, shaped.push.abs()
    prefix, suffix = shaped.prefix_mask & trained, shaped.suffix_mask & trained
    # The loss takes a mean over the tokens of a completion, so each token carries 1/|o_i| of its push.
    push_per_token = magnitude / shaped.trained.sum(1).clamp(min=1)
    lost = torch.where(moving, (1 - weight).clamp(min=0), 1.0) * trained
    gained = (weight - 1).clamp(min=0) * moving
    entropy = torch.where(counted, shaped.entropy, torch.zeros_like(shaped.entropy))
    share_of_group = valid / group_sum(valid.float(), group_ids).clamp(min=1)
    sign = advantage_sign(advantages, valid)
    copies = group_sum(valid.float(), _completion_numbers(completion_ids, completion_mask, group_ids))
    sums = {
        "completions": valid,
        "counted": counted,
        "entropy": entropy,
        "kept": shaped.kept,
        "tokens": trained,
        "token_entropy": entropy * trained.sum(1),
        "prefix": prefix,
        "suffix": suffix,
        "conflict": prefix | suffix,
        "skipped": moving & (weight < 1),
        "amplified": moving & (weight > 1),
        "push": magnitude * counted,
        "removed": lost.sum(1) * push_per_token,
        "added": gained.sum(1) * push_per_token,
        "flipped": sign * shaped.push < 0,
        "groups": share_of_group,
        "tied": share_of_group * is_tied(sign, group_ids),
        "distinct": valid / copies.clamp(min=1),
    }
    largest = torch.cat([entropy.new_zeros(1), entropy[rows]]).max()
    return torch.stack([sums[name][rows].sum().float() for name in _SUMS] + [largest.float()])


def _completion_numbers(completion_ids: TokenIds, completion_mask: TokenMask, group_ids: RowInts) -> RowInts:
    """A number for each row, equal for rows of one group that have the same tokens.

    >>> ids, ones = torch.tensor([[5, 6], [5, 6], [6, 5], [5, 6]]), torch.ones(4, 2, dtype=torch.int64)
    >>> _completion_numbers(ids, ones, torch.tensor([0, 0, 0, 1]))
    tensor([0, 0, 1, 2])
    """
    inside = completion_mask.bool()
    tokens = torch.where(inside, completion_ids.long(), 0)
    described = torch.cat([group_ids.long().unsqueeze(1), inside.sum(1, keepdim=True), tokens], dim=1)
    return torch.unique(described, dim=0, return_inverse=True)[1]


def logged_metrics(totals: Float[Tensor, "N K"]) -> dict[str, float]:
    """The logged values, from the totals of all processes.

    | name | meaning |
    | --- | --- |
    | gtpo/entropy_mean, gtpo/entropy_max | ⟨H⟩ over completions that are neither empty nor invalid |
    | gtpo/token_entropy | entropy over the trained tokens of all valid completions, kept or not |
    | gtpo/frac_kept | completions that pass the entropy filter |
    | gtpo/fully_filtered | 1 if none does |
    | gtpo/frac_conflict, …_prefix, …_suffix | trained tokens that are in a conflict run |
    | gtpo/num_tokens_skipped, gtpo/num_tokens_amplified | tokens of kept completions with λ < 1, and with λ > 1 |
    | gtpo/frac_push_removed, gtpo/frac_push_added | of Σ|A − γ⟨H⟩|: removed by δ and λ < 1; added by λ > 1 |
    | gtpo/frac_sign_flipped | completions whose A − γ⟨H⟩ has the opposite sign of A |
    | gtpo/frac_tied_groups | groups without a better and a worse completion |
    | gtpo/frac_distinct | distinct completions of a prompt, as a fraction: 1 if no two are equal |

    >>> from gtpo import shape_advantages
    >>> ids, group = torch.tensor([[5, 6], [5, 7]]), torch.tensor([0, 0])
    >>> mask, advantages = torch.ones_like(ids), torch.tensor([1.0, -1.0])
    >>> shaped = shape_advantages(ids, mask, advantages, torch.full((2, 2), 0.5), group, initial_entropy=0.5)
    >>> logged_metrics(metric_totals(shaped, ids, mask, advantages, group).unsqueeze(0))["gtpo/frac_conflict"]
    0.5
    """
    columns = totals.double().cpu()
    total: dict[str, float] = dict(zip(_SUMS, columns[:, :-1].sum(0).tolist(), strict=True))
    ratios = {name: total[part] / total[base] if total[base] else 0.0 for name, (part, base) in _RATIOS.items()}
    return {
        **ratios,
        "gtpo/entropy_max": float(columns[:, -1].max()),
        "gtpo/fully_filtered": float(total["completions"] > 0 and total["kept"] == 0),
        "gtpo/num_tokens_skipped": total["skipped"],
        "gtpo/num_tokens_amplified": total["amplified"],
    }
