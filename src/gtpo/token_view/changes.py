"""How much of a plain GRPO update GTPO changed, counted over groups.

Push is weighted as in the loss: |push| / |o_i| for each trained token of completion i.
"""

import dataclasses
import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from gtpo.records import CompletionRecord, GroupRecord
from gtpo.token_view.fates import stretches

_TAG = re.compile(r"</?([A-Za-z][\w-]{0,40})>")
_SPECIAL = {"s", "eos", "bos", "pad", "unk", "end_of_turn", "start_of_turn", "end_of_text"}


@dataclasses.dataclass
class Changes:
    """Counts and sums. A share is None where its denominator is zero."""

    groups: int = 0
    completions: int = 0
    filtered: int = 0
    tokens: int = 0  # trained
    protected: int = 0  # penalty skipped
    amplified: int = 0
    conflicts: int = 0  # trained tokens in a conflict run of a kept completion
    conflict_tags: int = 0  # those that overlap a <tag>
    down: float = 0.0  # downward push without λ and δ
    down_skipped: float = 0.0  # what λ removed from it
    up: float = 0.0
    up_added: float = 0.0  # what λ added to it

    @property
    def share_removed(self) -> float | None:
        return self.down_skipped / self.down if self.down else None

    @property
    def share_added(self) -> float | None:
        return self.up_added / self.up if self.up else None

    @property
    def share_tags(self) -> float | None:
        return self.conflict_tags / self.conflicts if self.conflicts else None

    def __add__(self, other: "Changes") -> "Changes":
        names = [field.name for field in dataclasses.fields(self)]
        return Changes(**{name: getattr(self, name) + getattr(other, name) for name in names})


def count_changes(groups: Iterable[GroupRecord]) -> Changes:
    """The changes in all groups together."""
    changes = Changes()
    for group in groups:
        changes.groups += 1
        for completion in group.completions:
            _count(completion, changes)
    return changes


def tag_tokens(pieces: Sequence[str]) -> set[int]:
    """The positions of the tokens that overlap a format tag such as <answer>. Special tokens are not format tags.

    >>> sorted(tag_tokens(["<", "answer", ">", "4", "</answer>", "<eos>"]))
    [0, 1, 2, 4]
    """
    text = "".join(pieces)
    tags = [match.span() for match in _TAG.finditer(text) if match[1].lower() not in _SPECIAL]
    if not tags:
        return set()
    ends = list(itertools.accumulate(map(len, pieces)))
    positions: set[int] = set()
    for start, end in tags:
        positions.update(range(bisect_right(ends, start), bisect_left(ends, end) + 1))
    return {position for position in positions if pieces[position]}


def _count(completion: CompletionRecord, changes: Changes) -> None:
    changes.completions += 1
    if not completion.valid:
        return
    num_trained = sum(completion.trained)
    push = (completion.push or 0.0) / max(1, num_trained)
    changes.tokens += num_trained
    changes.down += max(-push, 0.0) * num_trained
    changes.up += max(push, 0.0) * num_trained
    if not completion.kept:
        changes.filtered += 1
        return
    tags: set[int] | None = None
    position = 0
    for stretch in stretches(completion):
        start, position = position, position + stretch.size
        changes.protected += stretch.size if stretch.fate == "skipped" else 0
        changes.amplified += stretch.size if stretch.fate == "amplified" else 0
        if stretch.in_run and stretch.fate != "untrained":
            if tags is None:
                tags = tag_tokens(completion.pieces or [])
            weight = stretch.weight or 0.0
            changes.conflicts += stretch.size
            changes.conflict_tags += sum(place in tags for place in range(start, position))
            changes.down_skipped += stretch.size * max(-push, 0.0) * max(1 - weight, 0.0)
            changes.up_added += stretch.size * max(push, 0.0) * max(weight - 1, 0.0)
