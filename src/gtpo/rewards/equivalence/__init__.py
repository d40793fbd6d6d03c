"""Whether two answers are equivalent: functions on strings, without state, run only in the grading workers."""

from gtpo.rewards.equivalence.rules import equivalent

__all__ = ["equivalent"]
