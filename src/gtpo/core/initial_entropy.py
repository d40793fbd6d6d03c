"""⟨H⟩_ini: how broad the policy was before training touched it.

One prompt says little, so it is a mean over the first batches, until enough prompts have been seen; then it is frozen,
and a checkpoint keeps it.
"""

import dataclasses

import torch
from jaxtyping import Float
from torch import Tensor

from gtpo.core.groups import group_sum
from gtpo.core.types import RowBools, RowFloats, RowInts


@dataclasses.dataclass
class InitialEntropy:
    """A running mean of completion entropies that stops after `num_prompts_needed` prompts.

    `given` is a value known beforehand: nothing is measured then.

    >>> initial = InitialEntropy(num_prompts_needed=2)
    >>> entropy, one_prompt = torch.tensor([0.2, 0.4]), torch.tensor([0, 0])
    >>> initial.add(entropy_totals(entropy, torch.tensor([True, True]), one_prompt).sum(0))
    >>> round(initial.value, 3)
    0.3
    >>> initial.is_frozen
    False
    """

    num_prompts_needed: int = 32
    given: float | None = None
    total_entropy: float = 0.0
    num_completions: float = 0.0
    num_prompts: float = 0.0

    @property
    def is_frozen(self) -> bool:
        # Shares of a group that is split over processes sum to one prompt up to rounding.
        return self.given is not None or self.num_prompts > self.num_prompts_needed - 0.5

    @property
    def value(self) -> float | None:
        """The value to use now; None before anything has been seen."""
        if self.given is not None:
            return self.given
        return self.total_entropy / self.num_completions if self.num_completions else None

    def add(self, totals: Float[Tensor, " 3"]) -> None:
        """Count one more generation batch in: `entropy_totals`, summed over all processes."""
        total_entropy, num_completions, num_prompts = totals.tolist()
        self.total_entropy += total_entropy
        self.num_completions += num_completions
        self.num_prompts += num_prompts


def entropy_totals(entropy: RowFloats, counted: RowBools, group_ids: RowInts) -> Float[Tensor, "B 3"]:
    """Per row what it adds: its entropy, one completion, and its share of its prompt; zeros for rows left out.

    >>> entropy_totals(torch.tensor([0.2, 0.4, 0.9]), torch.tensor([True, True, False]), torch.tensor([0, 0, 0]))
    tensor([[0.2000, 1.0000, 0.5000],
            [0.4000, 1.0000, 0.5000],
            [0.0000, 0.0000, 0.0000]])
    """
    one = counted.to(entropy.dtype)
    share = one / group_sum(one, group_ids).clamp(min=1)
    return torch.stack([torch.where(counted, entropy, torch.zeros_like(entropy)), one, share], dim=1)
