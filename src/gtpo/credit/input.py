"""The input of a credit scheme: groups of completions, their advantages, and what else the host knows about them."""

import dataclasses
import math
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gtpo.core.checks import require_shapes
from gtpo.core.types import RowBools, RowFloats, RowInts, TokenBools, TokenFloats, TokenIds, TokenMask
from gtpo.errors import DataError

X = TypeVar("X")

OPTIONAL = {
    "rewards": "the total reward of each completion before any mean is subtracted, (B,)",
    "component_advantages": "the advantage by reward function, (B, F); the columns add up to `advantages`",
    "token_component": "the column of component_advantages that judges each token, (B, T); -1 for `advantages`",
    "token_entropy": "the entropy of the policy at each token in nats, (B, T)",
    "token_logps": "the log-probability of each sampled token, (B, T)",
    "initial_entropy": "the mean entropy of completions of the initial policy in nats, a float",
    "batch_entropy": "the mean entropy of the completions of this batch over all processes in nats, a float",
}
"""The inputs that only some schemes need."""


@dataclasses.dataclass(frozen=True, eq=False)
class CreditInput:
    """Completions in any order, grouped by `group_ids`, and their advantages A_i = R_i − mean of the group's R.

    `completion_mask` marks the tokens of a completion and aligns completions; `loss_mask` (default: the same) marks
    the trained ones among them. Rows that are not `valid` (default: all are) may hold anything: their advantages and
    rewards are stored as 0, and no scheme counts them anywhere. Floating-point tensors are stored without gradient.

    >>> ids = torch.tensor([[5, 6], [5, 0]])
    >>> inputs = CreditInput(ids, ids > 0, torch.tensor([1.0, torch.nan]), torch.tensor([0, 0]),
    ...                      valid=torch.tensor([True, False]))
    >>> inputs.advantages
    tensor([1., 0.])
    >>> inputs.trained
    tensor([[ True,  True],
            [False, False]])
    """

    completion_ids: TokenIds
    completion_mask: TokenMask
    advantages: RowFloats
    group_ids: RowInts
    _: dataclasses.KW_ONLY
    loss_mask: TokenMask | None = None
    valid: RowBools | None = None
    rewards: RowFloats | None = None
    component_advantages: Float[Tensor, "B F"] | None = None
    token_component: Int[Tensor, "B T"] | None = None
    token_entropy: TokenFloats | None = None
    token_logps: TokenFloats | None = None
    initial_entropy: float | None = None
    batch_entropy: float | None = None

    def __post_init__(self) -> None:
        self._check_shapes()
        inside = self.completion_mask.bool()
        if bool((inside[:, 1:] & ~inside[:, :-1]).any()):
            raise DataError(
                "completion_mask has a 1 after a 0. Completions must be padded on the right. Mark tokens that are not "
                "trained in loss_mask instead."
            )
        if self.token_entropy is not None:
            _require_finite_entropy(self.token_entropy, self.trained)
        for name in ("initial_entropy", "batch_entropy"):
            value: float | None = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise DataError(f"{name} is {value}: pass the measured mean entropy in nats, or None.")
        for name in ("advantages", "rewards", "component_advantages"):
            values: Tensor | None = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, _without_invalid(name, values.detach(), self.is_valid))
        for name in ("token_entropy", "token_logps"):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, values.detach())

    @property
    def is_valid(self) -> RowBools:
        """The rows that count."""
        return torch.ones_like(self.group_ids, dtype=torch.bool) if self.valid is None else self.valid.bool()

    @property
    def trained(self) -> TokenBools:
        """The tokens that the loss is taken over, in valid rows."""
        inside = self.completion_mask.bool() & self.is_valid.unsqueeze(1)
        return inside if self.loss_mask is None else inside & self.loss_mask.bool()

    def _check_shapes(self) -> None:
        def given(*names: str) -> dict[str, Tensor]:
            return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

        tokens = given(
            "completion_ids", "completion_mask", "loss_mask", "token_component", "token_entropy", "token_logps"
        )
        require_shapes(tokens, given("advantages", "group_ids", "valid", "rewards"))
        components = self.component_advantages
        if components is not None and (components.ndim != 2 or len(components) != len(self.advantages)):
            got = f"{tuple(components.shape)} for {len(self.advantages)} rows"
            raise DataError(f"component_advantages must be (B, F), one column per reward function; got {got}.")


def required(value: X | None, name: str) -> X:
    """The optional input, or DataError that says what it is.

    >>> required(0.5, "batch_entropy")
    0.5
    """
    if value is None:
        raise DataError(f"The credit scheme needs {name}, which is None. Pass {OPTIONAL[name]}.")
    return value


def upcast(values: Tensor) -> Tensor:
    """Half precision to float32, in which sums and means are taken; other types as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _without_invalid(name: str, values: Tensor, is_valid: RowBools) -> Tensor:
    if not values.is_floating_point():
        raise DataError(f"{name} must be floating point, got {values.dtype}. Convert it with .float().")
    values = torch.where(is_valid.view(-1, *[1] * (values.ndim - 1)), values, torch.zeros_like(values))
    if not bool(values.isfinite().all()):
        row = int((~values.isfinite()).nonzero()[0, 0])
        raise DataError(
            f"{name} of row {row} is {values[row].tolist()}. Set valid to False for rows that could not be scored."
        )
    return values


def _require_finite_entropy(token_entropy: TokenFloats, trained: TokenBools) -> None:
    is_broken = (trained & ~token_entropy.isfinite()).any(1)
    if bool(is_broken.any()):
        row, count = int(is_broken.nonzero()[0, 0]), int(is_broken.sum())
        raise DataError(
            f"token_entropy of row {row} is not finite ({count} of {len(is_broken)} rows). The logits of the model "
            "are not finite: check its weights and its precision."
        )
