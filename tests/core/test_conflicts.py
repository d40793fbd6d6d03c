"""Conflict runs against the loops of tests/oracle."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import gtpo
from tests.core.rollouts import BATCHES, tensors
from tests.oracle import paper

EDGES = st.sampled_from(["both", "prefix", "suffix", "none"])
MATCH = st.sampled_from(["position", "prefix"])


def conflicts(batch, edges="both", match="position", **layout):
    (ids, mask, advantages, _, group_ids), masks = tensors(batch, **layout)
    flags = gtpo.conflict_mask(ids, mask, advantages, group_ids, edges=edges, match=match, valid=masks["valid"])
    assert not flags[~mask.bool()].any()
    return [row[: len(c.tokens)].tolist() for row, c in zip(flags, batch, strict=True)]


@settings(max_examples=500)
@given(BATCHES, EDGES, MATCH)
def test_equals_the_paper_in_plain_loops(batch, edges, match):
    assert conflicts(batch, edges, match) == [paper.conflicts(batch, c, edges, match) for c in batch]


@settings(max_examples=100)
@given(BATCHES, MATCH, st.integers(1, 5))
def test_padding_and_integer_type_change_nothing(batch, match, extra):
    assert conflicts(batch, match=match, extra_padding=extra, ids_dtype=torch.int32) == conflicts(batch, match=match)


@settings(max_examples=100)
@given(BATCHES, MATCH, st.randoms())
def test_row_order_changes_nothing(batch, match, random):
    order = list(range(len(batch)))
    random.shuffle(order)
    assert conflicts([batch[i] for i in order], match=match) == [conflicts(batch, match=match)[i] for i in order]


@settings(max_examples=100)
@given(BATCHES)
def test_a_run_shared_with_one_completion_is_also_a_run_by_position(batch):
    by_prefix, by_position = conflicts(batch, match="prefix"), conflicts(batch, match="position")
    assert all(
        p or not q for row, other in zip(by_position, by_prefix, strict=True) for p, q in zip(row, other, strict=True)
    )


def test_a_position_run_may_continue_on_another_completion_and_a_prefix_run_may_not():
    good = paper.Completion([1, 2, 3], 1.0, 0)
    first, second = paper.Completion([1, 9, 9], -1.0, 0), paper.Completion([8, 2, 8], -1.0, 0)
    assert conflicts([good, first, second], "prefix", "position")[0] == [True, True, False]
    assert conflicts([good, first, second], "prefix", "prefix")[0] == [True, False, False]


@settings(max_examples=300)
@given(BATCHES, EDGES, MATCH, st.integers(1, 3), st.integers(1, 40))
def test_the_width_of_blocks_changes_nothing(batch, edges, match, first_block, max_comparisons):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gtpo.core.conflicts._FIRST_BLOCK", first_block)
        patch.setattr("gtpo.core.conflicts._MAX_COMPARISONS", max_comparisons)
        assert conflicts(batch, edges, match) == [paper.conflicts(batch, c, edges, match) for c in batch]


class LargestIndex(TorchDispatchMode):
    """The size of the largest 64-bit tensor that is created: these take most of the memory."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.int64:
                self.numel = max(self.numel, tensor.numel())
        return result


@pytest.mark.parametrize("match", ["position", "prefix"])
def test_a_long_run_does_not_fetch_the_tokens_of_all_rows_at_once(match, monkeypatch):
    monkeypatch.setattr("gtpo.core.conflicts._MAX_COMPARISONS", 2**14)
    ids = torch.arange(64 * 4096, dtype=torch.int32).view(64, 4096)
    ids[1] = ids[0]
    opposed, group_ids = torch.tensor([1.0, -1.0]).repeat(32), torch.arange(64) // 8
    mask = torch.ones_like(ids, dtype=torch.bool)
    with LargestIndex() as largest:
        in_conflict = gtpo.conflict_mask(ids, mask, opposed, group_ids, match=match)
    assert in_conflict[:2].all()
    assert not in_conflict[2:].any()
    assert largest.numel <= 2**14


def test_batches_without_rows_or_tokens_are_accepted():
    for shape in ((0, 4), (3, 0)):
        ids = torch.zeros(shape, dtype=torch.int64)
        assert gtpo.conflict_mask(ids, ids, torch.ones(shape[0]), ids.new_zeros(shape[0])).shape == shape


def test_any_integer_is_a_token():
    """Negative ids, and ids that agree in their lower 32 bits."""
    ids = torch.tensor([[5, 6, 0], [5, -1, -1]])
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]])
    opposed, group = torch.tensor([1.0, -1.0]), torch.zeros(2, dtype=torch.int64)
    assert gtpo.conflict_mask(ids, mask, opposed, group).tolist() == [[True, False, False], [True, False, False]]
    far = torch.tensor([[5], [2**32 + 5]])
    assert not gtpo.conflict_mask(far, torch.ones_like(far), opposed, group).any()


@pytest.mark.usefixtures("unchecked_types")
def test_mismatched_shapes_are_refused():
    ids = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(gtpo.DataError, match=r"must all be \(B, T\)"):
        gtpo.conflict_mask(ids, torch.ones_like(ids), torch.ones(3), torch.zeros(2, dtype=torch.int64))


def test_a_mask_with_holes_is_refused():
    ids = torch.zeros(1, 3, dtype=torch.int64)
    with pytest.raises(gtpo.DataError, match="padded on the right"):
        gtpo.conflict_mask(ids, torch.tensor([[1, 0, 1]]), torch.ones(1), torch.zeros(1, dtype=torch.int64))


@pytest.mark.usefixtures("unchecked_types")
@pytest.mark.parametrize(("knob", "value"), [("edges", "middle"), ("match", "fuzzy")])
def test_an_unknown_choice_is_refused_by_name(knob, value):
    ids = torch.zeros(1, 1, dtype=torch.int64)
    with pytest.raises(gtpo.ConfigError, match=f"^{knob} must be one of .*{value}"):
        gtpo.conflict_mask(ids, ids, torch.ones(1), torch.zeros(1, dtype=torch.int64), **{knob: value})


PEAK = """
import resource, sys, torch, gtpo
torch.set_num_threads(1)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def batch(groups, size, tokens):
    ids = torch.randint(0, 50_000, (groups * size, tokens))
    ids[:, :tokens // 2] = 7
    group_ids = torch.arange(groups).repeat_interleave(size)
    return ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([1.0, -1.0]).repeat(groups * size // 2), group_ids
large = batch(32, 16, 4096)
for match in ("position", "prefix"):
    gtpo.conflict_mask(*batch(2, 2, 8), match=match)
before = peak()
for match in ("position", "prefix"):
    gtpo.conflict_mask(*large, match=match)
sys.stdout.write(str(peak() - before))
"""


def test_32_groups_of_16_by_4096_tokens_need_at_most_200_mb():
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout) <= 200
