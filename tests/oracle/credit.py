"""Every credit scheme in plain Python loops over lists, written from its formula."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.oracle import paper
from tests.oracle.paper import sign


@dataclass
class Rollout(paper.Completion):
    reward: float = 0.0
    components: list[float] = field(default_factory=list)  # one advantage per reward function
    judges: list[int] = field(default_factory=list)  # one reward function per token, -1 for the total


Batch = list[Rollout]


def group_of(batch: Batch, me: Rollout) -> Batch:
    """The valid completions of my group, me included."""
    return [other for other in batch if other.group == me.group and other.valid]


def num_trained(me: Rollout) -> int:
    return sum(me.is_trained(t) for t in range(len(me.tokens)))


def grpo(batch: Batch, me: Rollout, t: int) -> float:
    return me.advantage


def negative(batch: Batch, me: Rollout, t: int, positive_scale: float = 0.1) -> float:
    return me.advantage if me.advantage < 0 else positive_scale * me.advantage


def gtpo(batch: Batch, me: Rollout, t: int, initial_entropy: float = 0.0, **options: object) -> float:
    return paper.shaped(batch, me, initial_entropy=initial_entropy, **options)[t]


def annealed(
    batch: Batch,
    me: Rollout,
    t: int,
    initial_entropy: float,
    batch_entropy: float,
    until: float = 0.5,
    **options: object,
) -> float:
    is_broad = batch_entropy >= until * initial_entropy
    weights = {} if is_broad else {"positive": 1.0, "negative": 1.0}
    return gtpo(batch, me, t, initial_entropy, **options, **weights)


def balanced(batch: Batch, me: Rollout, t: int) -> float:
    if me.advantage >= 0 or not paper.conflicts(batch, me, "both", "position")[t]:
        return me.advantage
    from_start = t < paper.prefix_run(batch, me, "position")
    place = t if from_start else t - len(me.tokens)  # a negative place counts from the end
    up = down = 0.0
    for other in group_of(batch, me):
        reaches = len(other.tokens) > place if from_start else len(other.tokens) >= -place
        if num_trained(other) and reaches and other.tokens[place] == me.tokens[t]:
            up += other.advantage / num_trained(other) if sign(other) > 0 else 0.0
            down -= other.advantage / num_trained(other) if sign(other) < 0 else 0.0
    return me.advantage * min(1.0, up / down)


def component(batch: Batch, me: Rollout, t: int) -> float:
    return me.advantage if me.judges[t] == -1 else me.components[me.judges[t]]


def process_sets(batch: Batch, me: Rollout, t: int) -> float:
    sharing = [other for other in group_of(batch, me) if other.tokens[: t + 1] == me.tokens[: t + 1]]
    return me.advantage / len(sharing)


def prefix_baseline(batch: Batch, me: Rollout, t: int, kappa: float = 4.0) -> float:
    others = [other for other in group_of(batch, me) if other is not me]
    if not others:
        return 0.0
    baseline = sum(other.reward for other in others) / len(others)
    for end in range(1, t + 1):
        still = [other for other in others if other.tokens[:end] == me.tokens[:end]]
        if still and len(still) < len(others):
            baseline = (sum(other.reward for other in still) + kappa * baseline) / (len(still) + kappa)
        others = still
    size = len(group_of(batch, me))
    return (size - 1) / size * (me.reward - baseline)


def pass_at_k(batch: Batch, me: Rollout, t: int, right_at: float = 1.0, k: int = 4) -> float:
    rewards = [other.reward for other in group_of(batch, me)]
    size, wrong = len(rewards), sum(reward < right_at for reward in rewards)
    if size < k:
        return 0.0
    mean = 1 - math.comb(wrong, k) / math.comb(size, k)
    if me.reward >= right_at:
        return 1 - mean
    return 1 - mean - math.comb(wrong - 1, k - 1) / math.comb(size - 1, k - 1)


def credit(scheme: Callable[..., float], batch: Batch, me: Rollout, **options: object) -> list[float]:
    """Ã of one completion, token by token: 0 where nothing is trained."""
    moves = [me.valid and me.is_trained(t) for t in range(len(me.tokens))]
    return [scheme(batch, me, t, **options) if move else 0.0 for t, move in enumerate(moves)]
