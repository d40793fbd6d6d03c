"""Rewards by name, and a guard around each: a broken reward stops the run with one clear sentence."""

import contextlib
import functools
import importlib
import inspect
import numbers
import os
import sys
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

from gtpo.errors import ConfigError, DataError
from gtpo.rewards import correctness_reward, format_reward, paper_reward

Reward = Callable[..., Any]

LARGEST = 1e18
"""Beyond it float32, in which TRL reckons, overflows where rewards are squared; NaN and infinity are beyond it too."""

NAMED: dict[str, Reward] = {"paper": paper_reward, "format": format_reward, "correctness": correctness_reward}


def find_reward(name: str) -> Reward:
    """A reward of ours by name, or anybody's as `package.module:function`."""
    if name in NAMED:
        return guarded(NAMED[name])
    module, colon, function = name.partition(":")
    if not colon:
        raise ConfigError(
            f"There is no reward {name!r}. Ours are {', '.join(NAMED)}; give your own as package.module:function."
        )
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a script of one's own would find a module there, too
    try:
        found = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # a module of somebody else's may do anything
        raise ConfigError(
            f"Reward {name!r} cannot be imported: {type(error).__name__}: {error}. Is the module in this folder or on "
            "the Python path, and the name right?"
        ) from error
    if not callable(found):
        raise ConfigError(f"Reward {name!r} is a {type(found).__name__}, not a function.")
    return guarded(found)


def guarded(reward: Reward) -> Reward:
    """The reward; where it raises, or returns anything but one number or None a completion, a DataError says so."""

    name = getattr(reward, "__name__", repr(reward))

    @functools.wraps(reward)
    def checked(*args: Any, completions: Any, **columns: Any) -> list[float | None]:
        with _named_in_errors(name):
            scores = _as_list(name, reward(*args, completions=completions, **columns))
        return _scores(name, scores, len(completions))

    @functools.wraps(reward)
    async def checked_later(*args: Any, completions: Any, **columns: Any) -> list[float | None]:
        with _named_in_errors(name):
            scores = _as_list(name, await reward(*args, completions=completions, **columns))
        return _scores(name, scores, len(completions))

    return checked_later if inspect.iscoroutinefunction(reward) else checked


@contextlib.contextmanager
def _named_in_errors(name: str) -> Generator[None]:
    try:
        yield
    except DataError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit(0) would end the run as if it had finished
        calls = [place for place in traceback.extract_tb(error.__traceback__) if place.filename != __file__]
        where = f" ({Path(calls[-1].filename).name}, line {calls[-1].lineno})" if calls else ""
        hints = {
            "unexpected keyword argument": " It must take **columns: every column of the data set comes by its name.",
            " missing ": " It is given prompts, completions and the data set's columns: there is none of that name.",
        }
        hint = next((hint for words, hint in hints.items() if words in str(error) and not calls), "")
        raise DataError(
            f"Reward {name} raised {type(error).__name__}: {error}{where}."
            f"{hint} Nothing is trained on it; mend the reward, then resume, or start again if there is no checkpoint."
        ) from error


def _as_list(name: str, scores: Any) -> list[Any]:
    if scores is None:
        raise DataError(
            f"Reward {name} returned nothing. Return a list with one number, or None, for each completion."
        )
    return list(scores.tolist() if hasattr(scores, "tolist") else scores)


def _scores(name: str, scores: list[Any], num_completions: int) -> list[float | None]:
    if len(scores) != num_completions:
        raise DataError(f"Reward {name} returned {len(scores)} scores for {num_completions} completions.")
    for row, score in enumerate(scores):
        if score is not None and not (isinstance(score, numbers.Real) and -LARGEST <= cast("Any", score) <= LARGEST):
            raise DataError(
                f"Reward {name} returned {_short(score)} for completion {row}. Return a number (at most 1e18 in "
                "size), or None where it cannot score."
            )
    return scores


def _short(score: object) -> str:
    try:
        text = repr(score)
    except ValueError:  # Python writes no integers of more than some thousand digits
        text = "an enormous integer"
    return text if len(text) <= 60 else f"{text[:60]}…"
