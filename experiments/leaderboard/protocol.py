"""protocol.md as constants. The tables and the figure take everything from here."""

from experiments.lab.arms import GROUPS
from experiments.lab.jobs import Job, make_jobs, parse_seeds

BASELINE, CONTROL = "grpo", "random"
BASELINES = {"gtpo-slow-adam": "grpo-slow-adam"}
"""Arms that are compared with another arm than GRPO."""
OUTCOME = "pass@8"
"""The only outcome that can be primary."""
OUTCOMES = (OUTCOME, "pass@1")
FEWEST_FOR_SIGN_FLIP = 8
"""Pairs of seeds from which on p is that of the sign-flip test; with fewer it is that of the paired t-test."""

SETTINGS = ("headroom", "one-prompt", "comfortable")
"""The settings of the lab, the primary one first."""
SEEDS = tuple(parse_seeds("201-208"))
ARMS = (*(arm for arm in GROUPS["credit"] if arm != "base"), *GROUPS["slow-adam"])
"""Every arm, in the order of the tables."""
PRIMARY_SETTING = "headroom"
PRIMARY_ARMS = ("gtpo", "balanced", "component")

QWEN_SPEC, QWEN_PROBLEMS, QWEN_STEPS = "qwen-leaderboard", "gsm8k", 50
QWEN_SEEDS = tuple(parse_seeds("21-24"))
QWEN_ARMS = ("grpo", "dr-grpo", "gtpo", "component", "annealed")
"""The last one has the highest mean pass@8 in headroom among the others, without the control."""
QWEN_PRIMARY_ARMS = ("gtpo", "component", "annealed")


def lab_jobs() -> list[Job]:
    """Every job of the lab part that trains.

    >>> len(lab_jobs())
    304
    """
    seeds = ",".join(map(str, SEEDS))
    shared = [job for setting in SETTINGS for job in make_jobs(setting, "credit", seeds) if job.arm != "base"]
    return [*shared, *make_jobs("one-prompt", "slow-adam", seeds)]


def baseline_of(arm: str) -> str:
    """The arm that this arm is compared with."""
    return BASELINES.get(arm, BASELINE)
