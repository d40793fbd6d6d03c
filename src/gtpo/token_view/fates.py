"""What the update does to a token, in one word and in plain words."""

import dataclasses

from gtpo.records import CompletionRecord


@dataclasses.dataclass(frozen=True)
class Fate:
    """One kind of treatment: how it is called, marked where there is no colour, and explained."""

    name: str
    mark: str
    label: str
    meaning: str


FATES = {
    fate.name: fate
    for fate in (
        Fate(
            "amplified", "▲▲", "push amplified", "a bad completion has it in the same place: pushed up harder, λ > 1"
        ),
        Fate("skipped", "◇", "penalty skipped", "a good completion has it in the same place: spared, λ < 1"),
        Fate("up", "▲", "pushed up", "made likelier"),
        Fate("down", "▼", "pushed down", "made less likely"),
        Fate("worsened", "▼▼", "pushed down harder", "λ > 1, but the entropy penalty outweighs the advantage"),
        Fate("still", "=", "no push", "the advantage is zero"),
        Fate("untrained", "○", "not trained", "tool output and the like: keeps its place, gets no push"),
        Fate("filtered", "▨", "completion filtered", "mean entropy ⟨H⟩ above the threshold: nothing in it moves"),
        Fate("invalid", "✕", "completion left out", "it has no score, or was cut off and masked: nothing in it moves"),
    )
}
RARE = ("worsened", "still", "untrained", "invalid")
"""Explained only where they occur."""


def token_fates(completion: CompletionRecord) -> list[str]:
    """The name of each token's fate.

    >>> token_fates(CompletionRecord([5, 6], ["a", "b"], {}, -1.0, -1.0, None, True, True, 1, 0,
    ...                              [0.0, 1.0], [0.0, -1.0], None, [True, True]))
    ['skipped', 'down']
    """
    size = len(completion.token_ids)
    if not completion.valid:
        return ["invalid"] * size
    if not completion.kept:
        return ["filtered"] * size
    return [_fate(completion, place) for place in range(size)]


def in_run(completion: CompletionRecord, place: int) -> bool:
    """Whether the token is in one of the completion's two conflict runs."""
    return place < completion.prefix or place >= len(completion.token_ids) - completion.suffix


def _fate(completion: CompletionRecord, place: int) -> str:
    weight, pushed = completion.token_weight[place] or 0.0, completion.token_advantage[place] or 0.0
    if not completion.trained[place]:
        return "untrained"
    if weight < 1 and in_run(completion, place) and (completion.advantage or 0.0) < 0:
        return "skipped"
    if weight > 1 and pushed:
        return "amplified" if pushed > 0 else "worsened"
    return "up" if pushed > 0 else "down" if pushed < 0 else "still"
