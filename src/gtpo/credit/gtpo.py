"""GTPO as a credit scheme, and a variant that stops weighting conflict tokens when entropy has fallen."""

import dataclasses
import math

from gtpo.core.config import ShapingConfig
from gtpo.core.shaping import shape_advantages
from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput, required
from gtpo.errors import require


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
    return _shaped(inputs, dataclasses.replace(ShapingConfig(), **options))


def annealed(inputs: CreditInput, *, until: float = 0.5, **options: object) -> TokenFloats:
    """GTPO while the policy is broad, GTPO without conflict weights (λ = 1) once its entropy has fallen.

        λ_it as in GTPO if ⟨H⟩_batch ≥ until · ⟨H⟩_ini, otherwise λ_it = 1

    Only this batch decides: if entropy rises again, the conflict weights return. `until=0` is GTPO.

    Source: this package. Conflict weights of 2 and 0 seem to help early and to cost diversity later.

    >>> import torch
    >>> from gtpo.credit import token_advantages
    >>> ids = torch.tensor([[5, 6, 7], [5, 8, 0]])
    >>> inputs = CreditInput(ids, ids > 0, torch.tensor([1.0, -1.0]), torch.tensor([0, 0]),
    ...                      token_entropy=torch.full((2, 3), 0.2), initial_entropy=0.5, batch_entropy=0.2)
    >>> token_advantages("annealed", inputs, entropy_penalty=0.0)
    tensor([[ 1.,  1.,  1.],
            [-1., -1.,  0.]])
    """
    require(0 <= until < math.inf, "until", until, "a finite number ≥ 0, a fraction of the initial entropy")
    config = dataclasses.replace(ShapingConfig(), **options)
    initial = required(inputs.initial_entropy, "initial_entropy")
    if required(inputs.batch_entropy, "batch_entropy") < until * initial:
        config = dataclasses.replace(config, conflict_edges="none")
    return _shaped(inputs, config)


def _shaped(inputs: CreditInput, config: ShapingConfig) -> TokenFloats:
    return shape_advantages(
        inputs.completion_ids,
        inputs.completion_mask,
        inputs.advantages,
        required(inputs.token_entropy, "token_entropy"),
        inputs.group_ids,
        initial_entropy=inputs.initial_entropy,
        loss_mask=inputs.loss_mask,
        valid=inputs.valid,
        config=config,
    ).advantages
