"""Component: tokens that one reward function judges get the advantage of that reward alone."""

import torch

from gtpo.core.types import TokenFloats
from gtpo.credit.input import CreditInput, required
from gtpo.errors import DataError


def component(inputs: CreditInput) -> TokenFloats:
    """The advantage of one reward function on the tokens that it judges, the total elsewhere.

        Ã_it = A_i^f where token_component_it = f,   A_i where it is −1

    A_i^f is the weighted reward of function f minus its mean over the group, so Σ_f A_i^f = A_i. A format tag, for
    example, is then pushed by the format reward, and a wrong answer does not count against it. What token_component
    holds on tokens that are not trained does not matter.

    Source: this package.

    The first token is judged by reward function 0 alone:

    >>> from gtpo.credit import token_advantages
    >>> ids = torch.tensor([[5, 6, 7], [5, 8, 0]])
    >>> by_function = torch.tensor([[0.0, 1.0], [0.0, -1.0]])
    >>> inputs = CreditInput(ids, ids > 0, by_function.sum(1), torch.tensor([0, 0]), component_advantages=by_function,
    ...                      token_component=torch.tensor([[0, -1, -1], [0, -1, -1]]))
    >>> token_advantages("component", inputs)
    tensor([[ 0.,  1.,  1.],
            [ 0., -1.,  0.]])
    """
    components = required(inputs.component_advantages, "component_advantages")
    judge = torch.where(inputs.trained, required(inputs.token_component, "token_component").long(), -1)
    num_components = components.shape[1]
    if bool(((judge < -1) | (judge >= num_components)).any()):
        raise DataError(
            f"token_component must be between -1 and {num_components - 1}, since component_advantages has "
            f"{num_components} column(s); got {int(judge.min())} to {int(judge.max())}."
        )
    return torch.cat([components, inputs.advantages.unsqueeze(1)], dim=1).gather(1, judge % (num_components + 1))
