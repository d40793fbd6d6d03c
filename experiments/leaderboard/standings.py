"""Every arm against its baseline in one place: means over seeds, paired differences with intervals, p and verdict."""

import dataclasses
from typing import Any

import numpy as np
from scipy import stats

from experiments.lab.arms import ARMS as ALL_ARMS
from experiments.leaderboard.places import Place
from experiments.leaderboard.protocol import BASELINE, FEWEST_FOR_SIGN_FLIP, OUTCOME, baseline_of
from gtpo.statistics import LEVEL, holm, seed_interval, sign_flip_p


@dataclasses.dataclass(frozen=True)
class Standing:
    """An arm in a place, by one outcome. `difference` is that to its baseline, over the seeds that both have."""

    arm: str
    values: tuple[float, ...]
    grad_norm: float | None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    holm_p: float | None = None
    is_primary: bool = False

    @property
    def title(self) -> str:
        return ALL_ARMS[self.arm].title

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def verdict(self) -> str | None:
        """Better, worse or not shown by the rule of the protocol; None for GRPO and for too few seeds."""
        p = self.holm_p if self.is_primary else self.p
        if p is None:
            return None
        is_excluded = self.interval is not None and (self.interval[0] > 0 or self.interval[1] < 0)
        if not is_excluded or (self.is_primary and p >= 1 - LEVEL):
            return "not shown"
        return "better" if (self.difference or 0.0) > 0 else "worse"


def standings(place: Place, outcome: str = OUTCOME) -> dict[str, Standing]:
    """Every arm that has runs in this place, in the order of the protocol."""
    found = {arm: _standing(place, arm, outcome) for arm in place.arms}
    if outcome != OUTCOME:
        return found
    for arm in found.keys() & set(place.primary_arms):
        found[arm] = dataclasses.replace(found[arm], is_primary=True)
    p_values = {arm: standing.p for arm, standing in found.items() if standing.is_primary and standing.p is not None}
    if len(p_values) == len(place.primary_arms):  # a Holm correction over fewer would be too generous
        for arm, holm_p in zip(p_values, holm(list(p_values.values())), strict=True):
            found[arm] = dataclasses.replace(found[arm], holm_p=holm_p)
    return found


def _standing(place: Place, arm: str, outcome: str) -> Standing:
    runs = place.of_arm(arm)
    norms = [norm for run in runs for norm in run.grad_norms]
    values = tuple(run.outcomes[outcome] for run in runs)
    standing = Standing(arm, values, float(np.median(norms)) if norms else None)
    other = {} if arm == BASELINE else {run.seed: run.outcomes[outcome] for run in place.of_arm(baseline_of(arm))}
    pairs = [(run.outcomes[outcome], other[run.seed]) for run in runs if run.seed in other]
    if not pairs:
        return standing
    first, second = zip(*pairs, strict=True)
    differences = np.subtract(first, second)
    return dataclasses.replace(
        standing,
        difference=float(differences.mean()),
        interval=seed_interval(first, second, is_paired=True),
        p=_p(differences) if len(pairs) >= place.num_seeds else None,
    )


def _p(differences: np.ndarray) -> float:
    """The exact sign-flip p from eight pairs on, the paired t-test's with fewer."""
    if len(differences) >= FEWEST_FOR_SIGN_FLIP:
        return sign_flip_p(differences)
    test: Any = stats.ttest_1samp(differences, 0)
    return float(test.pvalue)
