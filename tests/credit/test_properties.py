"""What the formula of each scheme promises, on groups made for it."""

import dataclasses
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpo.credit import SCHEMES, CreditInput, token_advantages
from tests.credit.rollouts import BATCHES, credit_input, credit_of, random_batch
from tests.oracle.credit import Rollout

SEEDS = st.integers(0, 2**32 - 1)


def centred(batch):
    """The same completions with A_i = R_i − mean over the valid rows of the group."""

    def mean(group):
        rewards = [rollout.reward for rollout in batch if rollout.group == group and rollout.valid]
        return sum(rewards) / max(1, len(rewards))

    return [dataclasses.replace(rollout, advantage=rollout.reward - mean(rollout.group)) for rollout in batch]


def group_of(tokens, advantages, **fields):
    return [Rollout(list(t), a, 0, [0.1] * len(t), **fields) for t, a in zip(tokens, advantages, strict=True)]


def net_push(credit, batch, position):
    """Σ Ã_it / |o_i| at one position, as GRPO's loss weighs tokens."""
    return sum(row[position] / len(rollout.tokens) for row, rollout in zip(credit, batch, strict=True))


@settings(max_examples=50)
@given(SEEDS)
def test_balanced_never_pushes_a_shared_prefix_down_nor_up_more_than_grpo(seed):
    rng = random.Random(seed)
    length = rng.randint(1, 4)
    tokens = [[1] * length + [rng.randrange(10, 90) for _ in range(rng.randint(1, 9))] for _ in range(6)]
    batch = group_of(tokens, [rng.choice([1.0, -1.0, 0.3, -2.0, 0.0]) for _ in tokens])
    ours, theirs = credit_of("balanced", batch), credit_of("grpo", batch)
    has_good = any(rollout.advantage > 0 for rollout in batch)
    for position in range(length):
        pushed, by_grpo = net_push(ours, batch, position), net_push(theirs, batch, position)
        assert pushed == pytest.approx(max(0.0, by_grpo) if has_good else by_grpo, abs=1e-6)


NET_PUSH = {
    "grpo": (lambda up, down, size: up - down, {}),
    "gtpo": (lambda up, down, size: 2 * up, {"entropy_penalty": 0.0, "entropy_filter": "off"}),
    "balanced": (lambda up, down, size: max(up - down, 0.0), {}),
    "process_sets": (lambda up, down, size: (up - down) / size, {}),
    "negative": (lambda up, down, size: 0.1 * up - down, {}),
}


@pytest.mark.parametrize("scheme", NET_PUSH)
@pytest.mark.parametrize("advantages", [(1.0, -0.5, -0.25), (0.5, 0.0, -1.0)])
def test_the_net_push_on_a_prefix_that_the_group_shares_is_as_documented(scheme, advantages):
    expected, parameters = NET_PUSH[scheme]
    batch = group_of([[1, 2], [1, 3, 4], [1, 5, 6, 7]], advantages)
    pushes = [rollout.advantage / len(rollout.tokens) for rollout in batch]
    up, down = sum(push for push in pushes if push > 0), -sum(push for push in pushes if push < 0)
    assert net_push(credit_of(scheme, batch, **parameters), batch, 0) == pytest.approx(expected(up, down, 3))


def test_balanced_counts_completions_that_only_share_the_position():
    """The second token of the third row is in the sums of the first two, though its first token differs."""
    batch = group_of([[1, 2, 5], [1, 2, 6], [9, 2, 7]], [0.25, -1.0, -1.0])
    assert credit_of("balanced", batch)[1] == pytest.approx([-0.25, -0.125, -1.0])


def test_balanced_looks_from_the_end_only_where_the_prefix_run_is_over():
    batch = group_of([[1, 7, 3], [1, 8, 8, 3], [9, 9, 3]], [1.0, -1.0, -1.0])
    first, second, third = credit_of("balanced", batch)
    assert first == [1.0, 1.0, 1.0]
    assert second == pytest.approx([-1.0, -1.0, -1.0, -1 / 3 / (1 / 4 + 1 / 3)])  # P/M is above 1 at the start
    assert third == pytest.approx([-1.0, -1.0, -1 / 3 / (1 / 4 + 1 / 3)])


def test_balanced_leaves_out_completions_without_trained_tokens():
    good = Rollout([1, 2], 1.0, 0, trained=[False, False])
    assert credit_of("balanced", [good, *group_of([[1, 3]], [-1.0])]) == [[0.0, 0.0], [0.0, -1.0]]


@settings(max_examples=50)
@given(BATCHES)
def test_prefix_baseline_tends_to_grpo_for_a_large_kappa(batch):
    batch = centred(batch)
    expected = credit_of("grpo", batch)
    assert credit_of("prefix_baseline", batch, kappa=1e30) == [pytest.approx(row, abs=1e-5) for row in expected]
    assert credit_of("prefix_baseline", batch, kappa=1e300) == [pytest.approx(row, abs=1e-5) for row in expected]


def test_prefix_baseline_is_the_value_of_the_prefix_where_kappa_is_zero():
    rewards = [1.0, 0.0, 0.0, 0.0]
    tokens = [[1, 2, 3], [1, 2, 4], [1, 5, 6], [7, 8, 9]]
    batch = [
        dataclasses.replace(r, reward=reward) for r, reward in zip(group_of(tokens, rewards), rewards, strict=True)
    ]
    credit = credit_of("prefix_baseline", batch, kappa=0.0)
    assert credit[0] == pytest.approx([0.75, 0.75, 0.75])
    assert credit[2] == pytest.approx([0.75 * (0 - 1 / 3), 0.75 * (0 - 1 / 2), 0.75 * (0 - 1 / 2)])


@settings(max_examples=50)
@given(BATCHES)
def test_process_sets_give_a_shared_prefix_the_mean_advantage_of_those_that_share_it(batch):
    """Σ A_i / |S_it| over S_it: a shared prefix moves as one completion would, with the mean of their advantages."""
    batch = [dataclasses.replace(rollout, trained=[], valid=True) for rollout in batch]
    credit = credit_of("process_sets", batch)
    for rollout in batch:
        for t in range(len(rollout.tokens)):
            prefix = (rollout.group, rollout.tokens[: t + 1])
            sharing = [row for row, other in enumerate(batch) if (other.group, other.tokens[: t + 1]) == prefix]
            mean = sum(batch[row].advantage for row in sharing) / len(sharing)
            assert sum(credit[row][t] for row in sharing) == pytest.approx(mean, abs=1e-6)


@settings(max_examples=50)
@given(SEEDS, st.integers(1, 8))
def test_pass_at_k_adds_up_to_zero_over_a_group(seed, k):
    rng = random.Random(seed)
    num_rows = rng.randint(1, 8)
    rewards = torch.tensor([float(rng.random() < 0.4) for _ in range(num_rows)])
    ids = torch.arange(num_rows).unsqueeze(1)
    inputs = CreditInput(ids, torch.ones_like(ids), rewards, torch.zeros_like(ids[:, 0]), rewards=rewards)
    credit = token_advantages("pass_at_k", inputs, k=k, right_at=1.0)
    num_wrong = int((rewards < 1).sum())
    assert credit.sum().item() == pytest.approx(0.0, abs=1e-6)
    assert bool(credit.any()) == (k <= num_wrong < num_rows)
    assert (credit[rewards >= 1] >= 0).all()
    assert (credit[rewards < 1] <= 0).all()


@settings(max_examples=50)
@given(BATCHES)
def test_pass_at_1_is_grpo_for_rewards_of_zero_and_one(batch):
    batch = centred([dataclasses.replace(rollout, reward=float(rollout.reward > 0.4)) for rollout in batch])
    expected = credit_of("grpo", batch)
    assert credit_of("pass_at_k", batch, k=1, right_at=1.0) == [pytest.approx(row, abs=1e-6) for row in expected]


@settings(max_examples=50)
@given(BATCHES)
def test_special_parameters_give_grpo_exactly(batch):
    grpo = credit_of("grpo", batch)
    unjudged = [dataclasses.replace(rollout, judges=[-1] * len(rollout.tokens)) for rollout in batch]
    neutral = {"conflict_edges": "none", "entropy_filter": "off", "entropy_penalty": 0.0}
    assert credit_of("negative", batch, positive_scale=1.0) == grpo
    assert credit_of("component", unjudged) == grpo
    assert credit_of("gtpo", batch, **neutral) == grpo


def test_annealed_reads_the_entropy_of_the_batch_only():
    inputs = credit_input(random_batch(3))
    for batch_entropy, same_as in ((0.25, {}), (0.2499, {"conflict_edges": "none"})):
        inputs = dataclasses.replace(inputs, initial_entropy=0.5, batch_entropy=batch_entropy)
        assert token_advantages("annealed", inputs).equal(token_advantages("gtpo", inputs, **same_as))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ids_of_any_integer_and_of_groups_are_told_apart(scheme):
    """Negative ids, ids that agree in their lower 32 bits, groups with huge ids."""
    parameters = {"right_at": 1.0, "k": 2} if scheme == "pass_at_k" else {}
    batch = [rollout for seed in range(5) for rollout in random_batch(seed)]
    inputs = credit_input(batch)
    strange = inputs.completion_ids * 2**32 - 2**40
    renamed = dataclasses.replace(inputs, completion_ids=strange, group_ids=-inputs.group_ids * 2**50)
    assert token_advantages(scheme, renamed, **parameters).allclose(token_advantages(scheme, inputs, **parameters))
