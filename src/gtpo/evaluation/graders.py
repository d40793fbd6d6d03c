"""Graders: what decides whether a completion is right, by name or as a function of the user."""

import dataclasses
import inspect
import logging
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from gtpo.errors import DataError
from gtpo.evaluation.samples import Sample
from gtpo.importing import import_function, named_in_errors

ANSWER, BOXED, MATH_VERIFY = "answer", "boxed", "math-verify"
GRADERS = (ANSWER, BOXED, MATH_VERIFY)
"""The last <answer> pair or the last \\boxed{}, compared by meaning, or math-verify on the complete text."""

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Grader:
    """Extracts answers, which are then compared with the gold answers, or judges complete completions."""

    name: str
    extract: Callable[[str], str | None] | None = None
    judge: Callable[..., Any] | None = None

    @property
    def needs_answer(self) -> bool:
        """Whether a problem must have a gold answer."""
        return self.judge is None or needs_answer(self.judge)

    def verdicts(self, problems: Sequence[Sequence[Sample]]) -> list[list[bool]]:
        """Whether each sample of each problem is right, as `judge` decides."""
        rows = [(samples[0], sample) for samples in problems for sample in samples]
        scores = self._scores(rows)
        right: list[bool] = []
        for (first, sample), score in zip(rows, scores, strict=True):
            is_allowed = score is None or (isinstance(score, numbers.Real) and score in (0, 1))
            if not is_allowed:
                place = f"sample {sample.sample} of problem {first.problem}"
                raise DataError(
                    f"Grader {self.name} returned {score!r:.80} for {place}. Return True or False (1 or 0)."
                )
            right.append(bool(score))
        if num_unknown := sum(score is None for score in scores):
            logger.warning(
                "%s could not grade %d of %d samples: they count as wrong.", self.name, num_unknown, len(rows)
            )
        verdicts = iter(right)
        return [[next(verdicts) for _ in samples] for samples in problems]

    def _scores(self, rows: Sequence[tuple[Sample, Sample]]) -> list[Any]:
        """What `judge` returns for the samples, each given with the first sample of its problem."""
        columns = dict.fromkeys(name for first, _ in rows for name in first.columns or {})
        others = {name: [(first.columns or {}).get(name) for first, _ in rows] for name in columns}
        arguments: dict[str, Any] = {
            **others,
            "prompts": [[{"role": "user", "content": first.question or ""}] for first, _ in rows],
            "completions": [[{"role": "assistant", "content": sample.text}] for _, sample in rows],
            "answer": [sample.gold or None for _, sample in rows],
        }
        gets = "prompts, completions, answer and the columns of the data as keyword lists"
        with named_in_errors(f"Grader {self.name}", gets, "Fix it, then run the command again."):
            scores: Any = cast("Callable[..., Any]", self.judge)(**arguments)
            scores = scores.tolist() if hasattr(scores, "tolist") else scores  # an array
        if not isinstance(scores, Iterable) or len(scores := list(cast("Iterable[Any]", scores))) != len(rows):
            raise DataError(
                f"Grader {self.name} must return a list with a verdict for each of {len(rows)} completions."
            )
        return [score.item() if hasattr(score, "item") else score for score in scores]  # NumPy's booleans


def find_grader(name: str) -> Grader:
    """A grader by name, or any function as `package.module:function`."""
    from gtpo.rewards import extract_answer
    from gtpo.text import boxed

    if name == ANSWER:
        return Grader(name, extract=extract_answer)
    if name == BOXED:
        return Grader(name, extract=boxed)
    if name == MATH_VERIFY:
        from gtpo.rewards.harness import math_verify_score

        return Grader(name, judge=math_verify_score)
    return Grader(name, judge=import_function(name, kind="grader", named=GRADERS))


def needs_answer(function: Callable[..., Any]) -> bool:
    """Whether a reward or grader has a parameter `answer` without a default."""
    try:
        parameter = inspect.signature(function).parameters.get("answer")
    except (TypeError, ValueError):  # a built-in function has no signature
        return False
    return parameter is not None and parameter.default is inspect.Parameter.empty
