"""The fate of a token: what the update does to it."""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from gtpo.records import CompletionRecord


@dataclasses.dataclass(frozen=True)
class Fate:
    """A kind of fate: its name, its mark where there is no color, its label and its explanation."""

    name: str
    mark: str
    label: str
    meaning: str
    rare: bool = False  # in the legend only where it occurs


FATES = {
    fate.name: fate
    for fate in (
        Fate("amplified", "▲▲", "push amplified", "shared with a bad completion: pushed up harder, λ > 1"),
        Fate("skipped", "◇", "penalty skipped", "shared with a good completion: not pushed down, λ < 1"),
        Fate("up", "▲", "pushed up", "made more likely"),
        Fate("down", "▼", "pushed down", "made less likely"),
        Fate("worsened", "▼▼", "pushed down harder", "λ > 1, but the entropy penalty exceeds the advantage", True),
        Fate("still", "□", "no push", "the advantage is zero", True),
        Fate("untrained", "○", "not trained", "not written by the policy, such as tool output", True),
        Fate("filtered", "▨", "completion filtered", "mean entropy ⟨H⟩ above the threshold: no token is pushed"),
        Fate("invalid", "✕", "completion excluded", "no reward, or truncated and masked: no token is pushed", True),
    )
}


class Stretch(NamedTuple):
    """Consecutive tokens of a completion that have the same fate, weight and advantage."""

    size: int
    fate: str
    weight: float | None  # λ
    advantage: float | None  # as the trainer used it
    in_run: bool  # in one of the completion's two conflict runs


def stretches(completion: CompletionRecord) -> Iterator[Stretch]:
    """The completion from its first token to its last.

    >>> completion = CompletionRecord([5, 6, 6], ["a", "b", "b"], {}, -1.0, -1.0, None, True, True, 1, 0,
    ...                               [0.0, 1.0, 1.0], [0.0, -1.0, -1.0], None, [True, True, True])
    >>> [(stretch.size, stretch.fate) for stretch in stretches(completion)]
    [(1, 'skipped'), (2, 'down')]
    """
    size = completion.num_tokens
    inner_end = max(completion.prefix, size - completion.suffix)
    parts = ((0, completion.prefix, True), (completion.prefix, inner_end, False), (inner_end, size, True))
    for start, end, in_run in parts:
        lists = (completion.token_weight, completion.token_advantage, completion.trained)
        values = [tokens[start:end] for tokens in lists]
        for (weight, advantage, is_trained), num_tokens in _runs(values, end - start):
            fate = _fate(completion, weight, advantage, in_run) if is_trained else "untrained"
            if not completion.valid or not completion.kept:
                fate = "filtered" if completion.valid else "invalid"
            yield Stretch(num_tokens, fate, weight, advantage, in_run)


def token_fates(completion: CompletionRecord) -> list[str]:
    """The name of each token's fate."""
    return [stretch.fate for stretch in stretches(completion) for _ in range(stretch.size)]


def plain_fates(completion: CompletionRecord) -> list[str]:
    """The name of each token's fate in plain GRPO: without conflict weights.

    >>> plain_fates(CompletionRecord([5, 6], ["a", "b"], {}, -1.0, -1.0, None, True, True, 1, 0,
    ...                              [0.0, 1.0], [-1.0, -1.0], None, [True, True]))
    ['down', 'down']
    """
    return token_fates(dataclasses.replace(completion, token_weight=[1.0] * completion.num_tokens))


def _runs(lists: Sequence[Sequence[float | None]], size: int) -> Iterator[tuple[tuple[float | None, ...], int]]:
    """The runs of equal entries, and how long each is."""
    if size and all(values.count(values[0]) == size for values in lists):  # most completions: twice as fast
        yield tuple(values[0] for values in lists), size
        return
    for entry, run in groupby(zip(*lists, strict=True)):
        yield entry, sum(1 for _ in run)


def _fate(completion: CompletionRecord, weight: float | None, push: float | None, in_run: bool) -> str:
    weight, push = weight or 0.0, push or 0.0
    if weight < 1 and in_run and (completion.advantage or 0.0) < 0:
        return "skipped"
    if push > 0:
        return "amplified" if weight > 1 else "up"
    if push < 0:
        return "worsened" if weight > 1 else "down"
    return "still"
