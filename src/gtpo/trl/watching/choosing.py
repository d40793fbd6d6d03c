"""Which groups of a step are worth recording: the most telling ones, over all processes.

Every process summarises its own rows. All processes get all summaries and choose the same groups.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gtpo.core.conflicts import conflict_mask

EDGE = 16
"""Tokens at each end of a completion that the search for conflicts looks at."""

_MIN_SHARE = 0.5
"""Share of truncated, or of repeated, completions from which a group is worth showing for it."""


@dataclasses.dataclass(frozen=True)
class RowSummary:
    """One completion. `head` and `tail` are its first and its last tokens, `tail` from the last token backwards."""

    reward: float  # weighted sum over the reward functions; NaN if none could score it
    advantage: float
    truncated: bool
    digest: int  # equal for equal completions
    head: list[int]
    tail: list[int]


def summarise(
    completion_ids: Tensor, sizes: Sequence[int], rewards: Sequence[float], advantages: Sequence[float], ends: set[int]
) -> list[RowSummary]:
    """The summaries of rows; a completion that does not end with one of the tokens `ends` was truncated."""
    length = torch.tensor(sizes, device=completion_ids.device)
    position = torch.arange(completion_ids.shape[1], device=completion_ids.device)
    inside = position < length.unsqueeze(1)
    factors = torch.full_like(position, 6364136223846793005).cumprod(0)  # int64 wraps around: a polynomial hash
    digests: list[int] = torch.where(inside, (completion_ids.long() + 1) * factors, 0).sum(1).tolist()
    back = (length.unsqueeze(1) - 1 - position[:EDGE]).clamp(min=0)
    heads: list[list[int]] = completion_ids[:, :EDGE].tolist()
    tails: list[list[int]] = completion_ids.gather(1, back).tolist()
    return [
        RowSummary(
            reward=rewards[row],
            advantage=advantages[row],
            truncated=size > 0 and tails[row][0] not in ends,
            digest=digests[row],
            head=heads[row][:size],
            tail=tails[row][:size],
        )
        for row, size in enumerate(sizes)
    ]


def choose_groups(rows: Sequence[RowSummary], group_size: int, count: int) -> list[tuple[int, str]]:
    """The indices of at most `count` groups, each with the reason in one word.

    The reasons take turns: the largest spread of rewards, most completions truncated, most completions identical, most
    conflict tokens at the edges. If none applies to the remaining groups, the first of them are samples.
    """
    groups = [rows[first : first + group_size] for first in range(0, len(rows), group_size)]
    scores = {
        "spread": [_spread([row.reward for row in group]) for group in groups],
        "truncated": [_notable(sum(row.truncated for row in group) / len(group)) for group in groups],
        "identical": [_notable(_repeated([row.digest for row in group])) for group in groups],
        "conflict": _conflicts(rows, group_size),
    }
    chosen: dict[int, str] = {}
    for reason in [reason for _ in range(count) for reason in scores]:
        left = [group for group in range(len(groups)) if group not in chosen]
        best = max(left, key=scores[reason].__getitem__, default=None)
        if best is not None and scores[reason][best] > 0 and len(chosen) < count:
            chosen[best] = reason
    left = [group for group in range(len(groups)) if group not in chosen]
    chosen |= dict.fromkeys(left[: count - len(chosen)], "sample")
    return list(chosen.items())


def _spread(rewards: Sequence[float]) -> float:
    scored = [reward for reward in rewards if not math.isnan(reward)]
    return max(scored) - min(scored) if scored else 0.0


def _repeated(digests: Sequence[int]) -> float:
    """0 if no two are equal, 1 if all are."""
    return 1 - (len(set(digests)) - 1) / max(1, len(digests) - 1)


def _notable(share: float) -> float:
    return share if share >= _MIN_SHARE else 0.0


def _conflicts(rows: Sequence[RowSummary], group_size: int) -> list[float]:
    """For each group, the conflict tokens among the first and the last tokens of its completions."""
    group_ids = torch.arange(len(rows)) // group_size
    totals = torch.zeros(-(-len(rows) // group_size))
    advantages = torch.tensor([row.advantage for row in rows])
    for edges in ([row.head for row in rows], [row.tail for row in rows]):
        ids = torch.tensor([tokens + [-1] * (EDGE - len(tokens)) for tokens in edges])
        conflicts = conflict_mask(ids, ids >= 0, advantages, group_ids, edges="prefix")
        totals.index_add_(0, group_ids, conflicts.sum(1).float())
    return totals.tolist()


def end_tokens(trainer: Any) -> set[int]:
    """The tokens that end a completion, as TRL counts truncated ones. Before 1.14, TRL has no `eos_token_ids`."""
    tokenizer = trainer._tokenizer
    return {*getattr(trainer, "eos_token_ids", ()), tokenizer.eos_token_id, tokenizer.pad_token_id}
