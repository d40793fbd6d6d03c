"""Demonstrations for the base model: a mixture of habits, some better than others.

A demonstration solves a problem in steps with free phrases between them, then answers. Most habits are bad on purpose:
reinforcement learning moves probability among behaviours that a model already has.
"""

import random
from dataclasses import dataclass

from gtpo.problems.problem import Problem

PHRASES = (
    "let us see",
    "now we get",
    "so it goes on",
    "ok then",
    "well here we are",
    "right that gives",
    "hmm which means",
    "first take this part",
    "next we do this",
    "look at it again",
    "just go on now",
    "yes that is fine",
    "good so far",
    "here it is",
    "then we find",
    "thus we have",
    "and from that",
    "hence it follows",
    "sure take it slow",
    "it is clear that",
    "we can write",
    "this comes to",
    "take a look",
    "do this one",
)
"""Free phrases between the steps. Each begins with a different word, so the first word decides the phrase."""

_GUESS_ERRORS = (-11, -7, -5, -3, -2, -1, 1, 2, 3, 5, 7, 11)


@dataclass(frozen=True)
class Habits:
    """The probability of each habit. The rest after `careful` and `skipping` is careless: a wrong guess, no steps."""

    careful: float = 0.42
    """Every step, then the right answer."""
    skipping: float = 0.06
    """Every step except the last, then the value before it as the answer."""
    broken: float = 0.14
    """A format without one of the tags or with text after the end. Independent of the other habits."""
    num_phrases: tuple[float, float, float] = (0.15, 0.5, 0.35)
    """The probabilities of zero, one and two phrases before each statement."""


SKILL = Habits(careful=1.0, skipping=0.0, broken=0.0, num_phrases=(0.75, 0.2, 0.05))
"""What the model learns first: to calculate, with few phrases."""


def demonstrate(problem: Problem, habits: Habits, rng: random.Random) -> str:
    """A completion for the problem, in a random habit."""
    steps = problem.solution.split()
    habit = rng.random()
    if habit < habits.careful:
        statements, answer = steps, problem.answer
    elif habit < habits.careful + habits.skipping:
        statements, answer = steps[:-1], steps[-2].split("=")[1]
    else:
        answer = str(int(problem.answer) + rng.choice(_GUESS_ERRORS))
        statements = [problem.question.removesuffix("=?"), answer]
    text = f"<reasoning>{_with_phrases(statements, habits, rng)}</reasoning><answer>{answer}</answer>"
    return _break(text, rng) if rng.random() < habits.broken else text


def _with_phrases(statements: list[str], habits: Habits, rng: random.Random) -> str:
    parts: list[str] = []
    for statement in statements:
        num_phrases = rng.choices((0, 1, 2), habits.num_phrases)[0]
        parts += [*rng.sample(PHRASES, num_phrases), statement]
    return " ".join(parts)


def _break(text: str, rng: random.Random) -> str:
    return rng.choice(
        (
            text.replace("</reasoning>", ""),
            text.replace("<answer>", "answer "),
            text.removesuffix("</answer>"),
            f"{text} {rng.choice(PHRASES)}",
            text.replace("<reasoning>", "").replace("</reasoning>", " "),
        )
    )
