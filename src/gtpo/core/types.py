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

from jaxtyping import Bool, Float, Int
from torch import Tensor

TokenIds = Int[Tensor, "B T"]
TokenMask = Bool[Tensor, "B T"] | Int[Tensor, "B T"]
TokenFloats = Float[Tensor, "B T"]
TokenBools = Bool[Tensor, "B T"]
RowInts = Int[Tensor, " B"]
RowFloats = Float[Tensor, " B"]
RowBools = Bool[Tensor, " B"]
RowMask = RowBools | RowInts
