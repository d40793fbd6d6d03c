"""Reward functions: the paper's format and correctness rewards, with answers graded in worker processes."""

from gtpo.rewards.answers import are_correct, extract_answer, is_correct
from gtpo.rewards.bounded import bounded
from gtpo.rewards.completions import completion_text, question_text
from gtpo.rewards.correctness import correctness_reward, paper_reward
from gtpo.rewards.format import format_reward, format_score, has_format
from gtpo.rewards.grading import Grader, GradingPool, configure_grading

__all__ = [
    "Grader",
    "GradingPool",
    "are_correct",
    "bounded",
    "completion_text",
    "configure_grading",
    "correctness_reward",
    "extract_answer",
    "format_reward",
    "format_score",
    "has_format",
    "is_correct",
    "paper_reward",
    "question_text",
]
