"""The fate of a token: what the update does to it."""

import dataclasses

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
        Fate("still", "=", "no push", "the advantage is zero", True),
        Fate("untrained", "○", "not trained", "not written by the policy, such as tool output", True),
        Fate("filtered", "▨", "completion filtered", "mean entropy ⟨H⟩ above the threshold: no token is pushed"),
        Fate("invalid", "✕", "completion excluded", "no reward, or truncated and masked: no token is pushed", True),
    )
}


def token_fates(completion: CompletionRecord) -> list[str]:
    """The name of each token's fate.

    >>> token_fates(CompletionRecord([5, 6], ["a", "b"], {}, -1.0, -1.0, None, True, True, 1, 0,
    ...                              [0.0, 1.0], [0.0, -1.0], None, [True, True]))
    ['skipped', 'down']
    """
    size = completion.num_tokens
    if not completion.valid:
        return ["invalid"] * size
    if not completion.kept:
        return ["filtered"] * size
    return [_fate(completion, position) for position in range(size)]


def plain_fates(completion: CompletionRecord) -> list[str]:
    """The name of each token's fate in plain GRPO: without conflict weights.

    >>> plain_fates(CompletionRecord([5, 6], ["a", "b"], {}, -1.0, -1.0, None, True, True, 1, 0,
    ...                              [0.0, 1.0], [-1.0, -1.0], None, [True, True]))
    ['down', 'down']
    """
    return token_fates(dataclasses.replace(completion, token_weight=[1.0] * completion.num_tokens))


def in_conflict_run(completion: CompletionRecord, position: int) -> bool:
    """Whether the token is in one of the completion's two conflict runs."""
    return position < completion.prefix or position >= completion.num_tokens - completion.suffix


def _fate(completion: CompletionRecord, position: int) -> str:
    weight = completion.token_weight[position] or 0.0
    push = completion.token_advantage[position] or 0.0
    if not completion.trained[position]:
        return "untrained"
    if weight < 1 and in_conflict_run(completion, position) and (completion.advantage or 0.0) < 0:
        return "skipped"
    if push > 0:
        return "amplified" if weight > 1 else "up"
    if push < 0:
        return "worsened" if weight > 1 else "down"
    return "still"
