"""The correctness part of the paper's reward, the whole of it, and weights for either."""

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gtpo.errors import DataError
from gtpo.rewards.answers import extract_answer
from gtpo.rewards.completions import Completion, completion_text
from gtpo.rewards.format import format_reward, has_format
from gtpo.rewards.grading.grader import default_grader

CORRECT = 10.0

LogMetric = Callable[[str, float], None]
Reward = Callable[..., list[float] | list[float | None]]


def correctness_reward(
    completions: Sequence[Completion],
    answer: Sequence[str | None],
    *,
    require_format: bool = True,
    log_metric: LogMetric | None = None,
    **columns: Any,
) -> list[float | None]:
    """10 where the <answer> is right and the format complete, else 0; None where the row has no gold answer.

    `answer` is the data set's column of gold answers, one a completion. With `require_format=False` a closed <answer>
    pair is enough. With TRL's `log_metric` accuracy, rewards/timeouts and rewards/crashes of a batch are logged.
    """
    texts = [completion_text(completion) for completion in completions]
    if isinstance(answer, str) or len(answer) != len(texts):
        raise DataError(
            f"answer must hold one gold answer a completion, got {len(answer)} for {len(texts)} completions."
        )
    asked: dict[int, tuple[str, str]] = {}
    for row, (text, gold) in enumerate(zip(texts, answer, strict=True)):
        if gold is not None and not isinstance(gold, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DataError(f"The gold answer of completion {row} must be text, got {gold!r}: convert it with str().")
        if gold is not None and not gold.strip():
            raise DataError(f"The gold answer of completion {row} is empty: drop such rows from the data set.")
        given = extract_answer(text) if has_format(text) or not require_format else None
        if gold is not None and given:
            asked[row] = (given, gold)
    verdicts = default_grader().grade([given for given, _ in asked.values()], [gold for _, gold in asked.values()])
    if log_metric is not None:
        counts = Counter(verdicts)
        log_metric("rewards/timeouts", float(counts["timeout"]))
        log_metric("rewards/crashes", float(counts["crash"]))
    right = {row for row, verdict in zip(asked, verdicts, strict=True) if verdict == "right"}
    num_with_gold = sum(gold is not None for gold in answer)
    if log_metric is not None and num_with_gold:
        log_metric("accuracy", len(right) / num_with_gold)
    return [None if gold is None else CORRECT * (row in right) for row, gold in enumerate(answer)]


def paper_reward(
    completions: Sequence[Completion],
    answer: Sequence[str | None],
    *,
    log_metric: LogMetric | None = None,
    **columns: Any,
) -> list[float | None]:
    """The reward of arXiv:2508.03772, from 0 to 20: 10 for the complete format and, with it, 10 for a right answer."""
    correct = correctness_reward(completions, answer, log_metric=log_metric)
    scores = format_reward(completions, log_metric=log_metric)
    return [None if part is None else score + part for score, part in zip(scores, correct, strict=True)]


def weighted(reward: Reward, weight: float, **options: Any) -> Reward:
    """The reward times a weight, under the same name in TRL's logs; `options` are fixed arguments of the reward.

    >>> weighted(lambda completions, **columns: [10.0, 0.0], 0.1)(completions=["right", "wrong"])
    [1.0, 0.0]
    """

    @functools.wraps(reward)
    def scaled(*args: Any, **columns: Any) -> list[float | None]:
        values = reward(*args, **options, **columns)
        return [None if value is None else weight * value for value in values]

    return scaled
