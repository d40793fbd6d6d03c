"""Rewards that are wrong on purpose, for stress settings: `--rewards experiments.lab.rewards:NAME`."""

import random
from typing import Any

from gtpo.rewards import paper_reward

NOISE = 10.0
"""Standard deviation of the noise, in the paper's units: as much as a right answer is worth."""


def noisy_reward(completions: Any, answer: Any, **columns: Any) -> list[float | None]:
    """The paper's reward plus normal noise, drawn anew for each completion.

    The noise comes from Python's global generator, which the trainer seeds with the run's seed and keeps in its
    checkpoints. Accuracy and format are logged as they are.
    """
    return [
        None if score is None else score + random.gauss(0.0, NOISE)
        for score in paper_reward(completions, answer, **columns)
    ]
