"""Checks of the input tensors."""

from collections.abc import Mapping

from torch import Tensor

from gtpo.core.types import RowBools, RowFloats
from gtpo.errors import DataError


def require_shapes(per_token: Mapping[str, Tensor], per_row: Mapping[str, Tensor]) -> None:
    """Raise DataError unless all these tensors agree on B and T."""
    shapes = {tuple(tensor.shape) for tensor in per_token.values()}
    rows = {tuple(tensor.shape) for tensor in per_row.values()}
    if len(shapes) != 1 or not all(len(shape) == 2 and rows == {shape[:1]} for shape in shapes):
        got = (f"{name} {tuple(tensor.shape)}" for name, tensor in {**per_token, **per_row}.items())
        raise DataError(
            f"{', '.join(per_token)} must all be (B, T), {', '.join(per_row)} all (B,); got {', '.join(got)}."
        )


def require_finite(advantages: RowFloats, entropy: RowFloats, valid: RowBools, *, uses_entropy: bool) -> None:
    """Raise DataError unless the advantage of every valid row, and its entropy if it is used, is finite.

    One NaN would spread through the mean of its group. A single check covers all rows, so a GPU waits only once.
    """
    if not advantages.is_floating_point():
        raise DataError(f"advantages must be floating point, got {advantages.dtype}: the penalty is a fraction.")
    is_broken = valid & ~(advantages + entropy if uses_entropy else advantages).isfinite()
    if not bool(is_broken.any()):
        return
    row, num_broken = int(is_broken.nonzero()[0]), int(is_broken.sum())
    if bool(advantages[row].isfinite()):
        what, value = "mean entropy", entropy[row].item()
        reason = "The logits of the model are not finite: its weights are broken, or they overflow in their dtype"
        remedy = "Go back to an earlier checkpoint and lower the learning rate"
    else:
        what, value = "advantage", advantages[row].item()
        reason = "Its reward, or one of its group, is not finite"
        remedy = "Fix the reward, or mark rows that cannot be scored as not valid"
    raise DataError(f"Row {row} has the {what} {value} ({num_broken} of {len(valid)} rows). {reason}. {remedy}.")
