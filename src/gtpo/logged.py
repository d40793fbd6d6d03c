"""The metrics that trainers log: which names mean what, which rows belong to training, and series of them."""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

from gtpo.files import is_number

Row = dict[str, Any]

LN2 = math.log(2)
"""The paper's entropy threshold, in nats."""

VOCAB_SIZE = "health/vocab_size"
"""Logged once by `gtpo.watch`, because the entropy of a uniform policy depends on it."""

MEANINGS: dict[str, tuple[str, ...]] = {
    "accuracy": ("accuracy",),
    "format": ("format",),
    "entropy": ("gtpo/token_entropy", "entropy", "gtpo/entropy_mean"),  # over tokens; TRL's leaves completions out
    "completion_entropy": ("gtpo/entropy_mean", "entropy"),  # ⟨H⟩, which the filter compares with its threshold
    "reward": ("reward",),
    "kept": ("gtpo/frac_kept",),
    "conflict": ("gtpo/frac_conflict",),
    "tied": ("gtpo/frac_tied_groups", "frac_reward_zero_std"),
    "distinct": ("gtpo/frac_distinct",),
    "length": ("completions/mean_length", "completion_length"),
    "truncated": ("completions/clipped_ratio",),
    "grad_norm": ("grad_norm",),
    "learning_rate": ("learning_rate",),
    "loss": ("loss",),
    "timeouts": ("rewards/timeouts",),
    "ratio": ("sampling/importance_sampling_ratio/mean",),
    "sampler_gap": ("sampling/sampling_logp_difference/mean",),  # mean |log p| between trainer and sampler
    "clipped": ("clip_ratio/region_mean",),
}
"""What reports and checks are about, and the logged names that mean it, the best one first."""

_FALLBACKS = {
    "accuracy": re.compile(r"rewards/[^/]*(accura|correct)[^/]*/mean", re.IGNORECASE),
    "format": re.compile(r"rewards/[^/]*format[^/]*/mean", re.IGNORECASE),
}
"""Rewards of other people's runs that are an accuracy or a format rate, as long as they stay between 0 and 1."""


@dataclasses.dataclass(frozen=True)
class Series:
    """One quantity over the steps at which it was logged, finite values only."""

    steps: list[float]
    values: list[float]


def series(rows: Sequence[Row], meaning: str) -> Series:
    """The series of `meaning` in these rows; empty if it was not logged.

    >>> series([{"step": 1, "entropy": 0.5}, {"step": 2, "entropy": None}], "entropy")
    Series(steps=[1], values=[0.5])
    """
    names = logged_names(rows, meaning)
    points = [(row["step"], next((row[name] for name in names if is_number(row.get(name))), None)) for row in rows]
    kept = [(step, float(value)) for step, value in points if value is not None]
    return Series([step for step, _ in kept], [value for _, value in kept])


def logged_names(rows: Sequence[Row], meaning: str) -> tuple[str, ...]:
    """The logged names of `meaning` in these rows: its own, or a reward that clearly is it."""
    own = tuple(name for name in MEANINGS.get(meaning, (meaning,)) if any(is_number(row.get(name)) for row in rows))
    if own or meaning not in _FALLBACKS:
        return own
    candidates = dict.fromkeys(name for row in rows for name in row if stands_for(name, meaning))
    fractions = (name for name in candidates if all(0 <= row[name] <= 1 for row in rows if is_number(row.get(name))))
    return tuple(fractions)[:1]


def stands_for(name: str, meaning: str) -> bool:
    """Whether `name` is the mean of a reward that is named after `meaning`."""
    return meaning in _FALLBACKS and _FALLBACKS[meaning].fullmatch(name) is not None


def phases(rows: Sequence[Row]) -> list[str]:
    """The logged names of times in seconds: the step, and the parts of it that were timed."""
    names = {name for row in rows for name in row if name == "step_time" or name.startswith("gtpo/seconds_")}
    return sorted(names, reverse=True)


def is_training_row(row: Row) -> bool:
    """Whether a row is about training steps, not about an evaluation or the complete run."""
    return bool(without_summary(row)) and not any(name.startswith("eval_") for name in row)


def without_summary(logs: Row) -> Row:
    """A log without the summary of the complete run that the trainer adds at its end.

    TRL adds the metrics of the last steps to that summary if they have not been logged yet.

    >>> without_summary({"train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "epoch": 1.0, "reward": 3.0})
    {'epoch': 1.0, 'reward': 3.0}
    >>> without_summary({"train_runtime": 9.0, "train_loss": 0.1, "total_flos": 0.0, "epoch": 1.0})
    {}
    """
    if "train_runtime" not in logs:
        return logs
    rest = {name: value for name, value in logs.items() if not name.startswith("train_") and name != "total_flos"}
    return rest if rest.keys() - {"step", "epoch", "num_tokens"} else {}
