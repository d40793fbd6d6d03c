"""Axes and shapes, said once.

B  rows of a batch, one completion each, groups in any order
G  completions of one prompt (a group); groups may differ in size
T  tokens of a completion, padded on the right
V  vocabulary
P  pairs of completions, or processes

Masks may be boolean or integers 0 and 1, ids any integer type.
"""

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


def require_shapes(per_token: tuple[Tensor, ...], per_row: tuple[Tensor, ...]) -> None:
    """Raise DataError unless all of these agree on B and T."""
    shapes = {tuple(tensor.shape) for tensor in per_token}
    rows = {tuple(tensor.shape) for tensor in per_row}
    if len(shapes) != 1 or len(per_token[0].shape) != 2 or rows != {(per_token[0].shape[0],)}:
        raise DataError(
            "ids, masks and token entropies must all be (B, T), advantages, group ids and valid all (B,); got "
            f"{', '.join(str(tuple(tensor.shape)) for tensor in (*per_token, *per_row))}."
        )
