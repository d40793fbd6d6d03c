"""Every arm against GRPO in one setting: means over seeds, paired differences with intervals, p and verdict."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.lab.arms import ARMS as ALL_ARMS
from experiments.leaderboard.protocol import (
    ARMS,
    BASELINE,
    FEWEST_SEEDS,
    OUTCOME,
    PRIMARY_ARMS,
    PRIMARY_SETTING,
)
from experiments.present.claims import Records, of_arm
from experiments.present.lab_tables import number
from gtpo.evaluation.tables import MISSING, markdown
from gtpo.statistics import LEVEL, holm, seed_interval, sign_flip_p

Interval = tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class Standing:
    """An arm in a setting, by one outcome. `difference` is that to GRPO, over the seeds that both have."""

    arm: str
    values: tuple[float, ...]
    grad_norm: float | None
    difference: float | None = None
    interval: Interval = None
    p: float | None = None
    holm_p: float | None = None
    is_primary: bool = False

    @property
    def title(self) -> str:
        return ALL_ARMS[self.arm].title

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


def standings(records: Records, setting: str, outcome: str = OUTCOME) -> list[Standing]:
    """Arms in the order of the protocol, those without runs left out."""
    found = [_standing(records, setting, arm, outcome) for arm in _arms(records, setting)]
    if (setting, outcome) != (PRIMARY_SETTING, OUTCOME):
        return found
    found = [dataclasses.replace(standing, is_primary=standing.arm in PRIMARY_ARMS) for standing in found]
    primary = [standing for standing in found if standing.is_primary and standing.p is not None]
    if len(primary) < len(PRIMARY_ARMS):  # a Holm correction over fewer would be too generous
        return found
    adjusted = dict(
        zip([standing.arm for standing in primary], holm([standing.p or 0.0 for standing in primary]), strict=True)
    )
    return [dataclasses.replace(standing, holm_p=adjusted.get(standing.arm)) for standing in found]


def table(by_outcome: Mapping[str, Sequence[Standing]]) -> str:
    """The standings of a setting in Markdown, in percent, the best pass@8 first and primary arms in bold."""
    header = ["method", "seeds", "gradient norm"]
    for outcome in by_outcome:
        header += [outcome, "− GRPO", "95 % interval", "p", "Holm's p", "verdict"]
    ordered = sorted(by_outcome[OUTCOME], key=lambda standing: -float(np.mean(standing.values)))
    rows = [
        [_name(first), str(len(first.values)), MISSING if first.grad_norm is None else f"{first.grad_norm:.2g}"]
        for first in ordered
    ]
    for found in by_outcome.values():
        by_arm = {standing.arm: standing for standing in found}
        rows = [[*row, *_cells(by_arm[first.arm])] for row, first in zip(rows, ordered, strict=True)]
    is_used = [any(row[column] != MISSING for row in rows) for column in range(len(header))]
    return markdown([[cell for cell, used in zip(row, is_used, strict=True) if used] for row in [header, *rows]])


def summary(found: Sequence[Standing]) -> str:
    """What a setting shows about the arms, in a line.

    >>> summary([Standing("gtpo", (0.5,), None, -0.1, (-0.2, -0.01), 0.01)])
    'Better than GRPO: none. Worse: GTPO.'
    """
    arms = [standing for standing in found if standing.arm != BASELINE]
    labels = {"Better than GRPO": "better", "Worse": "worse"}
    parts = {label: [_name(each) for each in arms if each.verdict == verdict] for label, verdict in labels.items()}
    if few := [_name(each) for each in arms if each.p is None]:
        parts["Too few seeds"] = few
    if waiting := [_name(each) for each in arms if each.p is not None and each.verdict is None]:
        parts["No verdict before all primaries have their seeds"] = waiting
    return " ".join(f"{label}: {', '.join(names) or 'none'}." for label, names in parts.items())


def _arms(records: Records, setting: str) -> list[str]:
    more = ("grpo-slow-adam", "gtpo-slow-adam")
    return [arm for arm in (*ARMS, *more) if of_arm(records, setting, arm)]


def _standing(records: Records, setting: str, arm: str, outcome: str) -> Standing:
    runs = sorted(of_arm(records, setting, arm), key=lambda record: record.job.seed)
    norms = [value for run in runs for value in run.curve.get("grad_norm", ()) if value is not None]
    values = tuple(run.after[outcome] for run in runs)
    standing = Standing(arm, values, float(np.median(norms)) if norms else None)
    other = {record.job.seed: record.after[outcome] for record in of_arm(records, setting, BASELINE)}
    pairs = [(run.after[outcome], other[run.job.seed]) for run in runs if run.job.seed in other]
    if arm == BASELINE or not pairs:
        return standing
    first, second = zip(*pairs, strict=True)
    differences = np.subtract(first, second)
    return dataclasses.replace(
        standing,
        difference=float(differences.mean()),
        interval=seed_interval(first, second, is_paired=True),
        p=sign_flip_p(differences) if len(pairs) >= FEWEST_SEEDS else None,
    )


def _name(standing: Standing) -> str:
    return f"**{standing.title}**" if standing.is_primary else standing.title


def _cells(standing: Standing) -> list[str]:
    low_high = standing.interval
    return [
        number(float(np.mean(standing.values)), "%"),
        MISSING if standing.difference is None else number(standing.difference, "%", signed=True),
        MISSING if low_high is None else " to ".join(number(end, "%", signed=True) for end in low_high),
        MISSING if standing.p is None else f"{standing.p:.3f}",
        MISSING if standing.holm_p is None else f"{standing.holm_p:.3f}",
        standing.verdict or MISSING,
    ]
