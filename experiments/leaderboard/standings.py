"""Every arm against GRPO in one setting: means over seeds, paired differences with intervals, p and Holm's p."""

import dataclasses
from collections.abc import Sequence

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
from gtpo.evaluation.tables import MISSING, markdown
from gtpo.statistics import holm, seed_interval, sign_flip_p

Interval = tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class Standing:
    """An arm in a setting. `difference` is that of the outcome to GRPO, over the seeds that both have."""

    arm: str
    pass_1: tuple[float, ...]
    pass_8: tuple[float, ...]
    grad_norm: float | None
    difference: float | None = None
    interval: Interval = None
    p: float | None = None
    holm_p: float | None = None

    @property
    def title(self) -> str:
        return ALL_ARMS[self.arm].title


def standings(records: Records, setting: str) -> list[Standing]:
    """Arms in the order of the protocol, those without runs left out."""
    found = [_standing(records, setting, arm) for arm in _arms(records, setting)]
    if setting != PRIMARY_SETTING:
        return found
    primary = [standing for standing in found if standing.arm in PRIMARY_ARMS and standing.p is not None]
    if len(primary) < len(PRIMARY_ARMS):  # a Holm correction over fewer would be too generous
        return found
    adjusted = dict(
        zip([standing.arm for standing in primary], holm([standing.p or 0.0 for standing in primary]), strict=True)
    )
    return [dataclasses.replace(standing, holm_p=adjusted.get(standing.arm)) for standing in found]


def mean_interval(values: Sequence[float]) -> Interval:
    """The interval of a mean over seeds: the wider of Student's and the bootstrap's."""
    return seed_interval(values, [0.0] * len(values), is_paired=True)


def table(found: Sequence[Standing]) -> str:
    """The standings of a setting in Markdown, in percent, the best pass@8 first."""
    header = ["arm", "seeds", "pass@1", "pass@8", "pass@8 − GRPO", "95 % interval", "p", "Holm's p", "gradient norm"]
    ordered = sorted(found, key=lambda standing: -float(np.mean(standing.pass_8)))
    return markdown([header, *map(_row, ordered)])


def _arms(records: Records, setting: str) -> list[str]:
    more = ("grpo-slow-adam", "gtpo-slow-adam")
    return [arm for arm in (*ARMS, *more) if of_arm(records, setting, arm)]


def _standing(records: Records, setting: str, arm: str) -> Standing:
    runs = sorted(of_arm(records, setting, arm), key=lambda record: record.job.seed)
    norms = [value for run in runs for value in run.curve.get("grad_norm", ()) if value is not None]
    standing = Standing(
        arm,
        tuple(run.after["pass@1"] for run in runs),
        tuple(run.after[OUTCOME] for run in runs),
        float(np.median(norms)) if norms else None,
    )
    other = {record.job.seed: record.after[OUTCOME] for record in of_arm(records, setting, BASELINE)}
    pairs = [(run.after[OUTCOME], other[run.job.seed]) for run in runs if run.job.seed in other]
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


def _row(standing: Standing) -> list[str]:
    low_high = standing.interval
    return [
        standing.title,
        str(len(standing.pass_8)),
        f"{100 * np.mean(standing.pass_1):.1f}",
        f"{100 * np.mean(standing.pass_8):.1f}",
        MISSING if standing.difference is None else f"{100 * standing.difference:+.1f}",
        MISSING if low_high is None else f"{100 * low_high[0]:+.1f} to {100 * low_high[1]:+.1f}",
        MISSING if standing.p is None else f"{standing.p:.3f}",
        MISSING if standing.holm_p is None else f"{standing.holm_p:.3f}",
        MISSING if standing.grad_norm is None else f"{standing.grad_norm:.2g}",
    ]
