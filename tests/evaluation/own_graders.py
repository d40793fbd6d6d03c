"""Graders as users write them, named by `--grader tests.evaluation.own_graders:NAME`."""

import numpy as np

from gtpo.rewards import bounded


def has_word(completions, word, prompts, **columns):
    """Needs no answer: a column of the data names the word. Checks what a grader gets on the way."""
    assert all(prompt[-1]["role"] == "user" for prompt in prompts)
    return [word in completion[0]["content"].split() for completion, word in zip(completions, word, strict=True)]


def exact(completions, answer, **columns):
    texts = [completion[0]["content"] for completion in completions]
    return list(np.array(texts) == np.array(answer))  # NumPy's own booleans


def half(completions, **columns):
    return [0.5] * len(completions)


def broken(completions, **columns):
    raise KeyError("nothing")


@bounded(seconds=20, num_workers=1)
def bounded_exact(completions, answer, **columns):
    if completions[0][0]["content"] == "dies":
        import os

        os._exit(1)
    return exact(completions, answer)
