"""The rewards of the gallery's lab runs."""

from typing import Any

from gtpo.rewards import completion_text, extract_answer


def accuracy_reward(completions: list[Any], answer: list[str], **columns: Any) -> list[float]:
    """1 for a right answer between closed answer tags."""
    return [float(extract_answer(completion_text(c)) == gold) for c, gold in zip(completions, answer, strict=True)]


def long_reasoning(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """1 for every 20 tokens: meant to make the model think longer, and easy to game."""
    return [len(ids) / 20 for ids in completion_ids]
