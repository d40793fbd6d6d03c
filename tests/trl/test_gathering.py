"""Bytes gathered for shaping: none if groups are complete, otherwise the number that docs/scaling.md states."""

import pytest
import torch

from gtpo.trl.gathering import complete_groups

PROCESSES, ROWS, TOKENS = 4, 6, 11


class CountingAccelerator:
    """Process 1 of four with equal rows; counts the bytes that a process receives."""

    process_index = 1
    num_bytes = 0

    def pad_across_processes(self, tensor, dim):
        return tensor

    def gather(self, tensor):
        gathered = torch.cat([tensor] * PROCESSES)
        self.num_bytes += gathered.nbytes
        return gathered


def gathered_bytes(group_size, has_tools=False, has_entropy=True):
    batch = {
        "completion_ids": torch.zeros(ROWS, TOKENS, dtype=torch.int64),
        "completion_mask": torch.ones(ROWS, TOKENS, dtype=torch.int64),
        "advantages": torch.zeros(ROWS),
    }
    if has_tools:
        batch["tool_mask"] = torch.ones(ROWS, TOKENS, dtype=torch.int64)
    accelerator = CountingAccelerator()
    is_scored = torch.ones(ROWS * PROCESSES, dtype=torch.bool)
    scores = {"token_entropy": torch.zeros(ROWS, TOKENS)} if has_entropy else {}
    rows = complete_groups(accelerator, batch, group_size, is_scored=is_scored, **scores)
    assert len(rows.group_ids) % group_size == 0
    return accelerator.num_bytes


@pytest.mark.parametrize("group_size", [2, 3, 6])
def test_complete_groups_are_not_gathered(group_size):
    assert gathered_bytes(group_size) == 0
    assert gathered_bytes(group_size, has_tools=True) == 0


@pytest.mark.parametrize("group_size", [4, 8, 12, 24])
def test_split_groups_of_any_size_cost_nine_bytes_per_token_and_four_per_completion(group_size):
    rows = ROWS * PROCESSES
    assert gathered_bytes(group_size) == rows * (9 * TOKENS + 4)
    assert gathered_bytes(group_size, has_tools=True) == rows * (10 * TOKENS + 4)
    assert gathered_bytes(group_size, has_entropy=False) == rows * (5 * TOKENS + 4)
