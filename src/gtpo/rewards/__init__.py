"""Rewards that never lie or hang: the paper's format and correctness, graded in bounded worker processes."""

from gtpo.rewards.answers import are_correct, extract_answer, is_correct
from gtpo.rewards.completions import completion_text
from gtpo.rewards.correctness import correctness_reward, paper_reward, weighted
from gtpo.rewards.format import format_reward, format_score, has_format
from gtpo.rewards.grading.grader import Grader, configure_grading
from gtpo.rewards.grading.pool import GradingPool

__all__ = [
    "Grader",
    "GradingPool",
    "are_correct",
    "completion_text",
    "configure_grading",
    "correctness_reward",
    "extract_answer",
    "format_reward",
    "format_score",
    "has_format",
    "is_correct",
    "paper_reward",
    "weighted",
]
