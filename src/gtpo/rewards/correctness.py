"""The correctness part of the paper's reward, and the complete reward."""

from collections.abc import Sequence
from typing import Any

from gtpo.errors import DataError
from gtpo.rewards.answers import extract_answer
from gtpo.rewards.completions import LogMetric, TextOrMessages, completion_text, question_text
from gtpo.rewards.format import format_reward, has_format
from gtpo.rewards.grading import default_grader

CORRECT_ANSWER_SCORE = 10.0


def correctness_reward(
    completions: Sequence[TextOrMessages],
    answer: Sequence[str | None],
    *,
    prompts: Sequence[TextOrMessages] | None = None,
    require_format: bool = True,
    log_metric: LogMetric | None = None,
    **columns: Any,
) -> list[float | None]:
    """10 if the <answer> is right and the format complete, else 0; None for rows without a gold answer.

    `answer` is the column of gold answers, one per completion. `prompts`, which TRL passes, hold the questions. With
    `require_format=False` a closed <answer> pair is enough. Logs accuracy, rewards/timeouts and rewards/crashes
    of the batch if TRL passes `log_metric`.
    """
    texts = [completion_text(completion) for completion in completions]
    if isinstance(answer, str) or len(answer) != len(texts):
        raise DataError(f"answer must hold one gold answer per completion, got {len(answer)} for {len(texts)}.")
    if prompts is not None and len(prompts) != len(texts):
        raise DataError(f"prompts must hold one prompt per completion, got {len(prompts)} for {len(texts)}.")
    questions = [None] * len(texts) if prompts is None else [question_text(prompt) for prompt in prompts]
    graded: dict[int, tuple[str, str, str | None]] = {}
    for row, (text, gold) in enumerate(zip(texts, answer, strict=True)):
        if gold is None:
            continue
        if not isinstance(gold, str) or not gold.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DataError(
                f"The gold answer of completion {row} must be text and not empty, got {gold!r}. Convert the column "
                "with str(), or remove the row from the data set."
            )
        extracted = extract_answer(text) if has_format(text) or not require_format else None
        if extracted:
            graded[row] = (extracted, gold, questions[row])
    verdicts = default_grader().grade(*zip(*graded.values(), strict=True)) if graded else []
    right = {row for row, verdict in zip(graded, verdicts, strict=True) if verdict == "right"}
    num_with_gold = sum(gold is not None for gold in answer)
    if log_metric is not None:
        log_metric("rewards/timeouts", float(verdicts.count("timeout")))
        log_metric("rewards/crashes", float(verdicts.count("crash")))
        if num_with_gold:
            log_metric("accuracy", len(right) / num_with_gold)
    return [None if gold is None else CORRECT_ANSWER_SCORE * (row in right) for row, gold in enumerate(answer)]


def paper_reward(
    completions: Sequence[TextOrMessages],
    answer: Sequence[str | None],
    *,
    prompts: Sequence[TextOrMessages] | None = None,
    log_metric: LogMetric | None = None,
    **columns: Any,
) -> list[float | None]:
    """The reward of arXiv:2508.03772, from 0 to 20: 10 for the complete format and, with it, 10 for a right answer."""
    correct = correctness_reward(completions, answer, prompts=prompts, log_metric=log_metric)
    scores = format_reward(completions, log_metric=log_metric)
    return [None if part is None else score + part for score, part in zip(scores, correct, strict=True)]
