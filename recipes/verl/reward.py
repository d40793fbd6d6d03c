"""gtpo's reward for verl: `reward.custom_reward_function.path=recipes/verl/reward.py`."""

from typing import Any

from gtpo.rewards import paper_reward


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> float | None:
    question = (extra_info or {}).get("question")
    return paper_reward([solution_str], answer=[ground_truth], prompts=[question] if question else None)[0]
