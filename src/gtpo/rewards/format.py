"""The paper's format: a <reasoning> pair, then an <answer> pair that ends the text."""

import re
from collections.abc import Sequence
from typing import Any

from gtpo.rewards.completions import LogMetric, TextOrMessages, completion_text
from gtpo.text import is_blank

COMPLETE_FORMAT_SCORE = 10.0
ONE_PAIR_SCORE = 1.0
ONE_PAIR_AND_A_TAG_SCORE = 1.5

_TAG = re.compile(r"</?(?P<kind>reasoning|answer)>")
_IN_ORDER = ["<reasoning>", "</reasoning>", "<answer>", "</answer>"]


def has_format(text: str) -> bool:
    """Whether the text is one closed <reasoning> pair, then one closed <answer> pair at its end, neither empty.

    Text before and between the pairs is allowed.

    >>> has_format("<reasoning>2 + 3 = 5</reasoning>\\n<answer>5</answer>"), has_format("<answer>5</answer>")
    (True, False)
    """
    tags = list(_TAG.finditer(text))
    if [tag[0] for tag in tags] != _IN_ORDER:
        return False
    reasoning, answer = text[tags[0].end() : tags[1].start()], text[tags[2].end() : tags[3].start()]
    return not is_blank(reasoning) and not is_blank(answer) and is_blank(text[tags[3].end() :])


def format_score(text: str) -> float:
    """10 for the complete format; else 1 for a closed pair, 1.5 with a tag of the other kind; else 0.

    >>> [format_score(text) for text in ("<answer>5</answer>", "<reasoning>so <answer>5</answer>", "5")]
    [1.0, 1.5, 0.0]
    """
    if has_format(text):
        return COMPLETE_FORMAT_SCORE
    if not any(_is_closed(text, kind) for kind in ("reasoning", "answer")):
        return 0.0
    kinds = {tag["kind"] for tag in _TAG.finditer(text)}
    return ONE_PAIR_AND_A_TAG_SCORE if len(kinds) > 1 else ONE_PAIR_SCORE


def format_reward(
    completions: Sequence[TextOrMessages], *, log_metric: LogMetric | None = None, **columns: Any
) -> list[float]:
    """The format part of the paper's reward. Completions are texts or chat messages.

    Logs the fraction of complete formats as `format` if TRL passes `log_metric`.
    """
    scores = [format_score(completion_text(completion)) for completion in completions]
    if log_metric is not None and scores:
        log_metric("format", scores.count(COMPLETE_FORMAT_SCORE) / len(scores))
    return scores


def tag_spans(text: str) -> list[tuple[int, int]]:
    """The characters that `format_reward` judges: those of its four tags.

    >>> tag_spans("so <answer>5</answer>")
    [(3, 11), (12, 21)]
    """
    return [tag.span() for tag in _TAG.finditer(text)]


format_reward.spans = tag_spans  # pyright: ignore[reportFunctionMemberAccess]


def _is_closed(text: str, kind: str) -> bool:
    start = text.find(f"<{kind}>")
    return start >= 0 and text.find(f"</{kind}>", start) >= 0
