"""Rewards as users write them, named by `--rewards tests.training.own_rewards:NAME`."""

import random

import numpy as np
import torch


def binary(completions, answer, **columns):
    return [
        float(f">{gold}<" in completion[0]["content"]) for completion, gold in zip(completions, answer, strict=True)
    ]


def bonus(completions, bonus, **columns):
    """Reads a further column of the problem file."""
    return [0.25 * value for value in bonus]


async def awaited(completions, **columns):
    return [0.25] * len(completions)


def uneven(completions, **columns):
    """A sum that binary fractions do not hit, and None for nonsense."""
    is_nonsense = ["nonsense" in completion[0]["content"] for completion in completions]
    return [None if wrong else 0.8675 - 1e-16 * 2 for wrong in is_nonsense]


def hostile(completions, **columns):
    raise ValueError("cannot parse \x1b[2J")


def drawing(completions, answer, **columns):
    """A grader that changes every random state."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    return binary(completions, answer)


calls = []


def late(completions, **columns):
    """Fails in the fifth step."""
    calls.append(1)
    if len(calls) > 4:
        raise RuntimeError("broken at last")
    return [float(row % 2) for row in range(len(completions))]
