"""Axes and shapes.

B  rows of a batch, one completion each, groups in any order
G  completions of one prompt (a group); groups may differ in size
T  tokens of a completion, padded on the right
V  vocabulary
P  pairs of completions of opposite sign
D  directions in which completions are compared, forwards and backwards
N  processes
K  totals that metrics are computed from

Masks may be boolean or integers 0 and 1, ids any integer type.
"""

from collections.abc import Mapping

from jaxtyping import Bool, Float, Int
from torch import Tensor

from gtpo.errors import DataError

TokenIds = Int[Tensor, "B T"]
TokenMask = Bool[Tensor, "B T"] | Int[Tensor, "B T"]
TokenFloats = Float[Tensor, "B T"]
TokenBools = Bool[Tensor, "B T"]
RowInts = Int[Tensor, " B"]
RowFloats = Float[Tensor, " B"]
RowBools = Bool[Tensor, " B"]


def require_shapes(per_token: Mapping[str, Tensor], per_row: Mapping[str, Tensor]) -> None:
    """Raise DataError unless all these tensors agree on B and T."""
    shapes = {tuple(tensor.shape) for tensor in per_token.values()}
    rows = {tuple(tensor.shape) for tensor in per_row.values()}
    if len(shapes) != 1 or not all(len(shape) == 2 and rows == {shape[:1]} for shape in shapes):
        got = (f"{name} {tuple(tensor.shape)}" for name, tensor in {**per_token, **per_row}.items())
        raise DataError(
            f"{', '.join(per_token)} must all be (B, T), {', '.join(per_row)} all (B,); got {', '.join(got)}."
        )
