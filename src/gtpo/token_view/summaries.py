"""What a list of groups shows about each of them: what kind of group it is, its rewards and its lengths."""

import dataclasses
from collections.abc import Sequence
from statistics import fmean

from gtpo.files import is_number
from gtpo.records import CompletionRecord, GroupRecord
from gtpo.text import visible, visible_lines

PROMPT_LENGTH = 500
"""Characters of a prompt in the list, from its beginning and its end."""
_LONGEST_PROMPT = 20_000
"""Characters of a prompt from which those in the list are taken."""
_SHORTEST_START = 60
"""Characters that all prompts must share before they are left out."""
TIED = 1e-5
"""Smaller advantages count as zero."""


@dataclasses.dataclass(frozen=True)
class GroupSummary:
    """One group. The rewards are totals over the reward functions; they are None if no completion has one."""

    step: int
    number: int  # in its step, from 1
    kinds: list[str]  # tied, mixed, truncated, repeated
    num_completions: int
    mean_reward: float | None
    spread: float | None  # largest reward − smallest
    shortest: int  # tokens
    longest: int
    mean_length: float
    method: str
    reason: str
    prompt: str


def summarise(group: GroupRecord, number: int) -> GroupSummary:
    """The summary of the group with this number in its step."""
    rewards = [reward for reward in map(total_reward, group.completions) if reward is not None]
    lengths = [completion.num_tokens for completion in group.completions]
    return GroupSummary(
        step=group.step,
        number=number,
        kinds=_kinds(group),
        num_completions=len(lengths),
        mean_reward=fmean(rewards) if rewards else None,
        spread=max(rewards) - min(rewards) if rewards else None,
        shortest=min(lengths),
        longest=max(lengths),
        mean_length=round(fmean(lengths), 1),
        method=visible(group.method),
        reason=visible(group.reason) if group.reason else "",
        prompt="not recorded" if group.prompt is None else visible_lines(_shortened(group.prompt, _LONGEST_PROMPT)),
    )


def shared_start(summaries: Sequence[GroupSummary]) -> str:
    """The words with which all prompts start, such as a long system prompt; empty if they are few."""
    prompts = {summary.prompt for summary in summaries}
    if len(prompts) < 2:
        return ""
    first, last = min(prompts), max(prompts)
    num_equal = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    size = max(first.rfind(" ", 0, num_equal), first.rfind("\n", 0, num_equal)) + 1  # no word is divided
    return first[:size] if size >= _SHORTEST_START else ""


def with_short_prompts(summaries: Sequence[GroupSummary]) -> list[GroupSummary]:
    """The summaries as a list shows them: prompts of bounded length, without the start that all of them share."""
    start = shared_start(summaries)
    prompts = [f"… {summary.prompt[len(start) :]}" if start else summary.prompt for summary in summaries]
    return [
        dataclasses.replace(summary, prompt=_shortened(prompt, PROMPT_LENGTH))
        for summary, prompt in zip(summaries, prompts, strict=True)
    ]


def _shortened(text: str, length: int) -> str:
    """The beginning and the end of a text that is longer.

    >>> _shortened("abcdefgh", 4)
    'ab … gh'
    """
    return text if len(text) <= length else f"{text[: length // 2]} … {text[-(length // 2) :]}"


def total_reward(completion: CompletionRecord) -> float | None:
    """The recorded total, otherwise the sum over the reward functions, without their weights."""
    rewards = completion.rewards
    total = rewards.get("reward", completion.reward)
    if is_number(total):
        return total
    known = [reward for reward in rewards.values() if is_number(reward) and reward is not None]
    return sum(known) if known else None


def _kinds(group: GroupRecord) -> list[str]:
    """Tied: no completion has an advantage. Mixed: some are good and some are bad. Repeated: two are identical."""
    completions = group.completions
    advantages = [completion.advantage or 0.0 for completion in completions if completion.valid]
    is_good, is_bad = any(a > TIED for a in advantages), any(a < -TIED for a in advantages)
    texts = [completion.token_ids or completion.pieces for completion in completions]
    distinct = {tuple(tokens) for tokens in texts if tokens is not None}
    facts = {
        "tied": not is_good and not is_bad,
        "mixed": is_good and is_bad,
        "truncated": any(completion.truncated for completion in completions),
        "repeated": len(distinct) < sum(tokens is not None for tokens in texts),
    }
    return [kind for kind, is_so in facts.items() if is_so]
