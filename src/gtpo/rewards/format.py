"""The paper's format: reasoning between its tags, then the answer between its tags, then nothing more."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from gtpo.rewards.completions import Completion, completion_text

COMPLETE = 10.0
ONE_PAIR = 1.0
ONE_PAIR_AND_A_TAG = 1.5

_TAG = re.compile(r"</?(?:reasoning|answer)>")
_IN_ORDER = ["<reasoning>", "</reasoning>", "<answer>", "</answer>"]
_GAPS = "\u034f\u115f\u1160\u2800\u3164\uffa0"


def has_format(text: str) -> bool:
    """One closed <reasoning> pair, then one closed <answer> pair that ends the text, neither of them empty?

    >>> has_format("<reasoning>2 + 3 = 5</reasoning>\\n<answer>5</answer>"), has_format("<answer>5</answer>")
    (True, False)
    """
    tags = list(_TAG.finditer(text))
    if [tag[0] for tag in tags] != _IN_ORDER:
        return False
    reasoning, answer = text[tags[0].end() : tags[1].start()], text[tags[2].end() : tags[3].start()]
    return not _is_blank(reasoning) and not _is_blank(answer) and _is_blank(text[tags[3].end() :])


def format_score(text: str) -> float:
    """10 for the complete format; else 1 for a closed pair, 1.5 if a tag of the other kind appears too; else 0.

    >>> [format_score(text) for text in ("<answer>5</answer>", "<reasoning>so <answer>5</answer>", "5")]
    [1.0, 1.5, 0.0]
    """
    if has_format(text):
        return COMPLETE
    closed = [kind for kind in ("reasoning", "answer") if _is_closed(text, kind)]
    if not closed:
        return 0.0
    other = "answer" if closed[0] == "reasoning" else "reasoning"
    return ONE_PAIR_AND_A_TAG if f"<{other}>" in text or f"</{other}>" in text else ONE_PAIR


def format_reward(
    completions: Sequence[Completion], *, log_metric: Callable[[str, float], None] | None = None, **columns: Any
) -> list[float]:
    """The format part of the paper's reward, for TRL or by hand: completions as text or as chat messages.

    With TRL's `log_metric` the share of complete formats is logged as format.
    """
    scores = [format_score(completion_text(completion)) for completion in completions]
    if log_metric is not None and scores:
        log_metric("format", scores.count(COMPLETE) / len(scores))
    return scores


def _is_blank(text: str) -> bool:
    """Nothing that can be seen: white space, control and format characters, and letters that are drawn as a gap."""
    return all(
        character.isspace() or character in _GAPS or unicodedata.category(character) in ("Cc", "Cf")
        for character in text
    )


def _is_closed(text: str, kind: str) -> bool:
    start = text.find(f"<{kind}>")
    return start >= 0 and text.find(f"</{kind}>", start) >= 0
