"""Grading in worker processes with a hard timeout: an answer that hangs costs one reward, not the run."""

from gtpo.rewards.grading.grader import Grader, configure_grading, default_grader
from gtpo.rewards.grading.pool import GradingPool, Pair, Verdict

__all__ = ["Grader", "GradingPool", "Pair", "Verdict", "configure_grading", "default_grader"]
