"""What one update does, in numbers. Every host logs these names.

A host calls `metric_totals` on its own rows, gathers the totals of all processes and hands them to `logged_metrics`:
sums and counts are added up before they are divided, so that many processes log what one would.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from gtpo.core.shaping import ShapedAdvantages

_SUMS: tuple[str, ...] = (
    "completions", "counted", "entropy", "kept", "tokens", "prefix", "suffix", "conflict", "skipped", "amplified",
    "push", "removed", "added", "groups", "tied", "distinct",
)  # fmt: skip


def metric_totals(shaped: ShapedAdvantages) -> Float[Tensor, " K"]:
    """Sums over the rows of one process, in the order of `_SUMS`, and last the largest completion entropy."""
    valid, counted = shaped.valid, shaped.valid & shaped.trained.any(1)
    trained = shaped.trained & valid.unsqueeze(1)
    moving = trained & shaped.kept.unsqueeze(1)
    weight, magnitude = shaped.token_weight, shaped.push.abs()
    prefix, suffix = shaped.prefix_mask & trained, shaped.suffix_mask & trained
    # The loss takes a mean over the tokens of a completion, so each token carries 1/|o_i| of its push.
    per_token = magnitude / shaped.trained.sum(1).clamp(min=1)
    lost = torch.where(moving, (1 - weight).clamp(min=0), 1.0) * trained
    gained = (weight - 1).clamp(min=0) * moving
    share_of_group = valid / shaped.group_size.clamp(min=1)
    entropy = torch.where(counted, shaped.entropy, torch.zeros_like(shaped.entropy))
    sums = {
        "completions": valid,
        "counted": counted,
        "entropy": entropy,
        "kept": shaped.kept,
        "tokens": trained,
        "prefix": prefix,
        "suffix": suffix,
        "conflict": prefix | suffix,
        "skipped": moving & (weight < 1),
        "amplified": moving & (weight > 1),
        "push": magnitude * counted,
        "removed": lost.sum(1) * per_token,
        "added": gained.sum(1) * per_token,
        "groups": share_of_group,
        "tied": share_of_group * shaped.tied,
        "distinct": valid / shaped.num_copies.clamp(min=1),
    }
    largest = entropy.max() if entropy.numel() else entropy.new_zeros(())
    return torch.stack([sums[name].sum().float() for name in _SUMS] + [largest.float()])


def logged_metrics(totals: Float[Tensor, "N K"]) -> dict[str, float]:
    """The logged values, from the totals of all processes.

    | name | meaning |
    | --- | --- |
    | gtpo/entropy_mean, gtpo/entropy_max | ⟨H⟩ over completions that are neither empty nor invalid |
    | gtpo/frac_kept | completions that pass the entropy filter |
    | gtpo/fully_filtered | 1 if none does |
    | gtpo/frac_conflict, …_prefix, …_suffix | trained tokens that are in a conflict run |
    | gtpo/num_tokens_skipped, gtpo/num_tokens_amplified | tokens of kept completions with λ < 1, and with λ > 1 |
    | gtpo/frac_push_removed, gtpo/frac_push_added | of Σ|A − γ⟨H⟩|: taken away by δ and λ < 1; added by λ > 1 |
    | gtpo/frac_tied_groups | groups without a better and a worse completion |
    | gtpo/frac_distinct | different completions of a prompt, of all: 1 if none says the same as another |

    >>> from gtpo import shape_advantages
    >>> ids = torch.tensor([[5, 6], [5, 7]])
    >>> entropy, group = torch.full((2, 2), 0.5), torch.tensor([0, 0])
    >>> shaped = shape_advantages(ids, torch.ones_like(ids), torch.tensor([1.0, -1.0]), entropy, group,
    ...                           initial_entropy=0.5)
    >>> logged_metrics(metric_totals(shaped).unsqueeze(0))["gtpo/frac_conflict"]
    0.5
    """
    columns = totals.double().cpu()
    total: dict[str, float] = dict(zip(_SUMS, columns[:, :-1].sum(0).tolist(), strict=True))

    def ratio(part: str, whole: str) -> float:
        return total[part] / total[whole] if total[whole] else 0.0

    return {
        "gtpo/entropy_mean": ratio("entropy", "counted"),
        "gtpo/entropy_max": float(columns[:, -1].max()),
        "gtpo/frac_kept": ratio("kept", "completions"),
        "gtpo/fully_filtered": float(total["completions"] > 0 and total["kept"] == 0),
        "gtpo/frac_conflict": ratio("conflict", "tokens"),
        "gtpo/frac_conflict_prefix": ratio("prefix", "tokens"),
        "gtpo/frac_conflict_suffix": ratio("suffix", "tokens"),
        "gtpo/num_tokens_skipped": total["skipped"],
        "gtpo/num_tokens_amplified": total["amplified"],
        "gtpo/frac_push_removed": ratio("removed", "push"),
        "gtpo/frac_push_added": ratio("added", "push"),
        "gtpo/frac_tied_groups": ratio("tied", "groups"),
        "gtpo/frac_distinct": ratio("distinct", "completions"),
    }
