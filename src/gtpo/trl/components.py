"""What each reward function contributes: its part of the advantage, and the tokens that it judges."""

import bisect
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gtpo.core.groups import ZERO_ADVANTAGE
from gtpo.errors import ConfigError, DataError, shortened

Spans = Callable[[str], Sequence[tuple[int, int]]]


def component_advantages(rewards: Tensor, weights: Tensor, group_size: int, scale_rewards: str) -> Tensor:
    """The advantage by reward function, (B, F). Its columns add up to TRL's advantages.

    As in TRL, a function that returned None for a completion adds 0 to it, and a completion that no function could
    score counts nowhere. The columns are divided by the same standard deviation as the total. Where it is 0, so are
    they: the total is tied, and there is no scale.
    """
    is_scored = ~rewards.isnan().all(dim=1, keepdim=True)
    parts = torch.where(rewards.isnan(), 0.0, rewards * weights.to(rewards.device))
    parts = torch.where(is_scored, parts, torch.nan)
    grouped = parts.view(-1, group_size, parts.shape[1])
    centred = grouped - grouped.nanmean(dim=1, keepdim=True)
    if scale_rewards != "none":
        totals = grouped.sum(2, keepdim=True)
        spread = _deviation(totals if scale_rewards == "group" else totals.view(1, -1, 1))
        centred = torch.where(spread > ZERO_ADVANTAGE, centred / (spread + 1e-4), 0.0)
    return centred.flatten(0, 1).nan_to_num(nan=0.0)


def _deviation(values: Tensor) -> Tensor:
    """The standard deviation along dimension 1, without NaN; 0 for a single value."""
    counts = (~values.isnan()).sum(1, keepdim=True)
    squares = (values - values.nanmean(1, keepdim=True)).square().nansum(1, keepdim=True)
    return (squares / (counts - 1).clamp(min=1)).sqrt()


def require_spans(reward_funcs: Sequence[Any], names: Sequence[str]) -> None:
    """Raise ConfigError unless a reward function names the characters that it judges."""
    if not any(hasattr(reward, "spans") for reward in reward_funcs):
        raise ConfigError(
            f"The credit scheme needs to know which tokens a reward judges, and none of the rewards "
            f"({', '.join(names)}) has an attribute `spans`. Add format_reward (--rewards format correctness), or "
            "give a reward of yours the attribute: a function from a text to pairs (start, end) of characters."
        )


class TokenJudges:
    """Finds the tokens that a reward function judges: those with a character in one of its spans.

    A reward function names characters with an attribute `spans`, a function from the text of a completion to pairs
    (start, end). The text is the decoded completion without special tokens, in chat form too. A character of several
    tokens counts for the last of them. A token that two functions judge belongs to neither.
    """

    def __init__(self, reward_funcs: Sequence[Any], names: Sequence[str], processing_class: Any) -> None:
        require_spans(reward_funcs, names)
        functions = {column: getattr(reward, "spans", None) for column, reward in enumerate(reward_funcs)}
        self.spans: dict[int, Spans] = {column: spans for column, spans in functions.items() if spans is not None}
        self.names = names
        tokenizer = getattr(processing_class, "tokenizer", processing_class)
        self.decode: Callable[[list[int]], str] = functools.partial(tokenizer.decode, skip_special_tokens=True)
        self.pieces: dict[int, str] = {}

    def token_component(self, completion_ids: Tensor, completion_mask: Tensor, first: int) -> Tensor:
        """The column of the reward function that judges each token, −1 for none. `first` numbers row 0 in errors."""
        judges = torch.full(completion_ids.shape, -1, dtype=torch.int32)
        sizes: list[int] = completion_mask.sum(1).tolist()
        for row, (size, ids) in enumerate(zip(sizes, completion_ids.tolist(), strict=True)):
            text = self.decode(ids[:size])
            find = self._finder(ids[:size], text)
            for column, spans in self.spans.items():
                for start, end in _checked(spans, text, self.names[column], first + row):
                    tokens = judges[row, find(start) : find(end - 1) + 1]
                    tokens[:] = torch.where((tokens == -1) | (tokens == column), column, -2)
        return judges.clamp(min=-1).to(completion_ids.device)

    def _finder(self, ids: list[int], text: str) -> Callable[[int], int]:
        """A function from a character of the text to the token that completes it.

        Tokens are decoded one by one where this gives the text. Otherwise, for example with characters of several
        tokens, the beginnings of the completion are decoded that a binary search asks for.
        """
        for token in ids:
            if token not in self.pieces:
                self.pieces[token] = self.decode([token])
        if "".join(self.pieces[token] for token in ids) == text:
            ends, length = [], 0
            for token in ids:
                length += len(self.pieces[token])
                ends.append(length)
            return lambda character: bisect.bisect_right(ends, character)

        @functools.cache
        def num_characters(place: int) -> int:
            beginning = self.decode(ids[: place + 1])
            pairs = zip(beginning, text, strict=False)
            return next((n for n, (mine, whole) in enumerate(pairs) if mine != whole), min(len(beginning), len(text)))

        return lambda character: bisect.bisect_right(range(len(ids)), character, key=num_characters)


def _checked(spans: Spans, text: str, name: str, row: int) -> list[tuple[int, int]]:
    """The spans of one completion without empty ones; DataError that names reward and row if they are wrong."""
    where = f"`spans` of the reward {name}, completion {row} of the batch (over all processes)"
    try:
        pairs = [(start, end) for start, end in spans(text)]
    except Exception as error:  # it is the user's code, and unpacking raises for anything but pairs
        raise DataError(f"{where}: {type(error).__name__}: {error}. Return a list of pairs (start, end).") from error
    for pair in pairs:
        if not all(type(place) is int for place in pair) or not 0 <= pair[0] <= pair[1] <= len(text):
            raise DataError(
                f"{where}: got {shortened(pair)} for a text of {len(text)} characters. Return pairs of integers with "
                "0 ≤ start ≤ end ≤ length."
            )
    return [(start, end) for start, end in pairs if start < end]
