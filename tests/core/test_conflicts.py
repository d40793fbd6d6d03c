"""Conflict runs against the loops of tests/oracle."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import gtpo
from tests.core.rollouts import groups, tensors
from tests.oracle import paper

EDGES = st.sampled_from(["both", "prefix", "suffix", "none"])
MATCH = st.sampled_from(["position", "prefix"])


def found(batch, edges="both", match="position", **layout):
    (ids, mask, advantages, _, group_ids), masks = tensors(batch, **layout)
    flags = gtpo.conflict_mask(ids, mask, advantages, group_ids, edges=edges, match=match, valid=masks["valid"])
    assert not flags[~mask.bool()].any()
    return [row[: len(c.tokens)].tolist() for row, c in zip(flags, batch, strict=True)]


@settings(max_examples=1500)
@given(groups(), EDGES, MATCH)
def test_equals_the_paper_in_plain_loops(batch, edges, match):
    assert found(batch, edges, match) == [paper.conflicts(batch, c, edges, match) for c in batch]


@settings(max_examples=300)
@given(groups(), MATCH, st.integers(1, 5))
def test_padding_and_integer_type_change_nothing(batch, match, extra):
    assert found(batch, match=match, extra_padding=extra, ids_dtype=torch.int32) == found(batch, match=match)


@settings(max_examples=300)
@given(groups(), MATCH, st.randoms())
def test_row_order_changes_nothing(batch, match, random):
    order = list(range(len(batch)))
    random.shuffle(order)
    assert found([batch[i] for i in order], match=match) == [found(batch, match=match)[i] for i in order]


@settings(max_examples=300)
@given(groups())
def test_a_run_shared_with_one_completion_is_also_a_run_by_position(batch):
    by_prefix, by_position = found(batch, match="prefix"), found(batch, match="position")
    assert all(
        p or not q for row, other in zip(by_position, by_prefix, strict=True) for p, q in zip(row, other, strict=True)
    )


def test_position_runs_on_across_completions_and_prefix_does_not():
    good = paper.Completion([1, 2, 3], 1.0, 0)
    first, second = paper.Completion([1, 9, 9], -1.0, 0), paper.Completion([8, 2, 8], -1.0, 0)
    assert found([good, first, second], "prefix", "position")[0] == [True, True, False]
    assert found([good, first, second], "prefix", "prefix")[0] == [True, False, False]


@settings(max_examples=600)
@given(groups(), EDGES, MATCH, st.integers(1, 3), st.integers(1, 40))
def test_blocks_and_their_bound_change_nothing(batch, edges, match, first_block, max_comparisons):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gtpo.core.conflicts._FIRST_BLOCK", first_block)
        patch.setattr("gtpo.core.conflicts._MAX_COMPARISONS", max_comparisons)
        assert found(batch, edges, match) == [paper.conflicts(batch, c, edges, match) for c in batch]


class LargestIndex(TorchDispatchMode):
    """The number of elements of the largest 64-bit tensor that is made: memory goes to these."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, torch.Tensor) and one.dtype == torch.int64:
                self.numel = max(self.numel, one.numel())
        return made


@pytest.mark.parametrize("match", ["position", "prefix"])
def test_one_long_run_does_not_fetch_the_tokens_of_all_rows_at_once(match, monkeypatch):
    monkeypatch.setattr("gtpo.core.conflicts._MAX_COMPARISONS", 2**14)
    ids = torch.arange(64 * 4096, dtype=torch.int32).view(64, 4096)
    ids[1] = ids[0]
    opposed, group_ids = torch.tensor([1.0, -1.0]).repeat(32), torch.arange(64) // 8
    mask = torch.ones_like(ids, dtype=torch.bool)
    with LargestIndex() as largest:
        found = gtpo.conflict_mask(ids, mask, opposed, group_ids, match=match)
    assert found[:2].all()
    assert not found[2:].any()
    assert largest.numel <= 2**14


def test_no_rows_and_no_tokens_are_fine():
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
def test_shapes_that_do_not_fit_are_refused():
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
gtpo.conflict_mask(*batch(2, 2, 8), match=sys.argv[1])
large = batch(32, 16, 4096)
before = peak()
gtpo.conflict_mask(*large, match=sys.argv[1])
sys.stdout.write(str(peak() - before))
"""


@pytest.mark.parametrize("match", ["position", "prefix"])
def test_32_groups_of_16_by_4096_tokens_need_at_most_200_mb(match):
    done = subprocess.run([sys.executable, "-c", PEAK, match], capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout) <= 200
