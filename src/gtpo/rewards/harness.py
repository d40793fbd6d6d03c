"""Scores by math-verify on complete completions, for comparison with those of other harnesses."""

from collections.abc import Sequence
from typing import Any

from gtpo.rewards.bounded import bounded
from gtpo.rewards.completions import TextOrMessages, completion_text

PRECISION = 6


@bounded(seconds=10)
def math_verify_score(completions: Sequence[TextOrMessages], answer: Sequence[str], **columns: Any) -> list[float]:
    r"""1 where math-verify finds the gold answer in the completion, else 0.

    Expressions and LaTeX are extracted from the complete text, a \boxed{} first, and compared with `verify` to six
    digits. The gold answer is parsed as the content of a \boxed{}. This gives credit to answers that gtpo's own grader
    refuses (docs/rewards.md), and is for comparisons with the scores of other harnesses.
    """
    import math_verify
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, verify

    parse: Any = math_verify.parse  # annotated without None, which it takes for no time limit
    targets = [ExprExtractionConfig(), LatexExtractionConfig(boxed_match_priority=0)]
    scores: list[float] = []
    for completion, gold in zip(completions, answer, strict=True):
        # The worker has a time limit of its own, and math-verify's would replace its alarm.
        expected = parse(rf"\boxed{{{gold}}}", targets, parsing_timeout=None)
        answers = parse(completion_text(completion), targets, parsing_timeout=None)
        scores.append(float(verify(expected, answers, float_rounding=PRECISION, timeout_seconds=None)))
    return scores
