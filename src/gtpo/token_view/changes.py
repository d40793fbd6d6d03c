"""How much of a plain GRPO update GTPO changed, counted over groups.

Push is weighted as in the loss: |push| / |o_i| for each trained token of completion i.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from gtpo.records import CompletionRecord, GroupRecord
from gtpo.token_view.fates import in_conflict_run, token_fates

_TAG = re.compile(r"</?([A-Za-z][\w-]{0,40})>")
_SPECIAL = {"s", "eos", "bos", "pad", "unk", "end_of_turn", "start_of_turn", "end_of_text"}


@dataclasses.dataclass(frozen=True)
class Changes:
    """Counts and sums. A share is None where its denominator is zero."""

    groups: int = 0
    groups_with_conflicts: int = 0
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
        """The share of the downward push that was skipped."""
        return self.down_skipped / self.down if self.down else None

    @property
    def share_added(self) -> float | None:
        """What amplification added, as a share of the upward push."""
        return self.up_added / self.up if self.up else None

    @property
    def share_tags(self) -> float | None:
        """The share of conflict tokens that are format tags."""
        return self.conflict_tags / self.conflicts if self.conflicts else None


def count_changes(groups: Iterable[GroupRecord]) -> Changes:
    """The changes in all groups together."""
    total = Changes()
    for group in groups:
        parts = [_of_completion(completion) for completion in group.completions]
        has_conflicts = any(part.conflicts for part in parts)
        total = _sum([total, Changes(groups=1, groups_with_conflicts=int(has_conflicts)), *parts])
    return total


def tag_tokens(pieces: Sequence[str]) -> list[bool]:
    """Which tokens overlap a format tag such as <answer>. Special tokens such as <eos> are not format tags.

    >>> tag_tokens(["<", "answer", ">", "4", "</answer>", "<eos>"])
    [True, True, True, False, True, False]
    """
    tags = [match.span() for match in _TAG.finditer("".join(pieces)) if match[1].lower() not in _SPECIAL]
    is_tag: list[bool] = []
    start, tag = 0, 0
    for piece in pieces:
        end = start + len(piece)
        while tag < len(tags) and tags[tag][1] <= start:
            tag += 1
        is_tag.append(tag < len(tags) and tags[tag][0] < end and start < tags[tag][1])
        start = end
    return is_tag


def _of_completion(completion: CompletionRecord) -> Changes:
    trained = sum(completion.trained)
    if not completion.valid:
        return Changes(completions=1)
    push = (completion.push or 0.0) / max(1, trained)
    counted = Changes(completions=1, tokens=trained, down=-min(push, 0) * trained, up=max(push, 0) * trained)
    if not completion.kept:
        return dataclasses.replace(counted, filtered=1)
    is_tag, fates = tag_tokens(completion.pieces), token_fates(completion)
    conflicts = [
        position
        for position, is_trained in enumerate(completion.trained)
        if is_trained and in_conflict_run(completion, position)
    ]
    weights = [completion.token_weight[position] or 0.0 for position in conflicts]
    return dataclasses.replace(
        counted,
        protected=fates.count("skipped"),
        amplified=fates.count("amplified"),
        conflicts=len(conflicts),
        conflict_tags=sum(is_tag[position] for position in conflicts),
        down_skipped=sum(-min(push, 0) * (1 - weight) for weight in weights if weight < 1),
        up_added=sum(max(push, 0) * (weight - 1) for weight in weights if weight > 1),
    )


def _sum(parts: Sequence[Changes]) -> Changes:
    names = [field.name for field in dataclasses.fields(Changes)]
    return Changes(**{name: sum(getattr(part, name) for part in parts) for name in names})
