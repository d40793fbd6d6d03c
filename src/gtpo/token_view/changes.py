"""How much of a plain GRPO update GTPO changed, counted over groups.

Push is weighted as in the loss: |push| / |o_i| for each trained token of completion i.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence

from gtpo.records import CompletionRecord, GroupRecord
from gtpo.token_view.fates import in_conflict_run, token_fates

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
    share_removed: float | None = None  # down_skipped / down
    share_added: float | None = None  # up_added / up
    share_tags: float | None = None  # conflict_tags / conflicts


def count_changes(groups: Iterable[GroupRecord]) -> Changes:
    """The changes in all groups together."""
    changes = Changes()
    for group in groups:
        changes.groups += 1
        for completion in group.completions:
            _count(completion, changes)
    changes.share_removed = changes.down_skipped / changes.down if changes.down else None
    changes.share_added = changes.up_added / changes.up if changes.up else None
    changes.share_tags = changes.conflict_tags / changes.conflicts if changes.conflicts else None
    return changes


def tag_tokens(pieces: Sequence[str]) -> list[bool]:
    """Which tokens overlap a format tag such as <answer>. Special tokens such as <eos> are not format tags.

    >>> tag_tokens(["<", "answer", ">", "4", "</answer>", "<eos>"])
    [True, True, True, False, True, False]
    """
    text = "".join(pieces)
    in_tag = bytearray(len(text))
    for match in _TAG.finditer(text):
        if match[1].lower() not in _SPECIAL:
            in_tag[match.start() : match.end()] = b"\1" * len(match[0])
    ends = list(itertools.accumulate(map(len, pieces)))
    return [any(in_tag[end - len(piece) : end]) for piece, end in zip(pieces, ends, strict=True)]


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
    fates = token_fates(completion)
    is_tag = [False] * completion.num_tokens if completion.pieces is None else tag_tokens(completion.pieces)
    changes.protected += fates.count("skipped")
    changes.amplified += fates.count("amplified")
    for position, is_trained in enumerate(completion.trained):
        if is_trained and in_conflict_run(completion, position):
            weight = completion.token_weight[position] or 0.0
            changes.conflicts += 1
            changes.conflict_tags += is_tag[position]
            changes.down_skipped += max(-push, 0.0) * max(1 - weight, 0.0)
            changes.up_added += max(push, 0.0) * max(weight - 1, 0.0)
