"""The lab part of protocol.md as constants. The runner, the table and the figure take everything from here."""

from experiments.lab.arms import GROUPS
from experiments.lab.jobs import Job, make_jobs

SETTINGS = ("comfortable", "one-prompt", "headroom")
SEEDS = "201-208"
BASELINE = "grpo"
CONTROL = "random"
ARMS = tuple(arm for arm in GROUPS["credit"] if arm != "base")
PRIMARY_SETTING = "headroom"
PRIMARY_ARMS = ("gtpo", "balanced", "component")
OUTCOME = "pass@8"
OUTCOMES = (OUTCOME, "pass@1")
"""What the page shows. Only the first can be primary."""
FEWEST_SEEDS = 8
"""An arm with fewer finished seeds gets no p and no verdict."""


def lab_jobs() -> list[Job]:
    """Every job of the lab part.

    >>> len(lab_jobs())
    307
    """
    shared = [job for setting in SETTINGS for job in make_jobs(setting, "credit", SEEDS)]
    return [*shared, *make_jobs("one-prompt", "slow-adam", SEEDS)]
