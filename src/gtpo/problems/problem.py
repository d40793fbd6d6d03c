"""The record that every problem set becomes, and what trainers and models need from it: messages and data sets."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from gtpo.errors import ConfigError

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
    """One question with its final answer alone; `solution` is "" where none is published, `source` says where from.

    `others` are the further columns of a file of one's own, for rewards.
    """

    question: str
    answer: str
    source: str
    solution: str = ""
    subject: str | None = None
    level: int | None = None
    others: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)


COLUMNS = tuple(one.name for one in fields(Problem) if one.name != "others")


def to_messages(problem: Problem, system_prompt: str | None = SYSTEM_PROMPT) -> list[dict[str, str]]:
    """The chat prompt of a problem; without a system message where `system_prompt` is None or "".

    >>> to_messages(Problem("2 + 3 = ?", "5", "mine"), "Be brief.")
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': '2 + 3 = ?'}]
    """
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    return [*system, {"role": "user", "content": problem.question}]


def to_dataset(problems: Iterable[Problem], system_prompt: str | None = SYSTEM_PROMPT) -> "Dataset":
    """A Hugging Face data set as TRL wants it: `prompt` as chat messages, the fields but the question, other columns.

    TRL hands the columns to reward functions as keyword lists, so `answer` arrives at `paper_reward` as it must.
    """
    from datasets import Dataset, Features, Value

    texts = {name: Value("string") for name in ("answer", "source", "solution", "subject")}
    message = {"role": Value("string"), "content": Value("string")}
    features = Features({"prompt": [message], **texts, "level": Value("int64")})
    problems = list(problems)
    rows = [vars(problem) | {"prompt": to_messages(problem, system_prompt)} for problem in problems]
    dataset = Dataset.from_dict({name: [row[name] for row in rows] for name in features}, features=features)
    for name in dict.fromkeys(name for problem in problems for name in problem.others):
        try:
            dataset = dataset.add_column(name, [problem.others.get(name) for problem in problems])
        except (ValueError, TypeError, OverflowError) as error:  # Arrow's own derive from the first two
            logger.warning("The column %r does not reach rewards: no data set takes its values (%s).", name, error)
    return dataset


def encode_prompt(tokenizer: Any, messages: Sequence[dict[str, str]]) -> list[int]:
    """Messages as the model expects them: by its chat template, or as plain paragraphs if it has none."""
    spoken = [message for message in messages if message["content"]]
    if not tokenizer.chat_template:
        return list(tokenizer("\n\n".join(message["content"] for message in spoken))["input_ids"])
    try:
        text = tokenizer.apply_chat_template(spoken, tokenize=False, add_generation_prompt=True)
    except Exception as error:
        raise ConfigError(
            f"The tokenizer's chat template refuses the prompt ({error}). "
            "If it knows no system message, give an empty one: --system-prompt ''."
        ) from error
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def filter_by_length(
    problems: Sequence[Problem], tokenizer: Any, max_prompt_tokens: int, system_prompt: str | None = SYSTEM_PROMPT
) -> tuple[list[Problem], int]:
    """The problems whose prompt, as `encode_prompt` makes it, has at most so many tokens; how many were dropped."""
    from tqdm.auto import tqdm

    kept: list[Problem] = []
    for problem in tqdm(problems, desc="measuring prompts", unit=" problems", disable=None):
        if len(encode_prompt(tokenizer, to_messages(problem, system_prompt))) <= max_prompt_tokens:
            kept.append(problem)
    num_dropped = len(problems) - len(kept)
    if num_dropped:
        logger.warning(
            "Dropped %d of %d problems longer than %d tokens.", num_dropped, len(problems), max_prompt_tokens
        )
    return kept, num_dropped
