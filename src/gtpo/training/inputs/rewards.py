"""Rewards by name. A broken reward stops the run with one clear sentence."""

import contextlib
import functools
import inspect
import numbers
import traceback
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, cast

from gtpo.errors import DataError, GTPOError
from gtpo.evaluation.graders import needs_answer
from gtpo.importing import import_function
from gtpo.rewards import correctness_reward, format_reward, paper_reward

Reward = Callable[..., Any]

LARGEST = 1e18
"""Squares of larger rewards overflow float32, in which TRL computes."""

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
        with _named_in_errors(name):
            return _scores(name, reward(*args, completions=completions, **columns), len(completions))

    @functools.wraps(reward)
    async def checked_later(*args: Any, completions: Any, **columns: Any) -> list[float | None]:
        with _named_in_errors(name):
            return _scores(name, await reward(*args, completions=completions, **columns), len(completions))

    guard: Any = checked_later if inspect.iscoroutinefunction(reward) else checked
    if hasattr(reward, "spans"):  # functools.wraps copies no methods of an object
        guard.spans = cast("Any", reward).spans
    return guard


@contextlib.contextmanager
def _named_in_errors(name: str) -> Generator[None]:
    try:
        yield
    except GTPOError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit(0) would look like a finished run
        calls = [place for place in traceback.extract_tb(error.__traceback__) if place.filename != __file__]
        if calls:
            place = f" ({Path(calls[-1].filename).name}, line {calls[-1].lineno})."
        else:  # it could not be called
            place = ". It gets prompts, completions and every column of the data set as keyword arguments."
        remedy = "Fix the reward, then run the command again, or resume the run if it has a checkpoint."
        raise DataError(f"Reward {name} raised {type(error).__name__}: {error}{place} {remedy}") from error


def _scores(name: str, scores: Any, num_completions: int) -> list[float | None]:
    scores = scores.tolist() if hasattr(scores, "tolist") else scores
    if not isinstance(scores, Iterable):
        raise DataError(f"Reward {name} returned {scores!r}. Return a list: for each completion a number, or None.")
    scores = list(scores)
    if len(scores) != num_completions:
        raise DataError(f"Reward {name} returned {len(scores)} scores for {num_completions} completions.")
    for row, score in enumerate(scores):
        is_allowed = score is None or (isinstance(score, numbers.Real) and abs(float(score)) <= LARGEST)
        if not is_allowed:
            remedy = "Return a number (at most 1e18 in size), or None where it cannot score."
            raise DataError(f"Reward {name} returned {score!r} for completion {row}. {remedy}")
    return scores
