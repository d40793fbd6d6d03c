"""Repacking the rows of micro-batches, on random blocks and without a model."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtpo.trl.padding import Padding
from gtpo.trl.trimming import TrimmedBatches


class Stub(TrimmedBatches):
    """Only what repacking needs. `elsewhere` is the number of rows with weight on another process."""

    aux_loss_enabled, top_entropy_quantile, beta, model = False, 1.0, 0.0, None

    def __init__(self, loss_type: str, elsewhere: int) -> None:
        self.loss_type = loss_type
        self.accelerator = type("A", (), {"gather": lambda _, own: torch.stack([own, torch.tensor(elsewhere)])})()

    def _padding(self, model):
        return Padding(completions=True, prompts=True)


@st.composite
def blocks(draw):
    count, size, width = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 6))
    batches = []
    for number in range(count):
        sizes = torch.tensor(draw(st.lists(st.integers(0, width), min_size=size, max_size=size)))
        weights = torch.tensor(draw(st.lists(st.sampled_from([0.0, 1.0, -2.0]), min_size=size, max_size=size)))
        mask = (torch.arange(width) < sizes[:, None]).long()
        ids = (torch.arange(size) + number * size + 1)[:, None] * 10 + torch.arange(width)
        batches.append(
            {
                "prompt_ids": ids[:, :1],
                "prompt_mask": torch.ones(size, 1, dtype=torch.int64),
                "completion_ids": ids,
                "completion_mask": mask,
                "advantages": weights[:, None] * mask,
                "num_items_in_batch": mask.sum(),
            }
        )
    return batches


def factors_of(batches, loss_type):
    """By row: the factors of the gradients of its tokens, after the divisions of the loss."""
    factors = {}
    for batch in batches:
        mask = batch["completion_mask"]
        for row, (ids, advantages) in enumerate(zip(batch["completion_ids"], batch["advantages"], strict=True)):
            own = mask[row].sum().clamp(min=1) * len(mask) if loss_type == "grpo" else None
            divisor = {"bnpo": mask.sum().clamp(min=1), "dr_grpo": len(mask), "dapo": 1, "grpo": own}[loss_type]
            if advantages.any():
                assert int(ids[0]) not in factors
                factors[int(ids[0])] = (advantages / divisor)[mask[row].bool()].tolist()
    return factors


@given(block=blocks(), loss_type=st.sampled_from(["grpo", "bnpo", "dr_grpo", "dapo"]), elsewhere=st.integers(0, 20))
def test_every_row_keeps_its_factors_and_processes_agree_on_sizes(block, loss_type, elsewhere):
    before, num_rows = factors_of(block, loss_type), sum(len(batch["advantages"]) for batch in block)
    elsewhere = min(elsewhere, num_rows)
    after = Stub(loss_type, elsewhere)._repacked(block)
    assert factors_of(after, loss_type) == {row: pytest.approx(factors) for row, factors in before.items()}
    sizes = [len(batch["advantages"]) for batch in after]
    assert len(after) == len(block)
    assert sum(sizes) == max(len(before), elsewhere, len(block))
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
    widths = [batch["completion_mask"].shape[1] for batch in after]
    assert widths == sorted(widths, reverse=True)
    assert widths == [max(1, int(batch["completion_mask"].sum(1).max())) for batch in after]
