"""The data of a page, in a compact form that its script decodes group by group.

Each distinct token is stored once. A completion has the indices of its tokens (16 or 32 bits each), its entropies and
log-probabilities (half-precision floats), both as base64, and stretches of tokens with the same fate, λ and advantage.
"""

import binascii
import dataclasses
import functools
from typing import Any

import numpy as np

from gtpo.files import is_number
from gtpo.records import CompletionRecord, GroupRecord
from gtpo.text import visible, visible_lines
from gtpo.token_view.changes import Changes
from gtpo.token_view.fates import FATES, stretches

_FATES = list(FATES)
_CACHED_LENGTH = 40
_visible = functools.lru_cache(maxsize=200_000)(visible)  # for short tokens: most occur in every page
_LARGEST_HALF = 65504.0


class TokenTable:
    """The distinct tokens of a page. A token is an id with its text; one id can have several texts."""

    def __init__(self) -> None:
        self.ids: list[int | None] = []
        self.texts: list[str] = []
        self.breaks: list[int] = []  # indices of the tokens with a line break
        self._index: dict[tuple[int | None, str], int] = {}
        self._first: dict[int, int] = {}  # by id, the first text with that id
        self._first_piece: dict[int, str] = {}

    def indices(self, ids: list[int] | None, pieces: list[str]) -> list[int]:
        """The index of each token, which is added if it is new."""
        if ids is None:
            return [self._add(None, piece) for piece in pieces]
        # Most tokens are known and have one text. Only the others are looked at one by one.
        known = list(map(self._first_piece.get, ids))
        if known != pieces:
            rows = zip(ids, pieces, known, strict=True)
            others = [(token, piece) for token, piece, seen in rows if piece != seen]
            for token, piece in others:
                self._add(token, piece)
            if any(self._first_piece[token] != piece for token, piece in others):
                return list(map(self._index.__getitem__, zip(ids, pieces, strict=True)))
        return list(map(self._first.__getitem__, ids))

    def _add(self, token: int | None, piece: str) -> int:
        index = self._index.setdefault((token, piece), len(self.texts))
        if index == len(self.texts):
            self.ids.append(token)
            self.texts.append(_visible(piece) if len(piece) <= _CACHED_LENGTH else visible(piece))
            if "\n" in piece:
                self.breaks.append(index)
            if token is not None and token not in self._first:
                self._first[token], self._first_piece[token] = index, piece
        return index


def group_data(group: GroupRecord, number: int, changes: Changes, table: TokenTable) -> dict[str, Any]:
    """One group as the page reads it; its tokens are added to the table."""
    return {
        "step": group.step,
        "number": number,
        "method": visible(group.method),
        "reason": visible(group.reason) if group.reason else "",
        "prompt": "not recorded" if group.prompt is None else visible_lines(group.prompt),
        "threshold": _number(group.entropy_threshold),
        "completions": [_completion(completion, table) for completion in group.completions],
        "changes": changes_data(changes),
    }


def changes_data(changes: Changes) -> dict[str, Any]:
    shares = ("share_removed", "share_added", "share_tags")
    return dataclasses.asdict(changes) | {name: getattr(changes, name) for name in shares}


def _completion(completion: CompletionRecord, table: TokenTable) -> dict[str, Any]:
    size = completion.num_tokens
    pieces = completion.pieces
    if pieces is None:
        pieces = [str(position) for position in range(1, size + 1)]
    return {
        "rewards": [[visible(str(name)), _number(value)] for name, value in completion.rewards.items()],
        "advantage": _number(completion.advantage),
        "push": _number(completion.push),
        "entropy": _number(completion.entropy),
        "kept": completion.kept,
        "valid": completion.valid,
        "prefix": completion.prefix,
        "suffix": completion.suffix,
        "truncated": completion.truncated,
        "size": size,
        "has_ids": completion.token_ids is not None,
        "tokens": _indices(table.indices(completion.token_ids, pieces)),
        "stretches": [
            [stretch.size, _FATES.index(stretch.fate), _number(stretch.weight), _number(stretch.advantage)]
            for stretch in stretches(completion)
        ],
        "entropies": _halves(completion.token_entropy),
        "logps": _halves(completion.token_logp),
    }


def _indices(values: list[int]) -> str:
    return _base64(np.array(values, dtype="<u2" if max(values, default=0) < 2**16 else "<u4"))


def _halves(values: list[float | None] | None) -> str | None:
    """Three digits of each number; None is NaN."""
    if values is None:
        return None
    with np.errstate(over="ignore"):
        numbers = np.array(values, dtype=np.float64).clip(-_LARGEST_HALF, _LARGEST_HALF)
    return _base64(numbers.astype("<f2"))


def _base64(values: np.ndarray[Any, np.dtype[Any]]) -> str:
    return binascii.b2a_base64(values.tobytes(), newline=False).decode()


def _number(value: float | None) -> float | None:
    return float(f"{value:.5g}") if is_number(value) else None
