"""Whether two answers are equivalent: functions on strings, without state, run only in the grading workers.

rules                                   the answer to that question: start here
normalise, structure, names, units      one spelling, and the parts of an answer
numbers, symbolic                       what a part means: by strict patterns, then by latex2sympy
forms, question                         answers that get no credit: work left to do, copies of the question
"""

from gtpo.rewards.equivalence.rules import equivalent

__all__ = ["equivalent"]
