"""Repacking the rows of micro-batches, on random blocks and without a model."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtpo.trl.fast.padding import Padding
from gtpo.trl.fast.trimming import TrimmedBatches, balanced_sizes


class Stub(TrimmedBatches):
    """Only what repacking needs. `elsewhere` is the number of rows with weight on another process."""

    beta, model = 0.0, None

    def __init__(self, loss_type: str, elsewhere: int, *, shares: bool) -> None:
        self.loss_type, self.shares = loss_type, shares

        def gather(_, own):
            return torch.cat([own, (torch.arange(own.shape[1]) < elsewhere).long().unsqueeze(0)])

        self.accelerator = type("A", (), {"gather": gather})()

    def _shares_prompts(self, model):
        return self.shares

    def _padding(self, model):
        return Padding(completions=True, prompts=True)


@st.composite
def blocks(draw):
    is_per_token = draw(st.booleans())
    count, size, width = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 6))
    batches = []
    for number in range(count):
        sizes = torch.tensor(draw(st.lists(st.integers(0, width), min_size=size, max_size=size)))
        weights = torch.tensor(draw(st.lists(st.sampled_from([0.0, 1.0, -2.0]), min_size=size, max_size=size)))
        mask = (torch.arange(width) < sizes[:, None]).long()
        ids = (torch.arange(size) + number * size + 1)[:, None] * 10 + torch.arange(width)
        batches.append(
            {
                "prompt_ids": ids[:, :1] // 20,  # two rows have the same prompt
                "prompt_mask": torch.ones(size, 1, dtype=torch.int64),
                "completion_ids": ids,
                "completion_mask": mask,
                "advantages": weights[:, None] * mask if is_per_token else weights,
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
            of_tokens = (advantages * mask[row])[mask[row].bool()]
            if of_tokens.any():
                assert int(ids[0]) not in factors
                factors[int(ids[0])] = (of_tokens / divisor).tolist()
    return factors


@given(
    block=blocks(),
    loss_type=st.sampled_from(["grpo", "bnpo", "dr_grpo", "dapo"]),
    elsewhere=st.integers(0, 20),
    shares=st.booleans(),
)
def test_every_row_keeps_its_factors_and_processes_agree_on_sizes(block, loss_type, elsewhere, shares):
    before, num_rows = factors_of(block, loss_type), sum(len(batch["advantages"]) for batch in block)
    elsewhere = min(elsewhere, num_rows)
    after = Stub(loss_type, elsewhere, shares=shares)._repacked(block)
    assert factors_of(after, loss_type) == {row: pytest.approx(factors) for row, factors in before.items()}
    sizes = [len(batch["advantages"]) for batch in after]
    assert len(after) == len(block)
    assert sum(sizes) == max(len(before), elsewhere, len(block))
    assert min(sizes) >= 1
    widths = [batch["completion_mask"].shape[1] for batch in after]
    assert widths == sorted(widths, reverse=True) or shares or not (before or elsewhere)
    least = min(2, block[0]["completion_mask"].shape[1])
    assert widths == [max(least, int(batch["completion_mask"].sum(1).max())) for batch in after]


@given(
    columns=st.lists(st.integers(0, 9), min_size=1, max_size=8),
    num_parts=st.integers(1, 8),
    is_padded=st.booleans(),
)
def test_the_largest_part_is_as_small_as_it_can_be(columns, num_parts, is_padded):
    num_parts = min(num_parts, len(columns))
    if is_padded:
        columns.sort(reverse=True)

    def largest(sizes):
        ends = [0, *itertools.accumulate(sizes)]
        parts = [columns[first:stop] for first, stop in itertools.pairwise(ends)]
        return max(part[0] * len(part) if is_padded else sum(part) for part in parts)

    every = itertools.product(range(1, len(columns) + 1), repeat=num_parts)
    possible = [sizes for sizes in every if sum(sizes) == len(columns)]
    sizes = balanced_sizes(columns, num_parts, is_padded=is_padded)
    assert tuple(sizes) in possible
    assert largest(sizes) == min(map(largest, possible))


def block_of(prompt_length, lengths):
    """A micro-batch per prompt, with completions of these lengths."""
    width = max(lengths)
    return [
        {
            "prompt_ids": torch.full((len(lengths), prompt_length), prompt),
            "prompt_mask": torch.ones(len(lengths), prompt_length, dtype=torch.int64),
            "completion_ids": torch.arange(len(lengths))[:, None].repeat(1, width) + 10 * prompt,
            "completion_mask": (torch.arange(width) < torch.tensor(lengths)[:, None]).long(),
            "advantages": torch.ones(len(lengths)),
        }
        for prompt in range(4)
    ]


@pytest.mark.parametrize(
    ("prompt_length", "lengths", "is_by_prompt"),
    [(100, [30, 40, 50, 60], True), (100, [4000, 3000, 2000, 1000], False), (4000, [1000, 500, 250, 10], True)],
)
def test_completions_stay_with_their_prompt_where_that_is_cheaper(prompt_length, lengths, is_by_prompt):
    after = Stub("grpo", 0, shares=True)._repacked(block_of(prompt_length, lengths))
    num_prompts = [len(batch["prompt_ids"].unique()) for batch in after]
    assert num_prompts == [1] * 4 if is_by_prompt else max(num_prompts) == 4
