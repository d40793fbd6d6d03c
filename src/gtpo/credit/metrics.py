"""How large the advantages of a scheme are next to those of GRPO. Every host logs this for every scheme."""

import torch
from jaxtyping import Float
from torch import Tensor

from gtpo.core.types import RowFloats, TokenBools, TokenFloats


def credit_totals(
    credit: TokenFloats, advantages: RowFloats, trained: TokenBools, rows: slice = slice(None)
) -> Float[Tensor, " 3"]:
    """Σ|Ã|, Σ|A| and the number of trained tokens, over `rows`."""
    tokens = trained[rows]
    of_grpo = torch.where(tokens, advantages[rows].abs().unsqueeze(1), 0.0)
    return torch.stack([(credit[rows].abs() * tokens).sum(), of_grpo.sum(), tokens.sum()]).float()


def credit_metrics(totals: Float[Tensor, "N 3"]) -> dict[str, float]:
    """The logged values, from the totals of all processes.

    >>> credit, advantages = torch.tensor([[2.0, 1.0], [0.0, 0.0]]), torch.tensor([1.0, -1.0])
    >>> trained = torch.tensor([[True, True], [True, False]])
    >>> credit_metrics(credit_totals(credit, advantages, trained).unsqueeze(0))
    {'credit/mean_abs': 1.0, 'credit/mean_abs_grpo': 1.0}
    """
    credit, of_grpo, num_tokens = totals.double().sum(0).tolist()
    return {"credit/mean_abs": credit / max(1.0, num_tokens), "credit/mean_abs_grpo": of_grpo / max(1.0, num_tokens)}
