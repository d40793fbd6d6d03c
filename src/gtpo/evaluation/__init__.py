"""Evaluation: sample, keep every sample, grade, and report metrics with confidence intervals.

evaluate                            the way through all of it: models × problem sets
sampling, engines/                  what is asked of an engine; transformers and vLLM
samples                             the sample file
graders, votes, estimators, metrics from samples to pass@k and maj@k with intervals
tables                              the numbers as tables
"""

from gtpo.evaluation.estimators import maj_at_k, pass_at_k

__all__ = ["maj_at_k", "pass_at_k"]
