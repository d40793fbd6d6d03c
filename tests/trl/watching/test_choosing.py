"""The groups of a step that are recorded are the most telling ones, and each has its reason."""

import math

import torch

from gtpo.trl.watching.choosing import choose_groups, summarise


def rows(*groups):
    """Summaries of completions, each given as (tokens, reward); token 1 ends a completion."""
    completions = [completion for group in groups for completion in group]
    width = max(len(tokens) for tokens, _ in completions)
    ids = torch.tensor([tokens + [0] * (width - len(tokens)) for tokens, _ in completions])
    means = [sum(reward for _, reward in group) / len(group) for group in groups for _ in group]
    rewards = [reward for _, reward in completions]
    advantages = [reward - mean for reward, mean in zip(rewards, means, strict=True)]
    return summarise(ids, [len(tokens) for tokens, _ in completions], rewards, advantages, {1})


TIED = [([5, 6, 1], 0.0), ([7, 8, 1], 0.0), ([9, 10, 1], 0.0)]
NARROW = [([5, 6, 1], 0.0), ([7, 8, 1], 0.5), ([9, 10, 1], 0.0)]
WIDE = [([25, 6, 1], 0.0), ([37, 8, 1], 9.0), ([49, 10, 1], 3.0)]
TRUNCATED = [([5, 6, 7], 0.0), ([8, 9, 10, 11], 0.0), ([12, 1], 0.0)]
IDENTICAL = [([5, 6, 1], 0.0), ([5, 6, 1], 0.0), ([5, 6, 7, 1], 0.0)]
IN_CONFLICT = [([5, 6, 7, 8, 1], 0.1), ([5, 6, 7, 9, 1], 0.0), ([30, 1], 0.0)]


def test_the_reasons_take_turns():
    summaries = rows(TIED, NARROW, IDENTICAL, TRUNCATED, WIDE, IN_CONFLICT)
    expected = [(4, "spread"), (3, "truncated"), (2, "identical"), (5, "conflict"), (1, "spread"), (0, "sample")]
    assert choose_groups(summaries, 3, 6) == expected
    assert choose_groups(summaries, 3, 2) == expected[:2]
    assert choose_groups(summaries, 3, 99) == expected


def test_a_step_without_anything_telling_gives_its_first_groups():
    assert choose_groups(rows(TIED, TIED, TIED), 3, 2) == [(0, "sample"), (1, "sample")]


def test_completions_without_a_reward_have_no_spread():
    unscored = [(tokens, math.nan) for tokens, _ in WIDE]
    assert choose_groups(rows(unscored, NARROW), 3, 1) == [(1, "spread")]


def test_padding_and_position_matter_for_equality():
    summaries = rows([([5, 6], 0.0), ([5, 6, 0], 0.0), ([6, 5], 0.0), ([5, 6], 0.0), ([], 0.0), ([0], 0.0)])
    digests = [row.digest for row in summaries]
    assert digests[0] == digests[3]
    assert len(set(digests)) == 5
    assert [row.truncated for row in summaries] == [True, True, True, True, False, True]


def test_completions_with_equal_sums_are_not_identical():
    palindromes = [([5, 7, 5], 0.0), ([6, 5, 6], 0.0), ([7, 3, 7], 0.0), ([4, 9, 4], 0.0)]
    assert len({row.digest for row in rows(palindromes)}) == 4
