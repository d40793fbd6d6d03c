"""Rewards by name. A broken reward stops the run with one clear sentence."""

import functools
import inspect
import numbers
from collections.abc import Callable, Iterable
from typing import Any, cast

from gtpo.errors import DataError
from gtpo.evaluation.graders import needs_answer
from gtpo.importing import import_function, named_in_errors
from gtpo.rewards import correctness_reward, format_reward, paper_reward

Reward = Callable[..., Any]

LARGEST = 1e18
"""Squares of larger rewards overflow float32, in which TRL computes."""

_GETS = "prompts, completions and every column of the data set as keyword arguments"
_REMEDY = "Fix it, then run the command again, or resume the run if it has a checkpoint."

NAMED: dict[str, Reward] = {"paper": paper_reward, "format": format_reward, "correctness": correctness_reward}


def find_reward(name: str) -> Reward:
    """A built-in reward by name, or any function as `package.module:function`."""
    if name in NAMED:
        return guarded(NAMED[name])
    return guarded(import_function(name, kind="reward", named=NAMED))


def needs_answers(rewards: Iterable[Reward]) -> bool:
    """Whether every problem must have an answer: a reward has a parameter `answer` without a default."""
    return any(map(needs_answer, rewards))


def guarded(reward: Reward) -> Reward:
    """The reward, raising DataError unless it returns one number or None for each completion."""
    name = getattr(reward, "__name__", repr(reward))

    @functools.wraps(reward)
    def checked(*args: Any, completions: Any, **columns: Any) -> list[float | None]:
        with named_in_errors(f"Reward {name}", _GETS, _REMEDY):
            return _scores(name, reward(*args, completions=completions, **columns), len(completions))

    @functools.wraps(reward)
    async def checked_later(*args: Any, completions: Any, **columns: Any) -> list[float | None]:
        with named_in_errors(f"Reward {name}", _GETS, _REMEDY):
            return _scores(name, await reward(*args, completions=completions, **columns), len(completions))

    guard: Any = checked_later if inspect.iscoroutinefunction(reward) else checked
    if hasattr(reward, "spans"):  # functools.wraps copies no methods of an object
        guard.spans = cast("Any", reward).spans
    return guard


def _scores(name: str, scores: Any, num_completions: int) -> list[float | None]:
    scores = scores.tolist() if hasattr(scores, "tolist") else scores
    if not isinstance(scores, Iterable):
        raise DataError(f"Reward {name} returned {scores!r}. Return a list: for each completion a number, or None.")
    scores = list(scores)
    if len(scores) != num_completions:
        raise DataError(
            f"Reward {name} returned {len(scores)} scores for {num_completions} completions. Return one each."
        )
    for row, score in enumerate(scores):
        is_allowed = score is None or (isinstance(score, numbers.Real) and abs(float(score)) <= LARGEST)
        if not is_allowed:
            remedy = "Return a number (at most 1e18 in size), or None where it cannot score."
            raise DataError(f"Reward {name} returned {score!r} for completion {row}. {remedy}")
    return scores
