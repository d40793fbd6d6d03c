"""The questions behind the paper's claims. Except for LATER, they were fixed before the runs.

Every answer is a `Comparison` of `gtpo compare`: the mean difference over seeds, its 95 % interval, and better, worse
or not shown. For a claim, better means that it holds and worse that it does not. Counts of runs are compared by
Fisher's exact test. From eight pairs on the tables also have the exact p of the sign-flip test, because an interval
over seeds is too narrow where one run in ten collapses.

A run has collapsed if its held-out accuracy is below half of the untrained policy's, sampled in the same way. The
tables also show the verdict of `gtpo health` on the last step of training. With one prompt per step a logged row has
only eight completions, so the verdict is less certain.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from experiments.lab.arms import GROUPS
from experiments.lab.collect import Record
from experiments.lab.jobs import Job
from gtpo.compare import Comparison, compare_runs, compare_values
from gtpo.runs.measures import area, trailing_mean
from gtpo.statistics import LEVEL, fisher_p, sign_flip_p

COLLAPSED = "collapsed runs"
HEALTH = "runs that gtpo health calls collapsing"
COUNTS = (COLLAPSED, HEALTH)
FEWEST_FOR_P, MOST_FOR_P = 8, 20
"""Pairs for an exact p: fewer can hardly reach 0.05, and more are too many changes of signs."""
VERDICTS = {"better": "holds", "worse": "does not hold", "not shown": "not shown"}


@dataclasses.dataclass(frozen=True)
class Question:
    """Whether `first` is better than `second` in `quantity`; `claim` is the number of the claim in the paper."""

    claim: int
    first: str
    second: str
    quantity: str


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A number of a run, whether more of it is better, and its unit: percent or nats."""

    title: str
    of: Callable[[Record], float | None]
    more_is_good: bool = True
    unit: str = "%"


def _after(name: str) -> Callable[[Record], float | None]:
    return lambda record: record.after.get(name)


def peak_entropy(record: Record) -> float | None:
    """The highest mean over five logged steps (a twentieth of them, if that is more): a single step does not count."""
    curve = trailing_mean(record.to_run().series("entropy").values)[4:]
    return max(curve) if curve else None


QUANTITIES: Mapping[str, Quantity] = {
    "accuracy": Quantity("accuracy, held out", _after("accuracy")),
    "greedy": Quantity("accuracy, greedy", _after("greedy")),
    "format": Quantity("format, held out", _after("format")),
    "greedy-format": Quantity("format, greedy", _after("greedy_format")),
    "format-training": Quantity("format, mean over training", lambda record: area(record.to_run().series("format"))),
    "entropy": Quantity("entropy after training", _after("entropy"), more_is_good=False, unit="nats"),
    "entropy-peak": Quantity("highest entropy in training", peak_entropy, more_is_good=False, unit="nats"),
    **{f"pass@{k}": Quantity(f"pass@{k}", _after(f"pass@{k}")) for k in (1, 8, 32)},
    "maj@32": Quantity("maj@32", _after("maj@32")),
}
ABLATIONS = (*GROUPS["entropy"], *GROUPS["conflicts"])

LATER: tuple[Question, ...] = (
    Question(2, "gtpo", "grpo", "greedy-format"),
    *(
        Question(4, arm, "grpo", quantity)
        for arm in ("protect", "skip")
        for quantity in ("accuracy", "format", "entropy")
    ),
    Question(5, "gtpo", "sft", "pass@1"),
)
"""Questions that were added after other answers had been seen, like everything about the arm `skip`."""
QUESTIONS: tuple[Question, ...] = (
    Question(1, "gtpo", "grpo", "accuracy"),
    Question(1, "gtpo", "grpo-kl", "accuracy"),
    Question(1, "gtpo", "grpo", "greedy"),
    Question(2, "gtpo", "grpo", "format"),
    Question(2, "gtpo", "grpo", "format-training"),
    Question(2, "gtpo", "grpo-kl", "format"),
    Question(3, "gtpo", "grpo", COLLAPSED),
    Question(3, "gtpo", "grpo", HEALTH),
    Question(3, "gtpo", "grpo", "entropy-peak"),
    Question(3, "gtpo", "filter-off", "entropy-peak"),
    Question(3, "gtpo", "filter-off", COLLAPSED),
    Question(3, "grpo-entropy", "grpo", COLLAPSED),
    *(
        Question(4, arm, "grpo", quantity)
        for arm in ("grpo-entropy", "grpo-conflicts", "gtpo")
        for quantity in ("accuracy", "format", "entropy")
    ),
    *(Question(4, arm, "gtpo", quantity) for arm in ABLATIONS for quantity in ("accuracy", "format", "entropy")),
    *(Question(5, "gtpo", arm, quantity) for arm in ("grpo", "sft") for quantity in ("pass@8", "pass@32", "maj@32")),
    *LATER,
)

Records = Mapping[Job, Record]


def of_arm(records: Records, setting: str, arm: str) -> list[Record]:
    return [record for job, record in records.items() if (job.setting, job.arm) == (setting, arm)]


def answer(question: Question, records: Records, setting: str) -> Comparison | None:
    """The comparison that answers the question in a setting; None if the arms share fewer than two seeds there."""
    sides = [of_arm(records, setting, arm) for arm in (question.first, question.second)]
    shared = {record.job.seed for record in sides[0]} & {record.job.seed for record in sides[1]}
    if len(shared) < 2:
        return None
    sides = [[record for record in side if record.job.seed in shared] for side in sides]
    if question.quantity == HEALTH:
        first, second = ([record.to_run() for record in side] for side in sides)
        comparison = compare_runs(first, second)[-1]
        return dataclasses.replace(comparison, name=HEALTH)
    if question.quantity == COLLAPSED:
        return compare_collapses(*(collapses(side, records, setting) for side in sides))
    quantity = QUANTITIES[question.quantity]
    values = [by_seed(side, quantity) for side in sides]
    if len(values[0].keys() & values[1].keys()) < 2:
        return None
    return compare_values(quantity.title, *values, more_is_good=quantity.more_is_good)


def exact_p(question: Question, records: Records, setting: str) -> float | None:
    """The exact p of the sign-flip test over the seeds that both arms have; None for counts and for few pairs."""
    if question.quantity in COUNTS:
        return None
    quantity = QUANTITIES[question.quantity]
    first, second = (by_seed(of_arm(records, setting, arm), quantity) for arm in (question.first, question.second))
    differences = [value - second[seed] for seed, value in first.items() if seed in second]
    return sign_flip_p(differences) if FEWEST_FOR_P <= len(differences) <= MOST_FOR_P else None


def collapses(runs: list[Record], records: Records, setting: str) -> list[bool] | None:
    """Whether each run has collapsed; None if the untrained policy was not measured in this setting."""
    start = next((record.after["accuracy"] for record in of_arm(records, setting, "base")), None)
    return None if start is None else [record.after["accuracy"] < start / 2 for record in runs]


def compare_collapses(first: list[bool] | None, second: list[bool] | None) -> Comparison | None:
    """The shares of collapsed runs, compared by Fisher's test; None if one of them is not known."""
    if first is None or second is None:
        return None
    shares = sum(first) / len(first), sum(second) / len(second)
    is_shown = fisher_p(sum(first), len(first), sum(second), len(second)) < 1 - LEVEL
    verdict = "not shown" if not is_shown else "better" if shares[0] < shares[1] else "worse"
    difference = shares[0] - shares[1]
    return Comparison(COLLAPSED, *shares, difference, None, None, len(first), len(second), False, verdict, None)


def by_seed(records: list[Record], quantity: Quantity) -> dict[int, float]:
    values = {record.job.seed: quantity.of(record) for record in records}
    return {seed: value for seed, value in values.items() if value is not None and np.isfinite(value)}
