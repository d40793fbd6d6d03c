"""GTPO as a credit scheme."""

import dataclasses

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import shape_advantages
from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput, required


def gtpo(inputs: CreditInput, **options: object) -> TokenFloats:
    """Ã_it = δ_i (A_i − γ⟨H⟩_i) λ_it: `gtpo.shape_advantages`, with the fields of ShapingConfig as parameters.

    It needs `initial_entropy` too, unless `entropy_filter` is set to something else than "auto". Tied groups get
    −γ⟨H⟩_i, as in the paper.

    Source: arXiv:2508.03772.

    >>> import torch
    >>> from gtpo.credit import token_advantages
    >>> ids = torch.tensor([[5, 6, 7], [5, 8, 0]])
    >>> inputs = CreditInput(ids, ids > 0, torch.tensor([1.0, -1.0]), torch.tensor([0, 0]),
    ...                      token_entropy=torch.full((2, 3), 0.5), initial_entropy=0.5)
    >>> token_advantages("gtpo", inputs, entropy_penalty=0.0)
    tensor([[ 2.,  1.,  1.],
            [-0., -1.,  0.]])
    """
    return shape_advantages(
        inputs.completion_ids,
        inputs.completion_mask,
        inputs.advantages,
        required(inputs.token_entropy, "token_entropy"),
        inputs.group_ids,
        initial_entropy=inputs.initial_entropy,
        loss_mask=inputs.loss_mask,
        valid=inputs.valid,
        config=dataclasses.replace(ShapingConfig(), **options),
    ).advantages
