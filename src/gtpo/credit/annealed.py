"""Annealed: GTPO that stops weighting conflict tokens when entropy has fallen."""

import math

from gtpo.core.types import TokenFloats
from gtpo.credit.gtpo import gtpo
from gtpo.credit.input import CreditInput, required
from gtpo.errors import require


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
    initial = required(inputs.initial_entropy, "initial_entropy")
    if required(inputs.batch_entropy, "batch_entropy") < until * initial:
        options["conflict_edges"] = "none"
    return gtpo(inputs, **options)
