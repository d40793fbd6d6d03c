"""How the base model was taught to answer: a mixture of habits, some better than others.

A demonstration works on the problem in steps with free words between them, then answers. Most habits are bad on
purpose: reinforcement learning moves probability among behaviours that a model already has.
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
"""The free words of the working. No two begin alike, so that the choice is made on the first word."""

_GUESS_ERRORS = (-11, -7, -5, -3, -2, -1, 1, 2, 3, 5, 7, 11)


@dataclass(frozen=True)
class Habits:
    """How often each habit shows; what is left over after `careful` and `skipping` is careless."""

    careful: float = 0.42
    """Every step, then the right answer."""
    skipping: float = 0.06
    """Every step but the last, and the value before it as the answer."""
    broken: float = 0.14
    """A format that lacks a tag or goes on after the end, whatever the working."""
    num_phrases: tuple[float, float, float] = (0.15, 0.5, 0.35)
    """How likely no, one and two phrases are before each statement."""


SKILL = Habits(careful=1.0, skipping=0.0, broken=0.0, num_phrases=(0.75, 0.2, 0.05))
"""What is taught first: to calculate, in few words."""


def demonstrate(problem: Problem, habits: Habits, rng: random.Random) -> str:
    """One completion for the problem, in a habit drawn at random."""
    steps = problem.solution.split()
    habit = rng.random()
    if habit < habits.careful:
        said, answer = steps, problem.answer
    elif habit < habits.careful + habits.skipping:
        said, answer = steps[:-1], steps[-2].split("=")[1]
    else:
        answer = str(int(problem.answer) + rng.choice(_GUESS_ERRORS))
        said = [problem.question.removesuffix("=?"), answer]
    text = f"<reasoning>{_with_phrases(said, habits, rng)}</reasoning><answer>{answer}</answer>"
    return _break(text, rng) if rng.random() < habits.broken else text


def _with_phrases(said: list[str], habits: Habits, rng: random.Random) -> str:
    parts: list[str] = []
    for statement in said:
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
