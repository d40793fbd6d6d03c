"""A handmade group like those of a GSM8K run: five completions of one prompt, whose tokens are words."""

import dataclasses
import math
import re
import sys
from pathlib import Path

from gtpo.files import JsonLines
from gtpo.records import CompletionRecord, GroupRecord

PROMPT = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. "
    "How many clips did Natalia sell altogether in April and May?"
)
TEXTS = [
    "<reasoning>\nIn April Natalia sold 48 clips. In May she sold 48 / 2 = 24. Together 48 + 24 = 72.\n</reasoning>\n"
    "<answer>72</answer><|end|>",
    "<reasoning>\nIn May she sold half of 48, which is 24 clips. 48 + 24 = 72\n</reasoning>\n"
    "<answer>72</answer><|end|>",
    "<reasoning>\nIn April she sold 48 and in May half, so 48 / 2 = 24 clips.\n</reasoning>\n"
    "<answer>24</answer><|end|>",
    "<reasoning>\nIn May she sold 24 clips, half of 48. So it is 48 + 24.\n<answer>72</answer><|end|>",
    "Half of of half clips May sold 48 or or 24 maybe 48 then April clips clips of and",
]
REWARDS = [(10.0, 10.0), (10.0, 10.0), (10.0, 0.0), (1.5, 0.0), (0.0, 0.0)]
ENTROPIES = [0.31, 0.38, 0.44, 0.52, 1.06]


def example_group(step: int = 41) -> GroupRecord:
    """The group, with λ and conflict runs computed by plain loops."""
    pieces = [re.findall(r"</?\w+>|<\|end\|>| ?\w+|\n| ?[^\w\s]", text) for text in TEXTS]
    vocabulary = {piece: 1000 + index for index, piece in enumerate(sorted({p for row in pieces for p in row}))}
    totals = [sum(scores) for scores in REWARDS]
    advantages = [total - sum(totals) / len(totals) for total in totals]
    completions = []
    for row, words in enumerate(pieces):
        rivals = [other for other, a in zip(pieces, advantages, strict=True) if a * advantages[row] < 0]
        prefix = run_length(words, rivals)
        suffix = run_length(words[::-1], [other[::-1] for other in rivals])
        kept = ENTROPIES[row] <= math.log(2)
        push = advantages[row] - 0.1 * ENTROPIES[row]
        shared = 2.0 if advantages[row] > 0 else 0.0
        weights = [shared] * prefix + [1.0] * (len(words) - prefix - suffix) + [shared] * suffix
        token_entropy = [0.1 * ENTROPIES[row]] * len(words)
        for position in range(prefix, len(words) - suffix):
            token_entropy[position] = ENTROPIES[row] * (1 + math.sin(2.1 * position + row))
        completions.append(
            CompletionRecord(
                token_ids=[vocabulary[word] for word in words],
                pieces=words,
                rewards=dict(zip(("format", "correct"), REWARDS[row], strict=True)),
                advantage=advantages[row],
                push=push,
                entropy=ENTROPIES[row],
                kept=kept,
                valid=True,
                prefix=prefix,
                suffix=suffix,
                token_weight=weights,
                token_advantage=[push * weight if kept else 0.0 for weight in weights],
                token_entropy=token_entropy,
                trained=[True] * len(words),
            )
        )
    return GroupRecord(step, PROMPT, completions, math.log(2), 0.42)


def run_length(words: list[str], rivals: list[list[str]]) -> int:
    for position, word in enumerate(words):
        if not any(position < len(rival) and rival[position] == word for rival in rivals):
            return position
    return len(words)


def save_groups(run: Path, *groups: GroupRecord) -> Path:
    """Append groups to the records of a run; returns its folder."""
    for group in groups:
        JsonLines(run / "groups.jsonl").append(dataclasses.asdict(group))
    return run


if __name__ == "__main__":
    save_groups(Path(sys.argv[1]), example_group())
