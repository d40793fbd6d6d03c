"""Rewards that are wrong on purpose, for the stress settings: `--rewards experiments.lab.rewards:NAME`."""

import random
from typing import Any

from gtpo.rewards import paper_reward

NOISE = 10.0
"""Standard deviation of the noise: as large as the reward of a right answer."""


def random_reward(completions: Any, answer: Any, **columns: Any) -> list[float | None]:
    """0, 10 or 20 by chance, whatever the completion says: a control. Accuracy and format are logged as they are."""
    paper_reward(completions, answer, **columns)
    return [random.choice((0.0, 10.0, 20.0)) for _ in completions]


def noisy_reward(completions: Any, answer: Any, **columns: Any) -> list[float | None]:
    """The paper's reward plus independent normal noise for each completion.

    The noise comes from Python's global generator, which the trainer seeds and saves in its checkpoints. Accuracy and
    format are logged without noise.
    """
    return [
        None if score is None else score + random.gauss(0.0, NOISE)
        for score in paper_reward(completions, answer, **columns)
    ]
