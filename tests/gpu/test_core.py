"""The pure function gives on CUDA what it gives on the CPU, and the paper's loops give."""

import random

import pytest
import torch

from gtpo import ShapingConfig, completion_entropy, conflict_mask, shape_advantages
from gtpo.core.metrics import logged_metrics, metric_totals
from tests.core.rollouts import tensors
from tests.oracle import paper

pytestmark = pytest.mark.gpu


def batch_of_groups(seed: int, num_groups: int = 10, longest: int = 40) -> list[paper.Completion]:
    """Groups that share openings and endings, ragged, shuffled, with rows that are invalid, tied or partly trained."""
    rng = random.Random(seed)
    batch: list[paper.Completion] = []
    for group in range(num_groups):
        openings, endings = ([[rng.randrange(9) for _ in range(rng.randint(1, 6))] for _ in range(2)] for _ in "ab")
        for _ in range(rng.randint(2, 9)):
            middle = [rng.randrange(50) for _ in range(rng.randint(0, longest))]
            tokens = rng.choice(openings) + middle + rng.choice(endings)
            batch.append(
                paper.Completion(
                    tokens,
                    rng.choice([1.0, -1.0, 0.5, -0.25, 0.0, 3e-6]),
                    group,
                    [rng.random() * 1.5 for _ in tokens],
                    [rng.random() < 0.9 for _ in tokens],
                    rng.random() < 0.9,
                )
            )
    rng.shuffle(batch)
    return batch


def on_cuda(values):
    if isinstance(values, dict):
        return {name: value.cuda() for name, value in values.items()}
    return tuple(value.cuda() for value in values)


@pytest.mark.parametrize("match", ["position", "prefix"])
@pytest.mark.parametrize("seed", range(8))
def test_shaping_on_cuda_equals_the_cpu_and_the_loops(seed, match):
    batch = batch_of_groups(seed)
    positional, named = tensors(batch, extra_padding=3)
    config = ShapingConfig(conflict_match=match, entropy_filter="all", entropy_penalty_center=bool(seed % 2))
    on_cpu = shape_advantages(*positional, initial_entropy=0.5, config=config, **named)
    there = shape_advantages(*on_cuda(positional), initial_entropy=0.5, config=config, **on_cuda(named))
    for name in ("prefix_mask", "suffix_mask", "kept", "trained", "valid", "token_weight"):
        assert getattr(there, name).cpu().equal(getattr(on_cpu, name)), name
    torch.testing.assert_close(there.advantages.cpu(), on_cpu.advantages, atol=1e-6, rtol=1e-6)
    ids, mask, advantages, _, group_ids = positional
    totals = metric_totals(on_cpu, ids, mask, advantages, group_ids)
    totals_there = metric_totals(there, *on_cuda((ids, mask, advantages, group_ids)))
    torch.testing.assert_close(totals_there.cpu(), totals, atol=1e-4, rtol=1e-5)
    assert logged_metrics(totals_there.unsqueeze(0))["gtpo/frac_conflict"] > 0
    for row, completion in enumerate(batch):
        expected = paper.shaped(
            batch, completion, initial_entropy=0.5, match=match, filter_mode="all", center=bool(seed % 2)
        )
        got = there.advantages[row, : len(expected)].cpu()
        torch.testing.assert_close(got, torch.tensor(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("match", ["position", "prefix"])
def test_a_search_in_many_chunks_equals_the_cpu(match):
    torch.manual_seed(0)
    ids = torch.randint(0, 3, (16 * 16, 4096), dtype=torch.int32)
    mask = (torch.arange(4096) < torch.randint(1, 4097, (256, 1))).to(torch.int8)
    advantages, group_ids = torch.randn(256), torch.arange(256)[torch.randperm(256)] // 16
    batch = (ids, mask, advantages, group_ids)
    expected = conflict_mask(*batch, match=match)
    assert expected.any()
    assert conflict_mask(*on_cuda(batch), match=match).cpu().equal(expected)


def test_entropies_in_bf16_cost_less_than_their_own_rounding():
    """bf16 keeps 8 bits: a mean of rounded entropies is within 2⁻⁸ of the mean of the exact ones."""
    torch.manual_seed(0)
    entropy, mask = torch.rand(64, 2048, device="cuda") * 3, torch.ones(64, 2048, device="cuda", dtype=torch.int64)
    exact, rounded = completion_entropy(entropy, mask), completion_entropy(entropy.bfloat16(), mask)
    assert rounded.dtype == torch.float32
    assert ((rounded - exact).abs() <= exact * 2**-8).all()
