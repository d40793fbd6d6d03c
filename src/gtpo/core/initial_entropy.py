"""⟨H⟩_ini: the mean entropy of completions of the initial policy.

A single prompt is too noisy, so it is a running mean over the first batches until enough prompts have been seen. Then
it is frozen. Checkpoints store it.
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

    If `given` is set, that value is used and nothing is measured.

    >>> initial = InitialEntropy(num_prompts_needed=2)
    >>> entropy, group = torch.tensor([0.2, 0.4]), torch.tensor([0, 0])
    >>> initial.add(entropy_totals(entropy, torch.tensor([True, True]), group).sum(0))
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
        # The shares of a group that is split over processes add up to 1 only up to rounding.
        return self.given is not None or self.num_prompts > self.num_prompts_needed - 0.5

    @property
    def value(self) -> float | None:
        """The value to use now; None before anything was measured."""
        if self.given is not None:
            return self.given
        return self.total_entropy / self.num_completions if self.num_completions else None

    def add(self, totals: Float[Tensor, " 3"]) -> None:
        """Add one generation batch: `entropy_totals`, summed over its rows and over all processes."""
        total_entropy, num_completions, num_prompts = totals.tolist()
        self.total_entropy += total_entropy
        self.num_completions += num_completions
        self.num_prompts += num_prompts


def entropy_totals(entropy: RowFloats, counted: RowBools, group_ids: RowInts) -> Float[Tensor, "B 3"]:
    """What each row adds: its entropy, one completion, and its share of its prompt. Zeros for rows that do not count.

    >>> entropy_totals(torch.tensor([0.2, 0.4, 0.9]), torch.tensor([True, True, False]), torch.tensor([0, 0, 0]))
    tensor([[0.2000, 1.0000, 0.5000],
            [0.4000, 1.0000, 0.5000],
            [0.0000, 0.0000, 0.0000]])
    """
    completions = counted.to(entropy.dtype)
    prompts = completions / group_sum(completions, group_ids).clamp(min=1)
    return torch.stack([torch.where(counted, entropy, torch.zeros_like(entropy)), completions, prompts], dim=1)
