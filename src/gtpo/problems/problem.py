"""The record that every problem set becomes, and what trainers and models need from it: messages and data sets."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset

SYSTEM_PROMPT = """\
Respond in the following format:
<reasoning>
...
</reasoning>
<answer>
...
</answer>
Think about the problem between <reasoning> and </reasoning>, then give the final answer alone between <answer> and \
</answer>."""
"""The paper's instruction, in our words: think between the reasoning tags, answer between the answer tags."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Problem:
    """One question with its final answer alone; `solution` is "" where none is published, `source` says where from."""

    question: str
    answer: str
    source: str
    solution: str = ""
    subject: str | None = None
    level: int | None = None


def to_messages(problem: Problem, system_prompt: str | None = SYSTEM_PROMPT) -> list[dict[str, str]]:
    """The chat prompt of a problem; without a system message where `system_prompt` is None or "".

    >>> to_messages(Problem("2 + 3 = ?", "5", "mine"), "Be brief.")
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': '2 + 3 = ?'}]
    """
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, {"role": "user", "content": problem.question}]


def to_dataset(problems: Iterable[Problem], system_prompt: str | None = SYSTEM_PROMPT) -> "Dataset":
    """A Hugging Face data set as TRL wants it: `prompt` as chat messages, and the record's fields but the question.

    TRL hands the columns to reward functions as keyword lists, so `answer` arrives at `paper_reward` as it must.
    """
    from datasets import Dataset, Features, Value

    texts = {name: Value("string") for name in ("answer", "source", "solution", "subject")}
    message = {"role": Value("string"), "content": Value("string")}
    features = Features({"prompt": [message], **texts, "level": Value("int64")})
    rows = [asdict(problem) | {"prompt": to_messages(problem, system_prompt)} for problem in problems]
    return Dataset.from_dict({name: [row[name] for row in rows] for name in features}, features=features)


def filter_by_length(
    problems: Sequence[Problem], tokenizer: Any, max_prompt_tokens: int, system_prompt: str | None = SYSTEM_PROMPT
) -> tuple[list[Problem], int]:
    """The problems whose prompt has at most so many tokens in the model's chat template, and how many were dropped."""
    from tqdm.auto import tqdm

    kept: list[Problem] = []
    for problem in tqdm(problems, desc="measuring prompts", unit=" problems", disable=None):
        prompt = to_messages(problem, system_prompt)
        text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        if len(tokenizer(text, add_special_tokens=False)["input_ids"]) <= max_prompt_tokens:
            kept.append(problem)
    num_dropped = len(problems) - len(kept)
    if num_dropped:
        logger.warning(
            "Dropped %d of %d problems longer than %d tokens.", num_dropped, len(problems), max_prompt_tokens
        )
    return kept, num_dropped
