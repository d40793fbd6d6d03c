"""The paper in plain Python loops over lists: slow, obvious, and independent of the code under test."""

import math
from dataclasses import dataclass, field


@dataclass
class Completion:
    tokens: list[int]
    advantage: float
    group: int
    entropies: list[float] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)  # empty means all
    valid: bool = True

    def is_trained(self, t: int) -> bool:
        return not self.trained or self.trained[t]


def sign(completion: Completion) -> int:
    if not completion.valid or abs(completion.advantage) <= 1e-5:
        return 0
    return 1 if completion.advantage > 0 else -1


def opponents(batch: list[Completion], me: Completion) -> list[Completion]:
    return [other for other in batch if other.group == me.group and sign(other) * sign(me) < 0]


def prefix_run(batch: list[Completion], me: Completion, match: str) -> int:
    """How many tokens from the start are conflicts."""
    others = opponents(batch, me)
    if match == "position":
        for t, token in enumerate(me.tokens):
            if not any(t < len(other.tokens) and other.tokens[t] == token for other in others):
                return t
        return len(me.tokens)
    best = 0
    for other in others:
        shared = 0
        while shared < min(len(me.tokens), len(other.tokens)) and me.tokens[shared] == other.tokens[shared]:
            shared += 1
        best = max(best, shared)
    return best


def suffix_run(batch: list[Completion], me: Completion, match: str) -> int:
    """How many tokens from the end are conflicts: the prefix run of all completions reversed."""

    def reverse(completion: Completion) -> Completion:
        return Completion(completion.tokens[::-1], completion.advantage, completion.group, valid=completion.valid)

    return prefix_run([reverse(completion) for completion in batch], reverse(me), match)


def conflicts(batch: list[Completion], me: Completion, edges: str, match: str) -> list[bool]:
    length = len(me.tokens)
    flags = [False] * length
    if edges in ("both", "prefix"):
        for t in range(prefix_run(batch, me, match)):
            flags[t] = True
    if edges in ("both", "suffix"):
        for back in range(suffix_run(batch, me, match)):
            flags[length - 1 - back] = True
    return flags


def mean_entropy(me: Completion) -> float:
    trained = [entropy for t, entropy in enumerate(me.entropies) if me.is_trained(t)]
    return sum(trained) / len(trained) if trained else 0.0


def is_kept(me: Completion, mode: str, threshold: float, initial_entropy: float) -> bool:
    if mode == "off" or (mode == "auto" and initial_entropy > threshold):
        return True
    if mode == "negative" and sign(me) >= 0:
        return True
    return mean_entropy(me) <= threshold


def penalty(batch: list[Completion], me: Completion, gamma: float, center: bool, relative: bool = False) -> float:
    group = [other for other in batch if other.group == me.group and other.valid]
    if relative:
        squares = [other.advantage**2 for other in group if sign(other) != 0]
        gamma *= math.sqrt(sum(squares) / max(1, len(group)))
    if not center:
        return gamma * mean_entropy(me)
    if all(sign(other) == 0 for other in group):
        return 0.0
    return gamma * (mean_entropy(me) - sum(mean_entropy(other) for other in group) / max(1, len(group)))


def shaped(
    batch: list[Completion],
    me: Completion,
    *,
    initial_entropy: float,
    edges: str = "both",
    match: str = "position",
    positive: float = 2.0,
    negative: float = 0.0,
    filter_mode: str = "auto",
    threshold: float = math.log(2),
    gamma: float = 0.1,
    center: bool = False,
    relative: bool = False,
) -> list[float]:
    """Ã of one completion, token by token."""
    out: list[float] = []
    for t, in_conflict in enumerate(conflicts(batch, me, edges, match)):
        weight = (positive if me.advantage > 0 else negative) if in_conflict else 1.0
        moves = me.valid and me.is_trained(t) and is_kept(me, filter_mode, threshold, initial_entropy)
        out.append((me.advantage - penalty(batch, me, gamma, center, relative)) * weight if moves else 0.0)
    return out
