"""The lab's problems: arithmetic in four levels, as an endless seeded train stream and a fixed held-out set.

    level 1   17+5-9         two steps
    level 2   (17+5)*4       two steps
    level 3   17*4+5-9       three steps
    level 4   (17+5)*4-9+6   four steps

No intermediate value is negative. The held-out problems are the same in every process and version. The train stream
never contains one of them.
"""

import operator
import random
from collections.abc import Iterator
from functools import cache
from itertools import islice

from gtpo.errors import require, require_choice
from gtpo.problems.problem import Problem

NUM_LEVELS = 4
NUM_HELD_OUT = 256
_HELD_OUT_SEED = 20260101
_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def lab_problems(split: str, num_problems: int, *, seed: int = 0) -> list[Problem]:
    """The first `num_problems` of the train stream of this seed, or of the held-out set, which ignores the seed.

    The levels of held-out problems take turns. Train problems may repeat: levels 1 and 2 have only some thousand.

    >>> lab_problems("test", 4) == lab_problems("test", 256, seed=7)[:4]
    True
    >>> [problem.level for problem in lab_problems("test", 6)]
    [1, 2, 3, 4, 1, 2]
    """
    require_choice("split", split, ("train", "test"))
    require(num_problems >= 0, "num_problems", num_problems, "at least 0")
    if split == "train":
        return list(islice(train_stream(random.Random(seed)), num_problems))
    require(num_problems <= NUM_HELD_OUT, "num_problems", num_problems, f"at most {NUM_HELD_OUT} in the test split")
    return list(_held_out()[:num_problems])


def train_stream(rng: random.Random) -> Iterator[Problem]:
    """Train problems without end. The levels are equally likely."""
    held_out = {problem.question for problem in _held_out()}
    while True:
        problem = _draw(rng, rng.randint(1, NUM_LEVELS))
        if problem.question not in held_out:
            yield problem


@cache
def _held_out() -> tuple[Problem, ...]:
    rng = random.Random(_HELD_OUT_SEED)
    problems: dict[str, Problem] = {}
    while len(problems) < NUM_HELD_OUT:
        problem = _draw(rng, len(problems) % NUM_LEVELS + 1)
        problems.setdefault(problem.question, problem)
    return tuple(problems.values())


def _draw(rng: random.Random, level: int) -> Problem:
    while True:
        first, second, third, fourth = (rng.randint(2, 19) for _ in range(4))
        factor = rng.randint(2, 5)
        expression, moves = {
            1: (f"{first}+{second}-{third}", f"+{second} -{third}"),
            2: (f"({first}+{second})*{factor}", f"+{second} *{factor}"),
            3: (f"{first}*{factor}+{second}-{third}", f"*{factor} +{second} -{third}"),
            4: (f"({first}+{second})*{factor}-{third}+{fourth}", f"+{second} *{factor} -{third} +{fourth}"),
        }[level]
        values, steps = [first], list[str]()
        for move in moves.split():
            values.append(_OPERATIONS[move[0]](values[-1], int(move[1:])))
            steps.append(f"{values[-2]}{move}={values[-1]}")
        if min(values) >= 0:
            return Problem(f"{expression}=?", str(values[-1]), "lab", solution=" ".join(steps), level=level)
