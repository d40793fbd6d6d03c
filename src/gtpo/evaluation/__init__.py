"""Evaluation: sample, keep every sample, grade, and report metrics with confidence intervals."""

from gtpo.evaluation.estimators import maj_at_k, pass_at_k

__all__ = ["maj_at_k", "pass_at_k"]
